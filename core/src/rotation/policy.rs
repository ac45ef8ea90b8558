//! What the owner of a ring wants.

use std::collections::BTreeSet;
use std::time::Duration;

use super::canary::{self, DeclaredCanary};
use super::supply::KeySupply;
use crate::Algorithm;
use crate::profile::{RelyingParty, Wait, list, pre_publication_wait};
use crate::ring::{RingKey, TokenLifetimes};

/// When the next key is to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// When a person asks.
    ByHand,
    /// When the active key has signed for so long, in accumulated time.
    Every(Duration),
    /// When a calendar asks ([`NextDue`](super::NextDue)), though not before the active key has signed for so long, in
    /// accumulated time: a clock that leaps forward rotates nothing twice.
    Calendar {
        /// A little less than the shortest time between two dates of the calendar.
        shortest_use: Duration,
    },
}

/// How long a key stays in the JWKS after it stopped to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// At least so long, however short its tokens were.
    pub minimum: Duration,
    /// At most so long: no token may be signed that would need more.
    pub maximum: Duration,
}

/// The parts of a policy as somebody writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When to rotate.
    pub schedule: Schedule,
    /// The algorithm of the next keys. Another one than the active key's is a reason to rotate.
    pub algorithm: Algorithm,
    /// Where they come from.
    pub supply: KeySupply,
    /// The relying parties, by their profiles.
    pub parties: Vec<RelyingParty>,
    /// The relying parties that must have accepted a canary.
    pub canaries: Vec<DeclaredCanary>,
    /// A key is visible for at least so long before it signs; longer where a declared party needs it.
    pub shortest_wait: Duration,
    /// Whether this is a trial that no workload depends on: then what relying parties need beyond the shortest wait is
    /// not waited for, and a rotation takes seconds.
    pub is_trial: bool,
    /// The longest lifetimes of tokens that may be signed.
    pub lifetimes: TokenLifetimes,
    /// How wrong the clocks of relying parties may be. AWS allows 5 minutes; twice that is a good choice.
    pub skew: Duration,
    /// How long a key stays after it stopped to sign.
    pub overlap: Overlap,
    /// The most keys that the ring may have at a time.
    pub keys_at_most: usize,
    /// How long the private half of a key that stopped to sign is kept, so that it can sign again.
    pub rollback_window: Duration,
    /// How long no token of a key may have been seen in use before it leaves.
    pub quiet: Duration,
    /// Whether tokens for the outside are never used at kube-apiserver and the other way round, so that a key may leave
    /// the JWKS before it leaves kube-apiserver.
    pub verify_only: bool,
    /// How long after it was made a plan may be carried out.
    pub plan_is_good_for: Duration,
}

impl Default for Settings {
    /// 90 days (AKS rotates every 3 months), tokens of a day, everything else as reference values of the field have it.
    fn default() -> Self {
        const HOUR: u64 = 3600;
        Self {
            schedule: Schedule::Every(Duration::from_secs(90 * 24 * HOUR)),
            algorithm: Algorithm::Rs256,
            supply: KeySupply::Made,
            parties: Vec::new(),
            canaries: Vec::new(),
            shortest_wait: Duration::from_secs(24 * HOUR),
            is_trial: false,
            lifetimes: TokenLifetimes::both(24 * HOUR),
            skew: Duration::from_secs(600),
            overlap: Overlap {
                minimum: Duration::from_secs(2 * HOUR),
                maximum: Duration::from_secs(366 * 24 * HOUR),
            },
            keys_at_most: 40,
            rollback_window: Duration::from_secs(24 * HOUR),
            quiet: Duration::from_secs(HOUR),
            verify_only: false,
            plan_is_good_for: Duration::from_secs(300),
        }
    }
}

/// A policy that can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    settings: Settings,
    wait: Wait,
    keys_at_most: usize,
}

/// Why a policy cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A key would leave before its tokens.
    #[error(
        "tokens may live for {lifetime} s and clocks be wrong by {skew} s, but no key may stay for longer than {maximum} s after it signed; expected a maximum overlap of their sum at least, or shorter tokens"
    )]
    OverlapTooShort {
        /// The longest lifetime, in seconds.
        lifetime: u64,
        /// The allowed skew, in seconds.
        skew: u64,
        /// The longest overlap, in seconds.
        maximum: u64,
    },
    /// The bounds contradict each other.
    #[error("the minimum overlap of {minimum} s is above the maximum of {maximum} s; swap or change them")]
    OverlapTurned {
        /// The shortest overlap, in seconds.
        minimum: u64,
        /// The longest overlap, in seconds.
        maximum: u64,
    },
    /// No room for a rotation.
    #[error("{0} keys are too few; expected 3 at least: the one that signs, the one before, and the standby")]
    TooFewKeys(usize),
    /// Nobody could tell them apart.
    #[error("two canaries are called {0:?}; expected a name of its own for each")]
    TwoCanaries(String),
    /// Every moment would be one to rotate.
    #[error("a key would be replaced every {0} s; expected a period of 60 s at least")]
    PeriodTooShort(u64),
}

impl Policy {
    /// A policy of these settings.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn new(settings: Settings) -> Result<Self, PolicyError> {
        let Overlap { minimum, maximum } = settings.overlap;
        let longest = settings.lifetimes.any();
        if longest.saturating_add(settings.skew) > maximum {
            let (lifetime, skew, maximum) = (longest.as_secs(), settings.skew.as_secs(), maximum.as_secs());
            return Err(PolicyError::OverlapTooShort { lifetime, skew, maximum });
        }
        if minimum > maximum {
            let (minimum, maximum) = (minimum.as_secs(), maximum.as_secs());
            return Err(PolicyError::OverlapTurned { minimum, maximum });
        }
        if let Schedule::Every(time) | Schedule::Calendar { shortest_use: time } = settings.schedule
            && time < Duration::from_secs(60)
        {
            return Err(PolicyError::PeriodTooShort(time.as_secs()));
        }
        let budgets = settings.parties.iter().flat_map(|party| {
            let budget = party.profile().keys.budget;
            [budget.rsa, budget.ec, budget.total].into_iter().flatten()
        });
        let keys_at_most = budgets.chain([settings.keys_at_most]).min().unwrap_or_default();
        if keys_at_most < 3 {
            return Err(PolicyError::TooFewKeys(keys_at_most));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = settings.canaries.iter().find(|canary| !names.insert(&canary.name)) {
            return Err(PolicyError::TwoCanaries(twice.name.clone()));
        }
        let wait = pre_publication_wait(&settings.parties);
        Ok(Self { settings, wait, keys_at_most })
    }

    /// What it was made of.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How long a key must be visible before it signs, apart from the `max-age` that was served.
    pub fn wait(&self) -> Duration {
        match self.settings.is_trial {
            true => self.settings.shortest_wait,
            false => self.wait.time.max(self.settings.shortest_wait),
        }
    }

    /// How long a key that stopped to sign still stays for tokens that live for up to `longest`, in seconds.
    pub fn drain_left(&self, key: &RingKey, longest: Duration) -> u64 {
        let needed = longest.saturating_add(self.settings.skew).max(self.settings.overlap.minimum);
        needed.as_secs().saturating_sub(key.drained_seconds)
    }

    /// How long the canaries live at most that are shown for this ring: no longer than any other token.
    pub fn canary_lifetime(&self) -> Duration {
        canary::LIFETIME.min(self.settings.lifetimes.external())
    }

    /// The declared relying parties that read the keys when they start, so that no wait helps, and that no canary asks.
    /// Nobody can know when one of them was restarted.
    pub fn unasked_until_restart(&self) -> impl Iterator<Item = RelyingParty> {
        self.wait.restart.iter().copied().filter(|party| !self.is_asked(*party))
    }

    /// What the owner should know of relying parties, each in a sentence: whom nobody asks, and who is asked and not
    /// declared.
    pub fn warnings(&self) -> Vec<String> {
        let Settings { parties, canaries, .. } = &self.settings;
        let waits = |party: &&RelyingParty| !self.wait.restart.contains(party);
        let unasked: Vec<_> = parties.iter().filter(waits).filter(|party| !self.is_asked(**party)).collect();
        let unasked: Vec<RelyingParty> = unasked.into_iter().copied().collect();
        let mut warnings = Vec::new();
        if !unasked.is_empty() {
            warnings.push(format!(
                "no canary asks {}: that they have the next key is known by the wait alone",
                list(&unasked)
            ));
        }
        let known = |party: &RelyingParty| parties.contains(party);
        for DeclaredCanary { name, party } in canaries {
            if let Some(party) = party.filter(|party| !known(party)) {
                warnings.push(format!(
                    "canary {name} asks {party}, which `parties` does not name: its habits lengthen no wait"
                ));
            }
        }
        warnings
    }

    fn is_asked(&self, party: RelyingParty) -> bool {
        self.settings.canaries.iter().any(|canary| canary.party == Some(party))
    }

    /// The most keys, by its settings and by what the declared relying parties take.
    pub fn keys_at_most(&self) -> usize {
        self.keys_at_most
    }

    /// The longest lifetimes of tokens that may be signed.
    pub fn allowed_lifetimes(&self) -> TokenLifetimes {
        self.settings.lifetimes
    }
}
