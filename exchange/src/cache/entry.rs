//! What is known of one key.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::clock::Reading;
use super::schedule::{Freshness, Schedule, pause};
use super::{Labels, Outcome};
use crate::credential::Credential;
use crate::error::{Class, ExchangeError};

/// How long a refusal is remembered that only a person can mend.
const REFUSED: Duration = Duration::from_secs(5);
/// The longest that an answer may ask to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// One key.
pub(super) struct Entry {
    pub(super) labels: Labels,
    pub(super) last_used: u64,
    held: Option<Held>,
    flight: Option<OnItsWay>,
    refusal: Option<Refusal>,
    failures: u32,
    /// When it may be renewed again.
    next: Option<(Reading, Duration)>,
}

struct Held {
    credential: Arc<Credential>,
    came: Reading,
    schedule: Schedule,
}

struct OnItsWay {
    number: u64,
    receiver: watch::Receiver<Option<Outcome>>,
}

struct Refusal {
    error: ExchangeError,
    came: Reading,
    lasts: Duration,
}

/// What is there for somebody who asks.
pub(super) enum Found {
    Fresh(Arc<Credential>),
    Aging { credential: Arc<Credential>, renew: bool, is_stale: bool },
    Refused(ExchangeError),
    OnItsWay(watch::Receiver<Option<Outcome>>),
    Nothing,
}

/// What the keeping of a credential depends on.
pub(super) struct Moment {
    pub(super) now: Reading,
    pub(super) longest: Duration,
    pub(super) chance: f64,
}

impl Entry {
    pub(super) fn new(labels: Labels) -> Self {
        Self { labels, last_used: 0, held: None, flight: None, refusal: None, failures: 0, next: None }
    }

    /// What is there at a moment for somebody who needs it for `remaining` more.
    pub(super) fn find(&mut self, now: Reading, remaining: Duration) -> Found {
        // A task that panicked has dropped its half.
        self.flight.take_if(|flight| flight.receiver.has_changed().is_err());
        if let Some(held) = &self.held {
            let age = now.since(&held.came);
            let lasts = held.schedule.remaining(age) >= remaining;
            let credential = held.credential.clone();
            match held.schedule.at(age) {
                Freshness::Fresh if lasts => return Found::Fresh(credential),
                Freshness::Aging if lasts => {
                    let rested = self.next.is_none_or(|(since, rest)| now.since(&since) >= rest);
                    let renew = self.flight.is_none() && rested;
                    return Found::Aging { credential, renew, is_stale: self.failures > 0 };
                }
                Freshness::Fresh | Freshness::Aging => {}
                Freshness::Gone => self.held = None,
            }
        }
        self.refusal.take_if(|refusal| now.since(&refusal.came) >= refusal.lasts);
        match (&self.refusal, &self.flight) {
            (Some(refusal), _) => Found::Refused(refusal.error.clone()),
            (None, Some(flight)) => Found::OnItsWay(flight.receiver.clone()),
            (None, None) => Found::Nothing,
        }
    }

    /// Begins to wait for an exchange.
    pub(super) fn depart(&mut self, number: u64, receiver: watch::Receiver<Option<Outcome>>) {
        self.flight = Some(OnItsWay { number, receiver });
    }

    /// Whether it waits for this exchange.
    pub(super) fn awaits(&self, number: u64) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.number == number)
    }

    /// Whether it waits for any.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.flight.is_some()
    }

    /// Whether nothing would be lost without it.
    pub(super) fn is_useless(&self) -> bool {
        self.held.is_none() && self.flight.is_none() && self.refusal.is_none()
    }

    /// Keeps what came, if it lives long enough to be used twice.
    pub(super) fn keep(&mut self, credential: &Arc<Credential>, moment: Moment) {
        let lifetime = credential.duration(moment.now.wall);
        let schedule = Schedule::new(lifetime, moment.longest, moment.chance);
        self.held =
            schedule.map(|schedule| Held { credential: credential.clone(), came: moment.now, schedule });
        (self.flight, self.refusal, self.failures, self.next) = (None, None, 0, None);
    }

    /// Notes a failure. What is held stays.
    pub(super) fn fail(&mut self, error: &ExchangeError, now: Reading, chance: f64) {
        self.flight = None;
        self.failures = self.failures.saturating_add(1);
        let left = self
            .held
            .as_ref()
            .map_or(Duration::ZERO, |held| held.schedule.end.saturating_sub(now.since(&held.came)));
        let asked = error.failure().retry_after.map(|wait| wait.min(LONGEST_WAIT));
        self.next = Some((now, asked.unwrap_or_else(|| pause(self.failures, left, chance))));
        let lasts = match error.class() {
            Class::Permanent => Some(REFUSED),
            Class::Throttled => Some(asked.unwrap_or_else(|| pause(self.failures, LONGEST_WAIT * 4, 1.0))),
            Class::Transient | Class::Expired | Class::Source => None,
        };
        self.refusal = lasts.map(|lasts| Refusal { error: error.clone(), came: now, lasts });
    }
}
