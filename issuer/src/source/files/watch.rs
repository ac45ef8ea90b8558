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

/// The folders that one source watches.
#[derive(Debug)]
pub(super) struct Watch {
    changed: Arc<Notify>,
    folders: BTreeSet<PathBuf>,
    failing: BTreeSet<PathBuf>,
}

impl Watch {
    /// Watches nothing yet. `changed` is notified of every change.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { changed, folders: BTreeSet::new(), failing: BTreeSet::new() }
    }

    /// Watches `folders` and nothing else. Called again, it also finds a folder that was replaced by another of
    /// the same name. Blocks as long as the file system does.
    pub fn cover(&mut self, folders: BTreeSet<PathBuf>) {
        // The system names a folder as it was first told, so that all readers must say the same name.
        let folders: BTreeSet<PathBuf> =
            folders.into_iter().map(|folder| folder.canonicalize().unwrap_or(folder)).collect();
        // Held to the end: what one source begins to watch, another must not cease to.
        let mut watcher = lock(&WATCHER);
        for folder in self.folders.difference(&folders) {
            self.leave(folder, watcher.as_mut());
        }
        for folder in folders.difference(&self.folders) {
            lock(&READERS).entry(folder.clone()).or_default().push(Arc::downgrade(&self.changed));
        }
        for folder in &folders {
            let Some(watcher) = watcher.as_mut() else { break };
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

    fn leave(&self, folder: &Path, watcher: Option<&mut RecommendedWatcher>) {
        let mut readers = lock(&READERS);
        let Some(here) = readers.get_mut(folder) else { return };
        here.retain(|reader| !std::ptr::eq(reader.as_ptr(), Arc::as_ptr(&self.changed)));
        if here.is_empty() {
            readers.remove(folder);
            // The thread that delivers events may need it to answer the watcher.
            drop(readers);
            // An error means that the folder has gone, and its events with it.
            let _ = watcher.map(|watcher| watcher.unwatch(folder));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watcher = lock(&WATCHER);
        for folder in &self.folders {
            self.leave(folder, watcher.as_mut());
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
