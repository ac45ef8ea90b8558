//! The record as whoever asks sees it.

use std::time::Duration;

use chancery_core::KeyId;
use chancery_core::visibility::{Obstacle, RecordReader, VisibilityRecord};
use tokio::time::Instant;

/// The record as it was at some time, in the process that writes it or in one that reads it.
#[derive(Clone, Debug)]
pub struct VisibilitySnapshot {
    source: Source,
    usual_wait: Duration,
}

#[derive(Clone, Debug)]
enum Source {
    /// Of this process, as it was then.
    Observed { record: Box<VisibilityRecord>, at: Instant },
    /// Of another one, by a clock that started then.
    Read { reader: Box<RecordReader>, started: Instant },
}

impl VisibilitySnapshot {
    /// What this process has observed up to a time. `usual_wait` is what the declared relying parties need.
    pub fn observed(record: VisibilityRecord, at: Instant, usual_wait: Duration) -> Self {
        Self { source: Source::Observed { record: Box::new(record), at }, usual_wait }
    }

    /// What another process writes; `started` is the zero of the reader's times.
    pub fn read(reader: RecordReader, started: Instant, usual_wait: Duration) -> Self {
        Self { source: Source::Read { reader: Box::new(reader), started }, usual_wait }
    }

    /// Whether this process observes.
    pub fn is_observed_here(&self) -> bool {
        matches!(self.source, Source::Observed { .. })
    }

    /// The wait that is meant when nobody asks for one.
    pub fn usual_wait(&self) -> Duration {
        self.usual_wait
    }

    /// The record as it is now, for a person: what was seen grows older while nobody looks, and what another process
    /// wrote is shown however old it is.
    pub fn record(&self) -> VisibilityRecord {
        match &self.source {
            Source::Observed { record, at } => record.as_ref().clone().after(at.elapsed()),
            Source::Read { reader, .. } => reader.last().cloned().unwrap_or_default(),
        }
    }

    /// The record, and why it says nothing about now, if it does not: so that much can be asked of one copy.
    pub fn now(&self) -> (VisibilityRecord, Option<Obstacle>) {
        match &self.source {
            Source::Observed { .. } => (self.record(), None),
            Source::Read { reader, started } => match reader.current(started.elapsed()) {
                Ok(record) => (record, None),
                Err(obstacle) => (self.record(), Some(obstacle)),
            },
        }
    }

    /// As [`VisibilityRecord::is_visible_everywhere`], now.
    ///
    /// # Errors
    /// Everything that is in the way.
    pub fn is_visible_everywhere(&self, kid: &KeyId, wait: Duration) -> Result<(), Vec<Obstacle>> {
        match &self.source {
            Source::Observed { .. } => self.record().is_visible_everywhere(kid, wait),
            Source::Read { reader, started } => reader.is_visible_everywhere(kid, wait, started.elapsed()),
        }
    }
}
