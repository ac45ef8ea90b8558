//! Folders for servers' data and logs, all under one folder of this process.
//!
//! A folder is removed when it is dropped. What a killed process or a `static` leaves behind is removed by the next
//! process that asks for one: each process holds a lock on its own folder, so one without a holder is rubbish.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use tempfile::TempDir;

const PREFIX: &str = "chancery-e2e-";

/// A new empty folder, removed with everything in it on drop.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// `name` is what a person sees in the path; it need not be unique.
    pub fn new(name: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(root()?)?;
        Ok(Self(dir))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path inside the folder; nothing is made there.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file into the folder and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

/// Opens `path` and takes its lock, waiting for it.
pub(crate) fn locked(path: &Path) -> Result<File> {
    let file = open_lock(path)?;
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

/// Opens `path` and takes its lock if nobody holds it. The lock is given back when the file is closed.
pub(crate) fn locked_if_free(path: &Path) -> Result<Option<File>> {
    let file = open_lock(path)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn open_lock(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("open the lock file {}", path.display()))
}

fn root() -> Result<&'static Path> {
    static ROOT: OnceLock<(PathBuf, File)> = OnceLock::new();
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    if ROOT.get().is_none() {
        let made = make_root(&std::env::temp_dir())?;
        ROOT.get_or_init(|| made);
    }
    ROOT.get().map(|(path, _lock)| path.as_path()).context("no scratch folder")
}

/// The machine-wide lock covers making and sweeping: otherwise a folder could be swept before its owner locks it.
fn make_root(temp: &Path) -> Result<(PathBuf, File)> {
    let _machine = locked(&temp.join("chancery-e2e.lock"))?;
    sweep(temp);
    let root = tempfile::Builder::new().prefix(PREFIX).tempdir_in(temp)?.keep();
    let lock = locked(&root.join("owner.lock"))?;
    Ok((root, lock))
}

/// Best effort: what cannot be removed belongs to another user, or will be removed next time.
fn sweep(temp: &Path) {
    let Ok(entries) = fs::read_dir(temp) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if ours && path.is_dir() && matches!(locked_if_free(&path.join("owner.lock")), Ok(Some(_))) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}
