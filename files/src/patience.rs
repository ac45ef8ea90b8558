//! Work on files with a time limit, on a thread that nothing waits for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::FileError;

/// How many threads may hang in the file system at once. Beyond it, work is refused before it begins: each costs
/// memory, and a disk that answers none of so many will not answer the next.
const MOST_HANGING: usize = 64;

/// Room for reading and writing; the work here does not recurse.
const STACK_BYTES: usize = 256 * 1024;

/// The work that was given up and has not ended, by path.
static HANGING: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());

/// Does `work` on `path` and waits for `time` at most; `action` says in an error what was tried, as in "cannot
/// {action} {path}".
///
/// Work that is given up goes on alone and may still take effect. Until it has ended, further work on the same path
/// is refused at once, so that nothing overtakes it and no second thread hangs behind it.
///
/// # Errors
/// Those of `work`; [`FileError::Hanging`] when it takes too long or earlier work on the path still hangs.
pub fn within<T: Send + 'static>(
    time: Duration,
    action: &'static str,
    path: &Path,
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    check(action, path)?;
    let (sender, result) = mpsc::sync_channel(1);
    let place = path.to_owned();
    let body = move || {
        let done = work();
        // Under the lock, so that the caller sees either the result or the time run out, and not half of each.
        let mut hanging = hanging();
        hanging.remove(&place);
        let _ = sender.try_send(done);
    };
    let started = Instant::now();
    let thread = thread::Builder::new().name("file".to_owned()).stack_size(STACK_BYTES).spawn(body);
    thread.map_err(|source| FileError::io(action, path, source))?;
    match result.recv_timeout(time) {
        Ok(done) => done,
        Err(RecvTimeoutError::Disconnected) => Err(stopped(action, path)),
        Err(RecvTimeoutError::Timeout) => {
            let mut hanging = hanging();
            result.try_recv().unwrap_or_else(|_| {
                hanging.insert(path.to_owned(), started);
                Err(FileError::Hanging { action, path: path.to_owned(), after: time })
            })
        }
    }
}

fn check(action: &'static str, path: &Path) -> Result<(), FileError> {
    let hanging = hanging();
    let oldest = if hanging.len() < MOST_HANGING { hanging.get(path) } else { hanging.values().min() };
    match oldest {
        None => Ok(()),
        Some(since) => Err(FileError::Hanging { action, path: path.to_owned(), after: since.elapsed() }),
    }
}

/// The work panicked: its thread is gone without a result.
fn stopped(action: &'static str, path: &Path) -> FileError {
    FileError::io(action, path, std::io::Error::other("the work on it was cut short by a fault of ours"))
}

fn hanging() -> MutexGuard<'static, BTreeMap<PathBuf, Instant>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_time_is_handed_over() {
        let path = Path::new("/patience/done");
        assert_eq!(within(Duration::from_secs(60), "read", path, || Ok(7)).unwrap(), 7);
        let refused = within(Duration::from_secs(60), "read", path, || {
            Err::<(), _>(FileError::NotAFile("/patience/done".into()))
        });
        assert!(matches!(refused, Err(FileError::NotAFile(_))));
    }

    #[test]
    fn what_hangs_is_given_up_and_nothing_overtakes_it() {
        let path = Path::new("/patience/frozen");
        let (release, wait) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        let given_up = within(Duration::from_millis(10), "read", path, move || {
            let _ = wait.recv();
            let _ = ended.send(());
            Ok(())
        });
        let error = given_up.unwrap_err();
        assert!(matches!(error, FileError::Hanging { .. }), "{error}");
        assert!(
            error.to_string().contains("/patience/frozen") && error.to_string().contains("read"),
            "{error}"
        );

        let mut begun = false;
        let overtaking = within(Duration::from_secs(60), "replace", path, || panic!("begun"));
        assert!(matches!(overtaking, Err::<(), _>(FileError::Hanging { action: "replace", .. })));
        let elsewhere = Path::new("/patience/elsewhere");
        begun |= within(Duration::from_secs(60), "read", elsewhere, || Ok(true)).unwrap();
        assert!(begun);

        release.send(()).unwrap();
        end.recv().unwrap();
        while hanging().contains_key(path) {
            thread::yield_now();
        }
        within(Duration::from_secs(60), "read", path, || Ok(())).unwrap();
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let outcome =
            within(Duration::from_secs(60), "read", Path::new("/patience/panic"), || -> Result<(), _> {
                panic!("on purpose")
            });
        assert!(outcome.unwrap_err().to_string().contains("/patience/panic"));
    }
}
