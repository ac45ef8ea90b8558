//! The task, and what it found last: whoever rotates takes what was found last, and waits for nobody.

use std::time::Duration;

use chancery_core::KeyRing;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long the first finding is waited for, so that a command which looks once has one.
const FIRST: Duration = Duration::from_secs(30);

/// The ring as whoever rotates read it last.
pub(in crate::rotation) type RingSeen = watch::Receiver<Option<KeyRing>>;

/// The task, and what it found last.
#[derive(Debug)]
pub(in crate::rotation) struct Feed<T> {
    ring: watch::Sender<Option<KeyRing>>,
    found: watch::Receiver<Option<T>>,
    has_waited: bool,
    /// Ends with this.
    _task: JoinSet<()>,
}

impl<T: Clone + Send + Sync + 'static> Feed<T> {
    /// Begins a task that is told of the ring, and tells what it finds.
    pub fn begin<F: Future<Output = ()> + Send + 'static>(
        task: impl FnOnce(RingSeen, watch::Sender<Option<T>>) -> F,
    ) -> Self {
        let (ring, ring_seen) = watch::channel(None);
        let (finds, found) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(task(ring_seen, finds));
        Self { ring, found, has_waited: false, _task: tasks }
    }

    /// What was found last; `None` while nothing was found yet.
    pub async fn last(&mut self, ring: &KeyRing) -> Option<T> {
        self.ring.send_if_modified(|seen| {
            let is_new = seen.as_ref().is_none_or(|seen| seen.position() != ring.position());
            if is_new {
                *seen = Some(ring.clone());
            }
            is_new
        });
        if !self.has_waited {
            self.has_waited = true;
            _ = timeout(FIRST, self.found.wait_for(Option::is_some)).await;
        }
        self.found.borrow().clone()
    }
}
