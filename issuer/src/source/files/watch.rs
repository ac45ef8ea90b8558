//! Change events of folders.
//!
//! All sources of the process share one subscription with the system: Linux gives a user 128 of them by default
//! (`fs.inotify.max_user_instances`), and a process may publish a hundred issuers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tracing::warn;

/// Who wants to know of changes in which folder.
type Readers = BTreeMap<PathBuf, Vec<Weak<Notify>>>;

static READERS: Mutex<Readers> = Mutex::new(BTreeMap::new());

/// Never locked by the thread that delivers events, which the watcher waits for.
static WATCHER: LazyLock<Mutex<Option<RecommendedWatcher>>> = LazyLock::new(|| {
    let watcher = notify::recommended_watcher(|event: notify::Result<Event>| deliver(event.ok()));
    let watcher = watcher.inspect_err(|error| {
        warn!("no change events for key files, which are read now and then only: {error}");
    });
    Mutex::new(watcher.ok())
});

/// The folders that one source watches, and whether something has changed in them since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Watch {
    changed: Arc<Notify>,
    folders: BTreeSet<PathBuf>,
    failing: BTreeSet<PathBuf>,
}

impl Watch {
    /// Watches `folders` and nothing else. Called again, it also finds a folder that was replaced by another of
    /// the same name.
    pub fn cover(&mut self, folders: BTreeSet<PathBuf>) {
        // The system names a folder as it was first told, so that all readers must say the same name.
        let folders: BTreeSet<PathBuf> =
            folders.into_iter().map(|folder| folder.canonicalize().unwrap_or(folder)).collect();
        for folder in self.folders.difference(&folders) {
            self.leave(folder);
        }
        for folder in &folders {
            if !self.folders.contains(folder) {
                let reader = Arc::downgrade(&self.changed);
                lock(&READERS).entry(folder.clone()).or_default().push(reader);
            }
            let Some(watcher) = &mut *lock(&WATCHER) else { continue };
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.failing.remove(folder);
                }
                Err(error) if self.failing.insert(folder.clone()) => {
                    warn!("no change events for {}, read now and then only: {error}", folder.display());
                }
                Err(_) => {}
            }
        }
        self.folders = folders;
    }

    /// Returns when something has changed since it last returned.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn leave(&self, folder: &Path) {
        let mut readers = lock(&READERS);
        let Some(here) = readers.get_mut(folder) else { return };
        here.retain(|reader| !std::ptr::eq(reader.as_ptr(), Arc::as_ptr(&self.changed)));
        if here.is_empty() {
            readers.remove(folder);
            drop(readers);
            // An error means that the folder has gone, and its events with it.
            let _ = lock(&WATCHER).as_mut().map(|watcher| watcher.unwatch(folder));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for folder in &self.folders {
            self.leave(folder);
        }
    }
}

/// Wakes the readers of the folder in which something changed; all of them when it is not known where.
fn deliver(event: Option<Event>) {
    if event.as_ref().is_some_and(|event| !is_change(event.kind)) {
        return;
    }
    let paths = event.map(|event| event.paths).unwrap_or_default();
    let readers = lock(&READERS);
    let mut told = false;
    for path in &paths {
        let folders = [Some(path.as_path()), path.parent()];
        for reader in folders.into_iter().flatten().filter_map(|folder| readers.get(folder)).flatten() {
            told = true;
            if let Some(reader) = reader.upgrade() {
                reader.notify_one();
            }
        }
    }
    if !told {
        readers.values().flatten().filter_map(Weak::upgrade).for_each(|reader| reader.notify_one());
    }
}

/// Reading a file, which we do ourselves, is an event too.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
