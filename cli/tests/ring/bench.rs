//! A folder with a policy, and everything that it names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// There is no ring yet.
    pub fn new(policy: &str) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["ring", "keys", "issuer"] {
            fs::create_dir(bench.path(name)).unwrap();
        }
        fs::set_permissions(bench.path("keys"), fs::Permissions::from_mode(0o700)).unwrap();
        bench.write_secret("passphrase", "of the vault\n");
        fs::write(bench.path("rotation.yaml"), policy).unwrap();
        bench
    }

    pub fn write_secret(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn chancery(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(line.split_whitespace()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// `chancery ring` with the words of `line`, and the policy.
    pub fn ring(&self, line: &str) -> Command {
        self.chancery(&format!("ring {line} --policy rotation.yaml"))
    }

    pub fn run(&self, line: &str) -> Output {
        self.ring(line).output().unwrap()
    }

    #[track_caller]
    pub fn succeed(&self, line: &str) -> String {
        said(self.ring(line))
    }

    /// What was said when it was refused, to its output and as an error.
    #[track_caller]
    pub fn refuse(&self, line: &str) -> (String, String) {
        refused(self.ring(line))
    }

    /// The key ids in custody, in the order of their names.
    pub fn held(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("keys")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut kids: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".sealed.pem")?.to_owned())).collect();
        kids.sort();
        kids
    }
}

/// What a command says, which succeeds.
#[track_caller]
pub fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What a command says, which is refused.
#[track_caller]
pub fn refused(mut command: Command) -> (String, String) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{command:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}
