//! What is the case in a world, and how likely it is to go wrong.

use std::time::Duration;

use chancery_core::Algorithm;
use chancery_core::profile::RelyingParty;
use chancery_core::ring::TokenLifetimes;
use chancery_core::rotation::{DeclaredCanary, Guard, KeySupply, Overlap, Policy, Schedule, Settings};

use crate::world::PARTIES;

/// A rule of [`chancery_core::ring`] or of its writers that no guard stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A writer counts the time since it read the version that it replaces, and no other.
    NoSecondIsCountedTwice,
    /// A signer reads the ring before it signs, whatever its own copy says.
    SignerReadsBeforeItSigns,
    /// What was published of a later ring is not replaced.
    OlderRingIsNotPublished,
}

impl Rule {
    pub const ALL: [Self; 3] =
        [Self::NoSecondIsCountedTwice, Self::SignerReadsBeforeItSigns, Self::OlderRingIsNotPublished];
}

/// All times in minutes, all likelihoods in thousandths a minute.
#[derive(Clone)]
pub struct Scene {
    pub minutes: u64,
    /// The guard that the executor does not heed.
    pub without: Option<Guard>,
    /// The rule that somebody breaks.
    pub broken: Option<Rule>,
    pub period: u64,
    /// The length of the maintenance windows, one each period.
    pub window: Option<u64>,
    pub external: u64,
    pub api_server: u64,
    pub verify_only: bool,
    /// How long an edge that is looked at may be stale.
    pub stale: u64,
    /// How long a signer may be apart from the store.
    pub apart: u64,
    /// How likely a kube-apiserver asks its signer for keys.
    pub refresh: u64,
    pub has_requests: bool,
    pub nodes_change: bool,
    pub changes: u64,
    pub joins_for: u64,
    /// Whether one of the relying parties reads the keys when people restart it; all are shown canaries then.
    pub has_pinned: bool,
    pub most_keys: usize,
    pub keys_at_most: usize,
    pub takes_rsa_only: bool,
    pub algorithm: Algorithm,
    pub only_back: bool,
    pub old_tokens: Option<u64>,
    pub legacy_token: Option<u64>,
    pub signs_elsewhere_until: Option<u64>,
    /// When the signer of a node starts whose kube-apiserver signs until then with a key of its own, which was adopted.
    pub late_node: Option<u64>,
    pub poisons_at: Option<u64>,
    /// How often the store is restored from a backup, and how long it takes until somebody puts the later one back.
    pub backups: Option<(u64, u64)>,
}

impl Scene {
    /// Everything that can go wrong without anybody's fault, all at once, a little.
    pub fn usual() -> Self {
        Self {
            minutes: 1500,
            without: None,
            broken: None,
            period: 30,
            window: None,
            external: 15,
            api_server: 15,
            verify_only: false,
            stale: 6,
            apart: 40,
            refresh: 400,
            has_requests: false,
            nodes_change: false,
            changes: 4,
            joins_for: 20,
            has_pinned: false,
            most_keys: 40,
            keys_at_most: 40,
            takes_rsa_only: false,
            algorithm: Algorithm::Rs256,
            only_back: false,
            old_tokens: None,
            legacy_token: None,
            signs_elsewhere_until: None,
            late_node: None,
            poisons_at: None,
            backups: None,
        }
    }

    /// The scenes that histories take turns in.
    pub fn all() -> Vec<Self> {
        let usual = Self::usual;
        vec![
            usual(),
            Self { has_requests: true, ..usual() },
            Self { nodes_change: true, ..usual() },
            Self { has_requests: true, nodes_change: true, has_pinned: true, ..usual() },
            Self { verify_only: true, api_server: 40, has_requests: true, ..usual() },
            Self { window: Some(10), period: 80, only_back: true, ..usual() },
            Self { stale: 30, apart: 100, refresh: 100, ..usual() },
            Self { keys_at_most: 5, most_keys: 5, apart: 100, external: 60, api_server: 60, ..usual() },
            Self { old_tokens: Some(200), legacy_token: Some(300), ..usual() },
            Self { signs_elsewhere_until: Some(150), ..usual() },
            Self { late_node: Some(120), ..usual() },
            Self { backups: Some((400, 30)), ..usual() },
        ]
    }

    /// How long a key signs at least, unless somebody asks.
    pub fn shortest_use(&self) -> u64 {
        self.period - self.window.unwrap_or_default()
    }

    /// The scene in which a guard is needed most.
    pub fn of(guard: Guard) -> Self {
        let usual = Self { without: Some(guard), ..Self::usual() };
        match guard {
            Guard::VisibleTooShort => Self { period: 12, ..usual },
            Guard::NotVisible => Self { stale: 60, ..usual },
            Guard::SignerNotLoaded | Guard::SignerNotStopped => Self { apart: 200, ..usual },
            Guard::RotationInFlight => Self { apart: 200, ..usual },
            Guard::VerifierNotLoaded => Self { refresh: 15, ..usual },
            Guard::NodeInMotion => Self { nodes_change: true, changes: 20, joins_for: 120, ..usual },
            Guard::CanaryMissing => Self { has_pinned: true, ..usual },
            Guard::AlgorithmRefused => Self { takes_rsa_only: true, algorithm: Algorithm::Es256, ..usual },
            Guard::ClockWentBack => Self { window: Some(10), period: 80, only_back: true, ..usual },
            Guard::TooManyKeys => {
                let usual = Self { external: 120, api_server: 120, apart: 10, ..usual };
                Self { keys_at_most: 4, most_keys: 4, ..usual }
            }
            Guard::SignedElsewhere => Self { signs_elsewhere_until: Some(400), ..usual },
            Guard::LegacyTokens => Self { legacy_token: Some(600), ..usual },
            Guard::SeenInUse => Self { old_tokens: Some(300), ..usual },
            Guard::NoSuccessor => Self { has_requests: true, ..usual },
            Guard::PositionPoisoned => Self { poisons_at: Some(300), ..usual },
            Guard::RingFromThePast => Self { backups: Some((130, 100)), ..usual },
            _ => usual,
        }
    }

    /// The scene in which a rule is needed most.
    pub fn that_needs(rule: Rule) -> Self {
        match rule {
            Rule::NoSecondIsCountedTwice => Self { external: 60, api_server: 60, ..Self::usual() },
            Rule::SignerReadsBeforeItSigns => Self { apart: 100, ..Self::usual() },
            Rule::OlderRingIsNotPublished => Self { backups: Some((400, 30)), ..Self::usual() },
        }
    }

    pub fn policy(&self) -> Policy {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let lifetimes =
            TokenLifetimes { external_seconds: self.external * 60, api_server_seconds: self.api_server * 60 };
        let period = minutes(self.period);
        let parties = if self.takes_rsa_only { vec![RelyingParty::Azure] } else { Vec::new() };
        let settings = Settings {
            schedule: match self.window {
                None => Schedule::Every(period),
                Some(_) => Schedule::Calendar { shortest_use: minutes(self.shortest_use()) },
            },
            supply: KeySupply::Made,
            algorithm: self.algorithm,
            parties,
            canaries: if self.has_pinned { PARTIES.map(asked).to_vec() } else { Vec::new() },
            shortest_wait: minutes(16),
            is_trial: false,
            lifetimes,
            skew: minutes(2),
            overlap: Overlap { minimum: minutes(5), maximum: minutes(200) },
            keys_at_most: self.keys_at_most,
            rollback_window: minutes(10),
            quiet: minutes(3),
            verify_only: self.verify_only,
            plan_is_good_for: minutes(5),
        };
        Policy::new(settings).expect("a policy that can be kept")
    }
}

fn asked(name: &str) -> DeclaredCanary {
    DeclaredCanary { name: name.to_owned(), party: None }
}
