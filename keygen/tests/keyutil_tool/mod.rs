//! client-go's own reader of key files, built by `tests/servers/install keyutil`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What kube-apiserver's two readers make of one file.
#[derive(Debug)]
pub struct Judgement {
    /// The key ids that `--service-account-key-file` gives, in its order.
    pub key_file: Vec<String>,
    /// The key that `--service-account-signing-key-file` gives: its key id, or its type in Go where that is a key
    /// kube-apiserver does not sign with.
    pub signing_file: Option<String>,
}

/// The program, or a loud word that a test is skipped. Where `CI` is set, a missing program is a failure.
pub fn program() -> Option<PathBuf> {
    let install = Path::new("../tests/servers/install");
    let found = Command::new(install).args(["--path", "keyutil"]).output().unwrap();
    if found.status.success() {
        return Some(String::from_utf8(found.stdout).unwrap().trim().into());
    }
    let reason = String::from_utf8_lossy(&found.stderr).trim().to_owned();
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{reason}");
    // Not `eprintln!`, which cargo captures from tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
    None
}

/// Asks it about files with these contents, in their order.
pub fn judge<'a>(program: &Path, files: impl Iterator<Item = &'a [u8]>) -> Vec<Judgement> {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = String::new();
    for (index, content) in files.enumerate() {
        let path = folder.path().join(index.to_string());
        std::fs::write(&path, content).unwrap();
        paths.push_str(&format!("{}\n", path.display()));
    }
    let mut command = Command::new(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(paths.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(judgement).collect()
}

fn judgement(line: &str) -> Judgement {
    let answer: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| Some(answer[name].as_str().unwrap().to_owned()).filter(|text| !text.is_empty());
    let key_file = answer["keyFile"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned());
    Judgement {
        key_file: key_file.collect(),
        signing_file: text("signingFile").or_else(|| text("signingType")),
    }
}
