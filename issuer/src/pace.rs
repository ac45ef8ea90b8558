//! When whoever writes to the outside works: on the leader alone, whenever the index asks for something else, again
//! soon after a failure, and now and then to notice what others have changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::index::Publication;
use crate::leadership::Leading;

/// A round is a few requests, each with time limits of its own; one that takes longer hangs.
const LONGEST_ROUND: Duration = Duration::from_secs(60);

/// Brings one place to what the index asks for.
pub(crate) trait Round {
    /// Works once. Tells whether the place is as it should be; it is tried again soon if not.
    fn work(&mut self, publication: &Publication) -> impl Future<Output = bool> + Send;

    /// What is to be done once when a round takes longer than any should: the place hangs, and nobody can tell what it
    /// holds. The round goes on.
    fn overdue(&self) -> impl Fn() + Send + 'static;

    /// There is nothing to do: another replica leads, or there is nothing to publish yet.
    fn stand_down(&mut self) {}
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
                    round.stand_down();
                    self.every
                }
                Some(publication) => match watched(&mut round, &publication).await {
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

/// Works once, and has it said when that takes too long.
async fn watched(round: &mut impl Round, publication: &Publication) -> bool {
    let overdue = round.overdue();
    // Boxed: what a round takes is not kept between rounds.
    let mut work = Box::pin(round.work(publication));
    match timeout(LONGEST_ROUND, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            overdue();
            work.await
        }
    }
}
