//! The record as another process reads it: a standby, or a signer that waits for a key to be visible.

use std::time::Duration;

use super::{Obstacle, VisibilityRecord};
use crate::KeyId;

/// Tells by its own clock how old a record is, as the candidates for a Lease do: times in the record are those of
/// another clock, and an old copy looks like a new one.
///
/// Rules:
///
/// 1. A record speaks of now only after its counter was seen to move, once, since this reader exists. What was there at
///    the first reading may be of any age; and so may one whose counter is lower than before: somebody has put an older
///    record back.
/// 2. A counter that has moved did so after the reading before, which still saw the old one. Its age is counted from
///    there.
/// 3. A record that is older than the longest gap between two observations, by that count, speaks of the past.
#[derive(Clone, Debug, Default)]
pub struct RecordReader {
    last: Option<LastRecord>,
}

#[derive(Clone, Debug)]
struct LastRecord {
    record: VisibilityRecord,
    /// When it was read last.
    read_at: Duration,
    /// When it was certainly not there yet; `None` where it was not seen to move.
    newer_than: Option<Duration>,
}

impl RecordReader {
    /// Takes what is stored at `now`, a time by a monotonic clock of the caller that starts anywhere.
    pub fn read(&mut self, record: VisibilityRecord, now: Duration) {
        let newer_than = match &self.last {
            Some(last) if last.record.observations() == record.observations() => last.newer_than,
            Some(last) if last.record.observations() < record.observations() => Some(last.read_at),
            _ => None,
        };
        self.last = Some(LastRecord { record, read_at: now, newer_than });
    }

    /// The last record as it is at `now`, when it is seen to be kept up; its readings have become older meanwhile.
    ///
    /// # Errors
    /// Why it says nothing about now.
    pub fn current(&self, now: Duration) -> Result<VisibilityRecord, Obstacle> {
        let last = self.last.as_ref().ok_or(Obstacle::NoRecord)?;
        let newer_than = last.newer_than.ok_or(Obstacle::RecordAtRest)?;
        let age = now.saturating_sub(newer_than);
        if age > last.record.longest_gap() {
            let seconds = age.as_secs().saturating_add(u64::from(age.subsec_nanos() > 0));
            return Err(Obstacle::RecordTooOld { seconds });
        }
        Ok(last.record.clone().after(age))
    }

    /// The last record, of whatever age.
    pub fn last(&self) -> Option<&VisibilityRecord> {
        self.last.as_ref().map(|last| &last.record)
    }

    /// As [`VisibilityRecord::is_visible_everywhere`], at `now`.
    ///
    /// # Errors
    /// Everything that is in the way; a record that says nothing about now is.
    pub fn is_visible_everywhere(
        &self,
        kid: &KeyId,
        for_at_least: Duration,
        now: Duration,
    ) -> Result<(), Vec<Obstacle>> {
        self.current(now).map_err(|obstacle| vec![obstacle])?.is_visible_everywhere(kid, for_at_least)
    }
}
