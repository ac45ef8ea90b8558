//! When whoever writes to the outside works: on the leader alone, whenever the index asks for something else, again
//! soon after a failure, and now and then to notice what others have changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::index::Publication;
use crate::leadership::Leading;

/// Brings one place to what the index asks for.
pub(crate) trait Round {
    /// Works once. Tells whether the place is as it should be; it is tried again soon if not.
    fn work(&mut self, publication: &Publication) -> impl Future<Output = bool> + Send;

    /// There is nothing to do: another replica leads, or there is nothing to publish yet.
    fn rest(&mut self) {}
}

/// What wakes a writer, and what ends it.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// How often an unchanged place is read again, so that a deleted or altered object is noticed.
    pub every: Duration,
    /// What the index asks for.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// Whether this replica publishes.
    pub leading: Leading,
    /// Ends the task between two rounds, never within one.
    pub shutdown: watch::Receiver<bool>,
}

impl Pace {
    /// Runs until shutdown.
    pub async fn run(mut self, mut round: impl Round) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        while !*self.shutdown.borrow_and_update() {
            // Leadership is asked again before every round; a plan of a former leader is never carried out.
            let leading = self.leading.now();
            let publication = self.publications.borrow_and_update().clone();
            let pause = match publication.filter(|_| leading) {
                None => {
                    round.rest();
                    self.every
                }
                Some(publication) => match round.work(&publication).await {
                    true => {
                        backoff.reset();
                        self.every
                    }
                    false => backoff.next_pause(),
                },
            };
            tokio::select! {
                changed = self.publications.changed() => if changed.is_err() { return },
                () = self.leading.changed() => {}
                changed = self.shutdown.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

/// The same problem is said once, not at every try.
#[derive(Debug, Default)]
pub(crate) struct LastProblem(Option<String>);

impl LastProblem {
    /// Whether this is another problem than the last one.
    pub fn is_new(&mut self, text: &str) -> bool {
        let is_new = self.0.as_deref() != Some(text);
        self.0 = Some(text.to_owned());
        is_new
    }

    /// It is over; the next one is new.
    pub fn is_over(&mut self) {
        self.0 = None;
    }
}
