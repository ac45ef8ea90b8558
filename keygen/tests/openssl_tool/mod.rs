//! The system's `openssl`, as a second opinion that shares no code with us.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A scratch folder in which openssl works.
pub struct Openssl {
    directory: tempfile::TempDir,
}

impl Openssl {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs a command line whose words have no spaces, in the scratch folder, and returns what it printed.
    #[track_caller]
    pub fn run(&self, arguments: &str) -> Vec<u8> {
        self.try_run(arguments).unwrap_or_else(|error| panic!("openssl {arguments}: {error}"))
    }

    pub fn try_run(&self, arguments: &str) -> Result<Vec<u8>, String> {
        let mut command = Command::new("openssl");
        let output = command
            .args(arguments.split_whitespace())
            .current_dir(self.directory())
            .output()
            .expect("openssl is needed by these tests; install it");
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}
