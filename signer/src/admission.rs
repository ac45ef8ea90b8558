//! How many signatures are made and waited for at a time.
//!
//! A signature takes a processor for half a millisecond (RSA-2048) to some milliseconds (RSA-4096), and kube-apiserver waits
//! for it. Beyond what is signed within a fraction of a second, waiting only makes everybody late: what comes then is turned
//! away at once, and kube-apiserver's clients try again with pauses.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Signatures that are made or waited for at a time, unless it is said otherwise: a tenth of a second of RSA-2048 on one
/// processor.
pub const DEFAULT_CONCURRENCY: usize = 256;

/// The door to the processors.
#[derive(Clone, Debug)]
pub struct Admission {
    places: Arc<Semaphore>,
    processors: Arc<Semaphore>,
}

/// A place among those who wait for a signature; given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    processors: Arc<Semaphore>,
    _place: OwnedSemaphorePermit,
}

impl Admission {
    /// Lets `concurrency` wait for a signature at a time, and signs on as many threads as the machine has processors, less
    /// one for everything else.
    pub fn new(concurrency: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = processors.saturating_sub(1).max(1);
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { places: semaphore(concurrency), processors: semaphore(processors) }
    }

    /// A place, if there is one.
    pub fn admit(&self) -> Option<Place> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        Some(Place { processors: self.processors.clone(), _place: place })
    }
}

impl Place {
    /// Does the work of one signature on a thread where it keeps nobody waiting. `None` when it panicked.
    pub async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        // The semaphore is never closed.
        let processor = self.processors.clone().acquire_owned().await.ok()?;
        let done = spawn_blocking(move || {
            let done = work();
            drop(processor);
            done
        });
        done.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_is_told_at_once_and_a_place_is_given_back() {
        let admission = Admission::new(2);
        let places = (admission.admit().unwrap(), admission.admit().unwrap());
        assert!(admission.admit().is_none());
        drop(places.1);
        let place = admission.admit().unwrap();
        assert_eq!(place.work(|| 7).await, Some(7));
        assert_eq!(place.work(|| -> u8 { panic!("as a test") }).await, None);
        assert_eq!(place.work(|| 8).await, Some(8));
    }
}
