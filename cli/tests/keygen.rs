//! `chancery keygen` from the outside: files, modes, refusals, and openssl as the second opinion.

#![cfg(feature = "keygen")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder in which the tool and openssl run.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }

    fn write_private(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs `chancery keygen` with the words of `line`.
    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.arg("keygen").args(line.split_whitespace());
        command.current_dir(self.folder.path()).stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "keygen {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must be refused with exit code 1, and returns what it said.
    #[track_caller]
    fn refuse(&self, line: &str) -> String {
        let output = self.run(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "keygen {line}: {said}");
        assert!(output.stdout.is_empty(), "keygen {line}");
        assert!(!said.contains("PRIVATE KEY-----"), "{said}");
        said
    }

    #[track_caller]
    fn openssl(&self, line: &str) -> Vec<u8> {
        let mut command = Command::new("openssl");
        let output = command.args(line.split_whitespace()).current_dir(self.folder.path()).output();
        let output = output.expect("openssl is needed by these tests; install it");
        assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn key_id(&self, file: &str) -> String {
        let report: serde_json::Value =
            serde_json::from_str(&self.succeed(&format!("inspect --json {file}"))).unwrap();
        report["files"][0]["blocks"][0]["kid"].as_str().unwrap().to_owned()
    }
}

#[test]
fn new_writes_a_pair_for_the_owner_alone_and_never_twice() {
    let bench = Bench::new();
    let said = bench.succeed("new");
    assert_eq!(bench.names(), ["sa.key", "sa.pub"]);
    assert_eq!((bench.mode("sa.key"), bench.mode("sa.pub")), (0o600, 0o644));
    assert!(said.contains(&bench.key_id("sa.key")) && said.contains("RSA-2048"), "{said}");
    bench.openssl("pkey -in sa.key -check -noout");
    assert_eq!(bench.openssl("pkey -in sa.key -pubout"), bench.text("sa.pub").into_bytes());

    let before = bench.text("sa.key");
    let refusal = bench.refuse("new --algorithm p-256");
    assert!(refusal.contains("sa.key exists") && refusal.contains("--force"), "{refusal}");
    assert_eq!(bench.text("sa.key"), before);

    bench.succeed("new --algorithm p-256 --force");
    assert!(bench.text("sa.key").starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
    assert_eq!(bench.key_id("sa.key"), bench.key_id("sa.pub"));
    assert_eq!(bench.names(), ["sa.key", "sa.pub"]);
}

#[test]
fn half_a_pair_never_stays_behind() {
    let bench = Bench::new();
    fs::write(bench.path("taken.pub"), "theirs").unwrap();
    symlink("/nonexistent/elsewhere", bench.path("link.pub")).unwrap();
    for (public, flags, words) in [
        ("taken.pub", "", "taken.pub exists"),
        ("missing/sa.pub", "", "directory missing does not exist"),
        ("link.pub", "", "symbolic link to /nonexistent/elsewhere"),
        ("link.pub", "--force", "symbolic link to /nonexistent/elsewhere"),
        ("taken.pub/sa.pub", "--force", "is not a directory"),
        ("/proc/sa.pub", "", "/proc/sa.pub"),
    ] {
        let refusal =
            bench.refuse(&format!("new --algorithm p-256 --private sa.key --public {public} {flags}"));
        assert!(refusal.contains(words), "{public}: {refusal}");
        assert_eq!(bench.names(), ["link.pub", "taken.pub"], "{public}");
        assert_eq!(bench.text("taken.pub"), "theirs");
    }
}

#[test]
fn a_folder_without_permission_is_named() {
    let bench = Bench::new();
    fs::create_dir(bench.path("locked")).unwrap();
    fs::set_permissions(bench.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write everywhere, unless it gives that up.
    let line = "keygen new --algorithm p-256 --private sa.key --public locked/sa.pub";
    let mut command = if fs::write(bench.path("locked/probe"), "").is_ok() {
        fs::remove_file(bench.path("locked/probe")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-dac_override", env!("CARGO_BIN_EXE_chancery")]);
        command
    } else {
        Command::new(env!("CARGO_BIN_EXE_chancery"))
    };
    let output = command.args(line.split(' ')).current_dir(bench.folder.path()).output();
    let refusal = String::from_utf8(output.expect("setpriv of util-linux is needed here").stderr).unwrap();
    assert!(refusal.contains("no permission") && refusal.contains("locked/sa.pub"), "{refusal}");
    assert_eq!(bench.names(), ["locked"]);
}

#[test]
fn a_sealed_key_goes_to_openssl_and_back() {
    let bench = Bench::new();
    bench.write_private("passphrase", "correct horse battery\n");
    bench.succeed("new --algorithm p-256 --passphrase-file passphrase");
    assert!(bench.text("sa.key").starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
    let public = bench.openssl("pkey -in sa.key -passin file:passphrase -pubout");
    assert_eq!(public, bench.text("sa.pub").into_bytes());

    let refusal = bench.refuse("import sa.key --private open.key --public open.pub");
    assert!(refusal.contains("--passphrase-file"), "{refusal}");
    bench.write_private("wrong", "incorrect horse\n");
    let refusal = bench.refuse("import sa.key --passphrase-file wrong --private open.key --public open.pub");
    assert!(refusal.contains("passphrase does not open it") && !refusal.contains("incorrect"), "{refusal}");

    bench.succeed("import sa.key --passphrase-file passphrase --private open.key --public open.pub");
    assert!(bench.text("open.key").starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
    assert_eq!(bench.text("open.pub"), bench.text("sa.pub"));
    assert_eq!(bench.mode("open.key"), 0o600);
}

#[test]
fn a_key_that_openssl_sealed_is_imported() {
    let bench = Bench::new();
    bench.write_private("passphrase", "correct horse battery\n");
    bench.openssl("genpkey -algorithm RSA -aes256 -pass file:passphrase -out theirs.key");
    bench.succeed("import theirs.key --passphrase-file passphrase");
    assert!(bench.text("sa.key").starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
    let public = bench.openssl("pkey -in theirs.key -passin file:passphrase -pubout");
    assert_eq!(public, bench.text("sa.pub").into_bytes());
}

#[test]
fn a_passphrase_file_that_others_can_read_is_warned_of_and_an_empty_one_refused() {
    let bench = Bench::new();
    bench.write_private("passphrase", "");
    let refusal = bench.refuse("new --passphrase-file passphrase");
    assert!(refusal.contains("passphrase file is empty"), "{refusal}");
    fs::write(bench.path("passphrase"), "secret\n").unwrap();
    fs::set_permissions(bench.path("passphrase"), fs::Permissions::from_mode(0o644)).unwrap();
    bench.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out theirs.key");
    let output = bench.run("import theirs.key --passphrase-file passphrase");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("chmod 600 passphrase"), "{said}");
}

#[test]
fn import_turns_what_kube_apiserver_skips_into_what_it_reads() {
    let bench = Bench::new();
    bench.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out ec8.key");
    let report = bench.succeed("inspect ec8.key");
    assert!(report.contains("skipped by kube-apiserver: an EC private key in PKCS#8"), "{report}");
    let output = bench.run("import ec8.key");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("skips it in a key file"), "{said}");
    let report = bench.succeed("inspect sa.key");
    assert_eq!(report.matches("read by kube-apiserver").count(), 2, "{report}");
    assert_eq!(bench.key_id("ec8.key"), bench.key_id("sa.key"));
}

#[test]
fn import_asks_which_of_several_keys_is_meant() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.succeed(&format!("new --algorithm p-256 --private {name}.key --public {name}.pub"));
    }
    let refusal = bench.refuse("import a.key b.key");
    let wanted = bench.key_id("b.key");
    assert!(refusal.contains("2 private keys") && refusal.contains(&wanted), "{refusal}");
    bench.succeed(&format!("import a.key b.key --key-id {wanted}"));
    assert_eq!(bench.key_id("sa.key"), wanted);
    let refusal = bench.refuse("import a.pub --out-dir missing");
    assert!(refusal.contains("public keys alone"), "{refusal}");
}

#[test]
fn inspect_names_every_block_and_shows_nothing_private() {
    let bench = Bench::new();
    bench.openssl("ecparam -name prime256v1 -genkey -out ec.key");
    bench.openssl("genrsa -traditional -out rsa.key 2048");
    bench.openssl("rsa -in rsa.key -RSAPublicKey_out -out pkcs1.pub");
    let files = ["ec.key", "rsa.key", "pkcs1.pub"].map(|name| bench.text(name));
    fs::write(bench.path("all.pem"), files.concat()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&bench.succeed("inspect --json all.pem")).unwrap();
    let blocks = report["files"][0]["blocks"].as_array().unwrap();
    let column = |name: &str| blocks.iter().map(|block| block[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("label"), ["EC PARAMETERS", "EC PRIVATE KEY", "RSA PRIVATE KEY", "RSA PUBLIC KEY"]);
    assert_eq!(column("signs"), [false, true, false, false]);
    assert!(blocks[3]["problem"].as_str().unwrap().contains("PKCS#1"));

    let text = bench.succeed("inspect all.pem");
    assert!(text.contains("block 2 comes first and signs"), "{text}");
    let public = bench.succeed("inspect --public all.pem");
    assert_eq!(public.matches("-----BEGIN PUBLIC KEY-----").count(), 2, "{public}");
    let secret = files[1].lines().nth(8).unwrap().to_owned();
    assert!(![text, public, report.to_string()].iter().any(|shown| shown.contains(&secret)));
}

#[test]
fn bad_input_is_refused_with_the_remedy() {
    let bench = Bench::new();
    bench.openssl("genrsa -traditional -out rsa.key 2048");
    bench.openssl("rsa -in rsa.key -outform DER -out rsa.der");
    bench.openssl("genpkey -algorithm ED25519 -out ed25519.key");
    bench.openssl("rsa -in rsa.key -aes128 -traditional -passout pass:secret -out legacy.key");
    fs::write(bench.path("empty"), "").unwrap();
    fs::write(bench.path("huge"), vec![b'a'; (1 << 20) + 1]).unwrap();
    for (file, words) in [
        ("missing.key", "missing.key"),
        (".", "not a regular file"),
        ("empty", "no PEM block"),
        ("huge", "more than 1048576 bytes"),
        ("rsa.der", "-inform DER"),
        ("ed25519.key", "Ed25519"),
        ("legacy.key", "openssl pkey"),
    ] {
        let refusal = bench.refuse(&format!("import {file}"));
        assert!(refusal.contains(words), "{file}: {refusal}");
    }
    assert!(!bench.names().contains(&"sa.key".to_owned()));
}

#[test]
fn documents_are_written_without_a_newline_and_not_over_a_file() {
    let bench = Bench::new();
    bench.succeed("new --algorithm p-256");
    let key_id = bench.key_id("sa.pub");
    let jwks = bench.succeed("jwks --key sa.key");
    assert!(
        jwks.starts_with(&format!(r#"{{"keys":[{{"use":"sig","kty":"EC","kid":"{key_id}","crv":"P-256","#))
    );
    assert!(jwks.ends_with("]}"));
    bench.succeed("jwks --key sa.pub sa.key --output jwks.json");
    assert_eq!((bench.text("jwks.json"), bench.mode("jwks.json")), (jwks, 0o644));
    assert!(bench.refuse("jwks --key sa.pub --output jwks.json").contains("exists"));

    let discovery = bench.succeed("discovery --issuer https://id.example.com/a --key sa.pub");
    assert_eq!(
        discovery,
        r#"{"issuer":"https://id.example.com/a","jwks_uri":"https://id.example.com/a/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}"#
    );
}

#[test]
fn exports_keep_the_private_half_private_and_never_overwrite() {
    let bench = Bench::new();
    bench.succeed("new");
    for (format, private) in [
        ("kubeadm", "pki/sa.key"),
        ("kind", "sa.key"),
        ("capi-secret", "prod-sa.yaml"),
        ("k3s", "server/tls/service.key"),
        ("openshift", "tls/bound-service-account-signing-key.key"),
    ] {
        let line = format!(
            "export --format {format} --key sa.key --issuer https://id.example.com --cluster prod --out-dir {format}"
        );
        let refusal = bench.refuse(&line);
        assert!(refusal.contains("does not exist") && refusal.contains("mkdir"), "{refusal}");
        fs::create_dir(bench.path(format)).unwrap();
        let said = bench.succeed(&line);
        assert!(said.contains(private), "{said}");
        assert_eq!(bench.mode(&format!("{format}/{private}")), 0o600, "{format}");
        assert!(bench.text(&format!("{format}/README.md")).contains("--service-account-issuer="));
        let before = tree(&bench.path(format));
        assert!(bench.refuse(&line).contains("exists"), "{format}");
        assert_eq!(tree(&bench.path(format)), before, "{format}");
        bench.succeed(&format!("{line} --force"));
        assert_eq!(tree(&bench.path(format)), before, "{format}");
    }
    let refusal = bench
        .refuse("export --format kind --key sa.pub --issuer https://id.example.com --out-dir kind --force");
    assert!(refusal.contains("private key that is to sign"), "{refusal}");
}

/// Runs `chancery render` with the words of `line`.
fn render(bench: &Bench, line: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.arg("render").args(line.split_whitespace());
    let output = command.current_dir(bench.folder.path()).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn rendered_files_hold_no_private_key_and_are_never_overwritten() {
    let bench = Bench::new();
    bench.succeed("new");
    fs::create_dir(bench.path("accept")).unwrap();
    let line = "kubeadm --version v1.36.1 --issuer https://id.example.com --from https://old.example --phase accept \
                --key sa.pub --out-dir accept";
    let (code, said, complaint) = render(&bench, line);
    assert_eq!(code, Some(0), "{complaint}");
    assert!(said.contains("accept/README.md") && said.contains("cluster-configuration.yaml"), "{said}");
    assert_eq!(bench.text("accept/pki/sa.pub"), bench.text("sa.pub"));
    assert!(bench.text("accept/README.md").contains("migrate check accept"));
    let before = tree(&bench.path("accept"));
    let (code, _, complaint) = render(&bench, line);
    assert!(code == Some(1) && complaint.contains("exists"), "{complaint}");
    assert_eq!(tree(&bench.path("accept")), before);
    assert_eq!(render(&bench, &format!("{line} --force")).0, Some(0));

    let (code, _, complaint) = render(&bench, &line.replace("sa.pub", "sa.key"));
    assert!(code == Some(1) && complaint.contains("private key"), "{complaint}");
    let old =
        "talos --version v1.12.4 --issuer https://id.example.com --from https://10.0.0.1:6443 --phase switch";
    let (code, said, complaint) = render(&bench, old);
    assert!(code == Some(1) && said.is_empty() && complaint.contains("upgrade to Talos 1.13"), "{complaint}");
    for wrong in [
        "kubeadm --issuer https://id.example.com",
        "kubeadm --version 1.36 --issuer https://id.example.com --phase accept",
        "kubeadm --version latest --issuer https://id.example.com",
        "rancher --version 1.36 --issuer https://id.example.com",
    ] {
        assert_eq!(render(&bench, wrong).0, Some(2), "{wrong}");
    }
    let (code, said, _) = render(&bench, "k0s --version 1.36 --issuer https://id.example.com");
    assert!(code == Some(0) && said.contains("## Steps") && said.contains("## k0s-patch.yaml"), "{said}");
}

#[test]
fn the_commands_of_the_documentation_run_as_written() {
    let page = fs::read_to_string("../docs/keygen.md").unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script: String = blocks.filter(|block| !block.starts_with("cargo")).collect();
    assert!(script.contains("keygen new") && script.contains("keygen export"), "{script}");

    let bench = Bench::new();
    let tool = Path::new(env!("CARGO_BIN_EXE_chancery")).parent().unwrap();
    let path = format!("{}:{}", tool.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-euxc", &script]).env("PATH", path).current_dir(bench.folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((bench.mode("vault/passphrase"), bench.mode("export/pki/sa.key")), (0o600, 0o600));
    assert!(bench.text("jwks.json").contains(&bench.key_id("control-plane/sa.key")));
}

/// Every file below a folder with its content.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}
