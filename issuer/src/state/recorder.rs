//! Writes the state of one issuer while the service runs, and never makes anybody wait for long.
//!
//! A state that cannot be written delays a new key by [`PATIENCE`] and not at all while the next try is not due: a key
//! that is not recorded is foreign after a crash, which is untidy; one that is not published rejects tokens.

use std::time::Duration;

use chancery_cluster::backoff::Backoff;
use chancery_cluster::cell::{Cell, CellError, Swap, Version};
use chancery_cluster::error_chain;
use chancery_cluster::last_said::LastSaid;
use chancery_core::Owner;
use tokio::time::{Instant, timeout};
use tracing::{error, info};

use super::Saved;

/// How long one try may keep the collector from showing what changed.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pauses between tries, doubling from the first to the second.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// When nothing but time has passed it is recorded this often, so a crash costs a vanished key at most this much longer
/// a stay, and a cluster's store two hundred issuers at most one write in three seconds.
const AGE_EVERY: Duration = Duration::from_secs(600);

/// How often a document that was only touched, or that we had written ourselves, is tried again at once.
const TRIES: u32 = 3;

/// Of more writes that nobody has answered, the oldest is forgotten: if it stands there all the same, it passes for
/// another replica's, which costs a line in the log.
const UNANSWERED: usize = 8;

/// The state of one issuer as it stands in its cell, as far as we know.
#[derive(Debug)]
pub struct Recorder {
    cell: Cell<Saved>,
    saved: Saved,
    version: Option<Version>,
    /// What we wrote without having heard the answer: any of it may stand there.
    unanswered: Vec<Saved>,
    written: Instant,
    backoff: Backoff,
    retry: Option<Instant>,
    problem: LastSaid,
}

/// What came of recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The cell says what was wanted, up to the age of keys.
    Done,
    /// It does not yet: it could not be written, or is not tried again before [`Recorder::next_try`].
    Pending,
    /// Another replica has written something else since, which counts from now on.
    Outrun(Box<Saved>),
}

/// Why the state was not recorded.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error("the state was begun anew under the owner {0}; restart this replica so that it takes it over")]
    OtherOwner(Owner),
}

impl Recorder {
    /// A recorder of what was read in `version`, or is not there yet.
    pub(super) fn new(cell: Cell<Saved>, saved: Saved, version: Option<Version>) -> Self {
        Self {
            cell,
            saved,
            version,
            unanswered: Vec::new(),
            written: Instant::now(),
            backoff: Backoff::new(PAUSES.0, PAUSES.1),
            retry: None,
            problem: LastSaid::default(),
        }
    }

    /// What the cell says, as far as we know.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// How long until [`record`](Self::record) should be called again though nothing has changed; nothing if it need
    /// not.
    pub fn next_try(&self) -> Option<Duration> {
        self.retry.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Records `wanted`, unless it differs in nothing that matters by now or the next try is not due.
    pub async fn record(&mut self, wanted: Saved) -> Recorded {
        let fresh = self.written.elapsed() < AGE_EVERY;
        if self.unanswered.is_empty() && (wanted == self.saved || fresh && self.saved.has_only_aged(&wanted))
        {
            self.retry = None;
            return Recorded::Done;
        }
        if self.retry.is_some_and(|at| Instant::now() < at) {
            return Recorded::Pending;
        }
        if self.unanswered.len() == UNANSWERED {
            self.unanswered.remove(0);
        }
        self.unanswered.push(wanted.clone());
        match timeout(PATIENCE, self.write(&wanted)).await {
            Ok(Ok(Recorded::Pending)) => self.failed("others wrote first each time"),
            Ok(Ok(recorded)) => {
                self.succeeded();
                recorded
            }
            Ok(Err(problem)) => self.failed(&error_chain(&problem)),
            Err(_) => self.failed(&format!("{} did not answer within {PATIENCE:?}", self.cell.place())),
        }
    }

    async fn write(&mut self, wanted: &Saved) -> Result<Recorded, RecordError> {
        for _ in 0..TRIES {
            match self.cell.swap(wanted, self.version.as_ref()).await? {
                Swap::Swapped(version) => {
                    self.version = Some(version);
                    self.saved = wanted.clone();
                    self.written = Instant::now();
                    return Ok(Recorded::Done);
                }
                // Deleted behind our back: what it said, we know.
                Swap::Lost(None) => self.version = None,
                Swap::Lost(Some(found)) if found.document.owner != self.saved.owner => {
                    return Err(RecordError::OtherOwner(found.document.owner));
                }
                Swap::Lost(Some(found)) => {
                    let is_ours = found.document == self.saved || self.unanswered.contains(&found.document);
                    self.version = Some(found.version);
                    self.saved = found.document;
                    if !is_ours {
                        return Ok(Recorded::Outrun(Box::new(self.saved.clone())));
                    }
                }
            }
        }
        Ok(Recorded::Pending)
    }

    fn succeeded(&mut self) {
        if self.problem.forget() {
            info!(issuer = %self.saved.issuer, "the keys seen are recorded again");
        }
        self.unanswered.clear();
        self.retry = None;
        self.backoff.reset();
    }

    fn failed(&mut self, problem: &str) -> Recorded {
        if self.problem.is_new(problem) {
            error!(issuer = %self.saved.issuer, "cannot record the keys seen, trying again: {problem}");
        }
        self.retry = Some(Instant::now() + self.backoff.next_pause());
        Recorded::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use chancery_cluster::cell::{CellStore, StoreMode};
    use chancery_core::issuer_keys::RecordedKey;
    use chancery_core::{WithdrawalCause, Withdrawals};

    use super::*;
    use crate::state::{STATE, random_owner};

    const ISSUER: &str = "https://id.example.com";

    /// Two replicas' recorders of one new state.
    async fn replicas(directory: &Path) -> [Recorder; 2] {
        let store = CellStore::directory(directory, StoreMode::ReadWrite).await.unwrap();
        let cell: Cell<Saved> = store.cell(ISSUER, STATE);
        let saved = Saved::begin(ISSUER.parse().unwrap(), random_owner());
        let Swap::Swapped(version) = cell.swap(&saved, None).await.unwrap() else { panic!("not begun") };
        [(); 2].map(|()| Recorder::new(cell.clone(), saved.clone(), Some(version.clone())))
    }

    fn withdrawn(saved: &Saved, kids: usize) -> Saved {
        let kid = |n| format!("{n}{}", "A".repeat(42)).parse().unwrap();
        let mut saved = saved.clone();
        saved.record.withdrawals = Withdrawals::of((0..kids).map(kid), WithdrawalCause::Retired, 1);
        saved
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_that_could_not_be_written_is_written_as_soon_as_it_can_be() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("state");
        fs::create_dir(&directory).unwrap();
        let [mut recorder, _] = replicas(&directory).await;
        let wanted = withdrawn(recorder.saved(), 1);
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(recorder.record(wanted.clone()).await, Recorded::Pending);
        let pause = recorder.next_try().unwrap();
        assert!(pause <= PAUSES.0 * 5 / 4, "{pause:?}");
        fs::create_dir(&directory).unwrap();
        // Not before its time: whoever shows keys meanwhile does not wait for it.
        assert_eq!(recorder.record(wanted.clone()).await, Recorded::Pending);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);

        tokio::time::sleep(pause).await;
        assert_eq!(recorder.record(wanted.clone()).await, Recorded::Done);
        assert_eq!((recorder.next_try(), recorder.saved()), (None, &wanted));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_another_replica_has_written_counts_and_what_we_have_written_is_known_as_ours() {
        let directory = tempfile::tempdir().unwrap();
        let [mut first, mut second] = replicas(directory.path()).await;
        let theirs = withdrawn(first.saved(), 1);
        assert_eq!(first.record(theirs.clone()).await, Recorded::Done);
        let ours = withdrawn(second.saved(), 2);
        assert_eq!(second.record(ours.clone()).await, Recorded::Outrun(Box::new(theirs)));
        assert_eq!(second.record(ours.clone()).await, Recorded::Done);

        // Its answer to this write is lost, and something else is wanted by the time of the next.
        let unheard = withdrawn(&ours, 3);
        let before = second.version.clone();
        assert_eq!(second.record(unheard.clone()).await, Recorded::Done);
        (second.version, second.saved, second.unanswered) = (before, ours.clone(), vec![unheard]);
        assert_eq!(second.record(withdrawn(&ours, 4)).await, Recorded::Done);
    }

    #[tokio::test]
    async fn a_state_that_was_begun_anew_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let [mut first, mut second] = replicas(directory.path()).await;
        let anew = Saved { owner: random_owner(), ..first.saved().clone() };
        assert_eq!(first.record(anew.clone()).await, Recorded::Done);
        assert_eq!(second.record(withdrawn(second.saved(), 1)).await, Recorded::Pending);
        assert!(format!("{:?}", second.problem).contains(anew.owner.as_str()));
    }

    #[test]
    fn time_alone_is_no_news_and_time_that_starts_again_is() {
        let key = |name: &str, missing_for_seconds| RecordedKey {
            public_key: name.to_owned(),
            shown_by: [].into(),
            missing_for_seconds,
        };
        let mut before = Saved::begin(ISSUER.parse().unwrap(), "a".parse().unwrap());
        before.record.keys = vec![key("a", 10), key("b", 0)];
        for (keys, only_aged) in [
            (vec![key("a", 10), key("b", 0)], true),
            (vec![key("a", 400), key("b", 3)], true),
            (vec![key("a", 0), key("b", 0)], false),
            (vec![key("a", 10)], false),
            (vec![key("b", 10), key("a", 0)], false),
            (vec![key("a", 10), key("b", 0), key("c", 0)], false),
        ] {
            let mut after = before.clone();
            after.record.keys = keys;
            assert_eq!(before.has_only_aged(&after), only_aged, "{:?}", after.record.keys);
        }
        assert!(!before.has_only_aged(&withdrawn(&before, 1)));
    }
}
