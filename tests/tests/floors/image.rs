//! An image holds one program, certificates and a name for its user; the same program gives the same bytes.

use std::path::Path;
use std::process::{Command, Output};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;

const SCRIPT: &str = "../image/layout";

/// A layout of a file as the program.
fn layout(program: &Path, out: &Path) -> Output {
    let mut command = Command::new(SCRIPT);
    command.arg("--program").arg(program).arg("--certificates").arg("../LICENSE").arg("--out").arg(out);
    command.args(["--title", "x", "--version", "1.2.3", "--revision", "abc", "--date", "1700000000"]);
    command.output().unwrap()
}

fn sha256(content: &[u8]) -> String {
    let hex = digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{hex}")
}

/// The blob that a document refers to, whose name and size are those of its content.
fn blob(folder: &Path, referred: &Value) -> Vec<u8> {
    let name = referred["digest"].as_str().unwrap();
    let content =
        std::fs::read(folder.join("blobs/sha256").join(name.strip_prefix("sha256:").unwrap())).unwrap();
    assert_eq!((sha256(&content), referred["size"].as_u64()), (name.to_owned(), Some(content.len() as u64)));
    content
}

fn document(folder: &Path, referred: &Value) -> Value {
    serde_json::from_slice(&blob(folder, referred)).unwrap()
}

#[test]
fn an_image_is_the_same_bytes_twice_and_holds_nothing_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::write(&program, "a program").unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let answers = [&first, &second].map(|out| layout(&program, out));
    assert!(answers.iter().all(|answer| answer.status.success()), "{answers:?}");
    assert_eq!(answers[0].stdout, answers[1].stdout);

    let index: Value = serde_json::from_slice(&std::fs::read(first.join("index.json")).unwrap()).unwrap();
    let named = &index["manifests"][0];
    assert_eq!(format!("{}\n", named["digest"].as_str().unwrap()).as_bytes(), answers[0].stdout);
    let manifest = document(&first, named);
    let config = document(&first, &manifest["config"]);
    let of_config = |name: &str| config["config"][name].to_string();
    assert_eq!(
        (of_config("User"), of_config("Entrypoint")),
        (r#""65532:65532""#.into(), r#"["/chancery"]"#.into())
    );
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");

    let layer = folder.path().join("layer.tar.gz");
    std::fs::write(&layer, blob(&first, &manifest["layers"][0])).unwrap();
    let archive =
        Command::new("gzip").args(["--decompress", "--stdout"]).arg(&layer).output().unwrap().stdout;
    assert_eq!(
        config["rootfs"]["diff_ids"][0],
        sha256(&archive),
        "what a runtime checks after it unpacked the layer"
    );
    let list = Command::new("tar")
        .args(["--list", "--verbose", "--numeric-owner", "--utc", "--file"])
        .arg(&layer)
        .output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    let lines: Vec<String> =
        list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "-r-xr-xr-x 0/0 9 2023-11-14 22:13 chancery",
        "drwxr-xr-x 0/0 0 2023-11-14 22:13 etc/",
        "-r--r--r-- 0/0 80 2023-11-14 22:13 etc/passwd",
        "drwxr-xr-x 0/0 0 2023-11-14 22:13 etc/ssl/",
        "drwxr-xr-x 0/0 0 2023-11-14 22:13 etc/ssl/certs/",
    ];
    assert_eq!(lines[..5], expected);
    assert!(lines[5].ends_with("etc/ssl/certs/ca-certificates.crt") && lines.len() == 6, "{lines:?}");
}

#[test]
fn an_image_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("image");
    let answer = layout(&folder.path().join("no program"), &out);
    assert!(
        !answer.status.success() && String::from_utf8_lossy(&answer.stderr).contains("no program"),
        "{answer:?}"
    );
    assert!(!out.exists());
    let program = folder.path().join("program");
    std::fs::write(&program, "a program").unwrap();
    assert!(layout(&program, &out).status.success());
    let again = layout(&program, &out);
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"), "{again:?}");
}
