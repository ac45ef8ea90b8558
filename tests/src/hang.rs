//! A folder that stops answering, as a network mount does whose server is gone.

use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Whatever looks below this folder waits until it is killed, or until this value is dropped: an automount is asked for
/// each name, and nobody answers it. What was opened before stays open.
#[derive(Debug)]
pub struct HangingFolder {
    folder: PathBuf,
    /// What the kernel asks. Closed, it would give up asking.
    _questions: PipeReader,
}

impl HangingFolder {
    /// Why it cannot be made here, if it cannot: only root may mount, of a kernel that knows automounts.
    pub fn obstacle() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("a folder that hangs is an automount, and only root may mount".to_owned());
        }
        let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !kinds.lines().any(|line| line.split_whitespace().last() == Some("autofs")) {
            return Some("a folder that hangs is an automount, and this kernel has none (autofs)".to_owned());
        }
        let rights = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
        let may_mount = rights.is_ok_and(|status| status.success());
        (!may_mount).then(|| "a folder that hangs is an automount, and this root may not mount".to_owned())
    }

    /// Lets `folder` hang from now on.
    pub fn over(folder: &Path) -> Result<Self> {
        let (questions, asks) = std::io::pipe()?;
        // In a group of its own, since the kernel answers the group of whoever mounts by itself.
        let mut mount = Command::new("setsid");
        mount.args([
            "--wait",
            "mount",
            "-i",
            "-t",
            "autofs",
            "-o",
            "fd=0,minproto=5,maxproto=5,indirect",
            "hang",
        ]);
        let status = mount.arg(folder).stdin(asks).status().context("run setsid mount")?;
        ensure!(status.success(), "cannot mount over {}: {status}", folder.display());
        Ok(Self { folder: folder.to_owned(), _questions: questions })
    }
}

impl Drop for HangingFolder {
    fn drop(&mut self) {
        // Whoever still waits there does not keep it.
        let _ = Command::new("umount").args(["-i", "-l"]).arg(&self.folder).status();
    }
}
