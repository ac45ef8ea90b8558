//! For how long every replica has signed for the new issuer.
//!
//! The command that looks runs now and then, so the time between two of its runs is what counts. Rules:
//!
//! 1. It is taken from a clock that runs from the start of the machine and goes on in its sleep, and that nobody sets
//!    (`CLOCK_BOOTTIME`, clock_gettime(2)). The wall clock is not asked. Between two starts of the machine, or two
//!    machines, nothing counts.
//! 2. It counts when every replica signed for the new issuer at both runs.
//! 3. A replica that signs for another issuer sets all of it to nothing. One that cannot be asked only stops the time: so
//!    whoever turns a replica back looks while it is so.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::IssuerUrl;

/// What all replicas do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Every one signs for the new issuer.
    AllForNew,
    /// Some were not seen; the others sign for the new issuer.
    NotAllSeen,
    /// At least one signs for another.
    SomeForAnother,
}

/// A time by the clock of one start of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// Which start of which machine: `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Seconds since then.
    pub seconds: u64,
}

/// The wait as it is written down: a document of the kind [`WaitRecord::DOCUMENT`]. Fields that are not known are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitRecord {
    from: String,
    to: IssuerUrl,
    /// Seconds that count.
    #[serde(default)]
    waited_seconds: u64,
    /// When every replica was last seen to sign for the new issuer, if they were when it was looked last.
    #[serde(default)]
    last: Option<Moment>,
    /// What a later release wrote here.
    #[serde(flatten)]
    later: Map<String, Value>,
}

impl WaitRecord {
    /// The name of the document's kind.
    pub const DOCUMENT: &'static str = "issuer-migration";
    /// The newest form of the document that this program knows.
    pub const DOCUMENT_VERSION: u32 = 1;

    /// Nothing was waited yet.
    pub fn new(from: &str, to: &IssuerUrl) -> Self {
        Self { from: from.to_owned(), to: to.clone(), waited_seconds: 0, last: None, later: Map::new() }
    }

    /// Whether it is of the migration from one issuer to another.
    pub fn is_of(&self, from: &str, to: &IssuerUrl) -> bool {
        self.from == from && self.to == *to
    }

    /// Takes a look at all replicas; `now` is missing where the machine has no such clock.
    pub fn look(&mut self, signing: Signing, now: Option<Moment>) {
        if signing == Signing::SomeForAnother {
            self.waited_seconds = 0;
        }
        let now = now.filter(|_| signing == Signing::AllForNew);
        if let (Some(last), Some(now)) = (&self.last, &now)
            && last.boot == now.boot
        {
            let passed = now.seconds.saturating_sub(last.seconds);
            self.waited_seconds = self.waited_seconds.saturating_add(passed);
        }
        self.last = now;
    }

    /// How much of the wait is over.
    pub fn waited(&self) -> Duration {
        Duration::from_secs(self.waited_seconds)
    }
}
