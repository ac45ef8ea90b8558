//! The key ring of an issuer: the public halves, what each is for, and everything that must be remembered to change that
//! without rejecting a token.
//!
//! It is one document with one order ([`Position`]), changed by compare-and-swap. Whoever wants to change it reads it,
//! applies a [`Step`] or a [`Request`], and writes it if nobody else has written in between.
//!
//! Rules:
//!
//! 1. At most one key is active. Each activation begins an epoch; each other change is a generation of it.
//! 2. A key that is retired or revoked is remembered for ever and never comes back.
//! 3. Waits are accumulated time, kept in the document, see [`KeyRing::pass`]. A writer may count the time since it read
//!    the version that it replaces, and no other: then no two writers count the same second. Wall clocks may delay.
//! 4. The time of a key that stopped to sign runs while every signer is known to have stopped. A signer that is heard
//!    to be behind, or anybody else who is seen to sign with it, sets it to nothing; for a key that was adopted, a signer
//!    as well that there should be and nobody has heard: it may have had that key before there was a ring.
//! 5. What a signer signed counts as it said. Where one was restarted or forgotten before it had said all, the longest
//!    lifetimes count that signers were ever allowed.
//! 6. A signer that was heard once is waited for until a person forgets it by name. One that was forgotten and speaks
//!    again is waited for again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{KeyId, PublicKey, WithdrawalCause};

mod apply;
mod key;
mod passage;
pub(crate) mod pem_field;
mod position;
mod request;
mod signer;
mod state;
mod step;
mod token_lifetimes;
mod wall_time;

pub use key::{Custody, Revocation, RingKey, Tombstone};
pub use passage::Passage;
pub use position::{HIGHEST_COUNT, HIGHEST_GENERATION, Position};
pub use signer::Acknowledgement;
pub use state::KeyState;
pub use step::{AdoptedKey, Request, RingError, Step};
pub use token_lifetimes::TokenLifetimes;
pub use wall_time::WallTime;

/// The keys of one issuer and what is done with them: a document of the kind [`KeyRing::DOCUMENT`]. Fields that are not
/// known are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRing {
    position: Position,
    /// The keys that are not over, the oldest first.
    keys: Vec<RingKey>,
    #[serde(default)]
    tombstones: Vec<Tombstone>,
    /// The last acknowledgement of every signer that is waited for.
    #[serde(default)]
    signers: BTreeMap<String, Acknowledgement>,
    /// Those that a person has forgotten, with what they said last.
    #[serde(default)]
    forgotten: BTreeMap<String, Acknowledgement>,
    /// The longest lifetimes that signers may sign.
    #[serde(default)]
    allowed: TokenLifetimes,
    #[serde(default)]
    rotation_asked: bool,
    #[serde(default)]
    rollback_asked: bool,
    /// The latest wall clock that anybody has decided by.
    #[serde(default)]
    latest_wall: WallTime,
    /// That of the last activation.
    #[serde(default)]
    activated: WallTime,
    /// What a later release wrote here.
    #[serde(flatten)]
    later: Map<String, Value>,
}

/// What a ring says to whoever publishes, in the form that [`IssuerKeys::decide`](crate::issuer_keys::IssuerKeys::decide)
/// takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingDecision {
    /// Of which ring. An older one than was published before comes from a backup and decides nothing.
    pub position: Position,
    /// The keys that the JWKS shows.
    pub keys: Vec<PublicKey>,
    /// The keys that it must not show, and why.
    pub withdrawn: Vec<(KeyId, WithdrawalCause)>,
}

/// A key that kube-apiserver verifies with, as `FetchKeys` of KEP-740 hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationKey<'a> {
    /// The key.
    pub public_key: &'a PublicKey,
    /// `exclude_from_oidc_discovery`.
    pub is_excluded: bool,
}

impl KeyRing {
    /// The name of the document's kind.
    pub const DOCUMENT: &'static str = "key-ring";
    /// The newest form of the document that this program knows. The store writes it into the document's field `version`
    /// and refuses a later one.
    pub const DOCUMENT_VERSION: u32 = 1;

    /// A ring without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// How far it has come.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The keys that are not over, the oldest first.
    pub fn keys(&self) -> &[RingKey] {
        &self.keys
    }

    /// The keys in one state, the oldest first.
    pub fn in_state(&self, state: KeyState) -> impl Iterator<Item = &RingKey> {
        self.keys.iter().filter(move |key| key.state == state)
    }

    /// One of the keys that are not over.
    pub fn key(&self, kid: &KeyId) -> Option<&RingKey> {
        self.keys.iter().find(|key| key.kid() == kid)
    }

    /// The key that signs, also while it waits for its successor because it is tainted or to be revoked.
    pub fn active(&self) -> Option<&RingKey> {
        self.in_state(KeyState::Active).next()
    }

    /// What is remembered of the keys that are over.
    pub fn tombstones(&self) -> &[Tombstone] {
        &self.tombstones
    }

    /// What is remembered of one of them.
    pub fn tombstone(&self, kid: &KeyId) -> Option<&Tombstone> {
        self.tombstones.iter().find(|tombstone| tombstone.kid == *kid)
    }

    /// What every signer that is waited for has acknowledged last.
    pub fn signers(&self) -> impl Iterator<Item = (&str, &Acknowledgement)> {
        self.signers.iter().map(|(name, acknowledgement)| (name.as_str(), acknowledgement))
    }

    /// The signers that were switched off for good.
    pub fn forgotten(&self) -> impl Iterator<Item = &str> {
        self.forgotten.keys().map(String::as_str)
    }

    /// The longest lifetimes that a signer may sign. It refuses longer ones: no key outlives them.
    pub fn allowed_lifetimes(&self) -> TokenLifetimes {
        self.allowed
    }

    /// Whether a person asked for a rotation that has not begun.
    pub fn is_rotation_asked(&self) -> bool {
        self.rotation_asked
    }

    /// The key that a person wants to sign again, if there is one still.
    pub fn rollback(&self) -> Option<&RingKey> {
        self.rollback_target().filter(|_| self.rollback_asked)
    }

    /// The latest wall clock that anybody has decided by.
    pub fn latest_wall(&self) -> WallTime {
        self.latest_wall
    }

    /// The wall clock at the last activation.
    pub fn activated(&self) -> WallTime {
        self.activated
    }

    /// The signers that may still sign with a key that was told to stop.
    pub fn signing_still(&self, key: &RingKey) -> Vec<&str> {
        let stopped_by = key.stopped_by_epoch.unwrap_or(u64::MAX);
        let signs = |said: &Acknowledgement| said.signs.as_ref() == Some(key.kid());
        let may = |said: &Acknowledgement| said.position.epoch < stopped_by || signs(said);
        let behind = self.signers.iter().filter(|(_, said)| may(said));
        behind.map(|(name, _)| name.as_str()).collect()
    }

    /// Those of the signers that there should be that were never heard, and never forgotten.
    pub fn unheard<'a>(&self, expected: &'a BTreeSet<String>) -> Vec<&'a str> {
        let is_known = |name: &String| self.signers.contains_key(name) || self.forgotten.contains_key(name);
        expected.iter().filter(|name| !is_known(name)).map(String::as_str).collect()
    }

    /// What is to be published, and what never.
    pub fn decision(&self) -> RingDecision {
        let shown = self.keys.iter().filter(|key| key.state.is_shown());
        let hidden = self.keys.iter().filter(|key| !key.state.is_shown());
        let hidden = hidden.map(|key| (key.kid().clone(), WithdrawalCause::Retired));
        let over = self.tombstones.iter().map(|tombstone| {
            let is_revoked = tombstone.state == KeyState::Revoked;
            let cause = if is_revoked { WithdrawalCause::Revoked } else { WithdrawalCause::Retired };
            (tombstone.kid.clone(), cause)
        });
        RingDecision {
            position: self.position,
            keys: shown.map(|key| key.public_key.clone()).collect(),
            withdrawn: over.chain(hidden).collect(),
        }
    }

    /// What every kube-apiserver verifies with, in a stable order.
    pub fn verification_keys(&self) -> impl Iterator<Item = VerificationKey<'_>> {
        self.keys
            .iter()
            .filter(|key| key.state.is_verified_with())
            .map(|key| VerificationKey { public_key: &key.public_key, is_excluded: !key.state.is_shown() })
    }

    fn key_mut(&mut self, kid: &KeyId) -> Option<&mut RingKey> {
        self.keys.iter_mut().find(|key| key.kid() == kid)
    }

    /// The key that signed last before the active one, if it could sign again.
    fn rollback_target(&self) -> Option<&RingKey> {
        let could = self.in_state(KeyState::Retiring).filter(|key| key.may_sign());
        could.max_by_key(|key| key.stopped_by_epoch)
    }
}
