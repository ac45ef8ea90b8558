//! Key files and folders of key files, watched.
//!
//! A change is seen through the folder's own change events, so that an atomic rename, an editor's swap and
//! kubelet's exchange of the `..data` link all count, and by a look now and then for file systems that send none.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::scan::Scan;
use self::watch::Watch;
use super::SourceError;
use super::parts::Parts;
use super::reporter::SourceReporter;
use crate::turns::Turns;

mod scan;
mod watch;

/// A change is read when the folder has been quiet for so long: a writer that closes, renames and sets a mode
/// within it is read once.
const QUIET: Duration = Duration::from_millis(20);

/// A folder that never becomes quiet is read after so long anyway.
const RESTLESS: Duration = Duration::from_millis(80);

/// A look that takes longer is a file system that hangs.
const SLOWEST_LOOK: Duration = Duration::from_secs(10);

/// `files`: key files and folders of key files.
///
/// ```yaml
/// files:
///   paths: [/etc/kubernetes/pki/sa.pub, /etc/chancery/keys]
///   pollSeconds: 10
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FilesSource {
    /// PEM files, and folders of which every `*.pub`, `*.pem` and `*.crt` file is read in the order of their names
    /// (hidden files are not). The keys are published in this order. A relative path starts at the folder of the
    /// configuration. Each must exist at the start; later, a file that is deleted takes its keys away, while a
    /// folder that is not there keeps them, since it is more likely to be unmounted than deleted.
    pub paths: Vec<PathBuf>,
    /// Seconds between two looks at a file system that reports no changes, such as NFS.
    #[serde(default = "default_poll_seconds")]
    pub poll_seconds: NonZeroU64,
}

/// Ten seconds: what a key that appears may wait at most, and nothing to a disk.
fn default_poll_seconds() -> NonZeroU64 {
    NonZeroU64::new(10).unwrap_or(NonZeroU64::MIN)
}

impl fmt::Display for FilesSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        write!(f, "files {}", paths.join(", "))
    }
}

/// Each look is a thread.
static LOOKS: Turns = Turns::new(8, Duration::from_secs(30));

/// A [`FilesSource`] whose paths all exist.
#[derive(Debug)]
pub(super) struct Files {
    paths: Vec<PathBuf>,
    poll: Duration,
    parts: Parts,
}

impl Files {
    pub fn open(config: &FilesSource, base_dir: &Path) -> Result<Self, SourceError> {
        if config.paths.is_empty() {
            let problem = "no path given; name a key file, or a folder of key files".to_owned();
            return Err(SourceError::Value { field: "files.paths", problem });
        }
        let paths: Vec<PathBuf> = config.paths.iter().map(|path| base_dir.join(path)).collect();
        for path in &paths {
            let readable = scan::readable(path);
            readable.map_err(|source| SourceError::Path { path: path.clone(), source })?;
        }
        Ok(Self { paths, poll: Duration::from_secs(config.poll_seconds.get()), parts: Parts::default() })
    }

    pub async fn run(mut self, mut reporter: SourceReporter) {
        let changed = Arc::new(Notify::new());
        let mut watch = Watch::new(Arc::clone(&changed));
        loop {
            let names = self.parts.names().map(str::to_owned).collect();
            let paths = self.paths.clone();
            let turn = LOOKS.take().await;
            let look = spawn_blocking(move || {
                let looked = look(watch, &paths, &names);
                drop(turn);
                looked
            });
            match patiently(look, &mut reporter).await {
                Ok((covered, Scan { parts, missing })) => {
                    watch = covered;
                    let mut reading = self.parts.apply(parts);
                    reading.complain(missing);
                    reporter.report(reading).await;
                }
                Err(error) => {
                    watch = Watch::new(Arc::clone(&changed));
                    reporter.fail(format!("the look at the files was cut short: {error}")).await;
                }
            }
            let _ = timeout(self.poll, settled(&changed)).await;
        }
    }
}

fn look(mut watch: Watch, paths: &[PathBuf], names: &BTreeSet<String>) -> (Watch, Scan) {
    // Watched first, so that nothing can change unseen between reading and watching.
    watch.cover(folders(paths));
    (watch, scan::scan(paths, names))
}

/// The folders whose change may change a key: the given ones, those of the given files, and those that the files
/// are linked into.
fn folders(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let linked = paths.iter().filter_map(|path| path.canonicalize().ok());
    let all = paths.iter().cloned().chain(linked);
    all.filter_map(|path| if path.is_dir() { Some(path) } else { path.parent().map(Path::to_owned) })
        .collect()
}

/// Waits for a look, and says so when it takes too long. A file system that hangs cannot be left: it is looked at again
/// when it has answered.
async fn patiently<T>(mut look: JoinHandle<T>, reporter: &mut SourceReporter) -> Result<T, JoinError> {
    loop {
        match timeout(SLOWEST_LOOK, &mut look).await {
            Ok(done) => return done,
            Err(_) => {
                let seconds = SLOWEST_LOOK.as_secs();
                reporter.fail(format!("the file system has not answered for more than {seconds} s")).await;
            }
        }
    }
}

/// Waits for a change, and then until it is over.
async fn settled(changed: &Notify) {
    changed.notified().await;
    let limit = Instant::now() + RESTLESS;
    loop {
        tokio::select! {
            () = changed.notified() => {}
            () = sleep(QUIET) => return,
            () = sleep_until(limit) => return,
        }
    }
}

#[cfg(test)]
mod tests;
