//! One key of a ring.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pem_field::{read_pem, write_pem};
use super::{KeyState, TokenLifetimes};
use crate::{KeyId, PublicKey};

/// Where the private half is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Custody {
    /// In the ring's custody, under the key's id.
    #[default]
    Held,
    /// Nowhere that the ring could sign with it: another control plane has it, or nobody.
    Elsewhere,
    /// It was destroyed.
    Destroyed,
}

/// A public half, and what is known of the tokens of its private half.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RingKey {
    /// The key, written as a `PUBLIC KEY` PEM block.
    #[serde(serialize_with = "write_pem", deserialize_with = "read_pem")]
    pub public_key: PublicKey,
    /// What it is for.
    pub state: KeyState,
    /// Where its private half is.
    #[serde(default)]
    pub custody: Custody,
    /// Nobody shall sign with it any more, although its tokens are still good.
    #[serde(default)]
    pub tainted: bool,
    /// A person wants it revoked.
    #[serde(default)]
    pub revocation: Revocation,
    /// How long it signs or has signed, in accumulated seconds.
    #[serde(default)]
    pub active_seconds: u64,
    /// The epoch whose acknowledgement says that a signer stopped to sign with it; `None` while it may sign.
    #[serde(default)]
    pub stopped_by_epoch: Option<u64>,
    /// Accumulated seconds since nobody signs with it; zero again when somebody is found to.
    #[serde(default)]
    pub drained_seconds: u64,
    /// Whether somebody who is no signer of this ring was seen to sign with it when it was last looked.
    #[serde(default)]
    pub used_elsewhere: bool,
    /// The longest lifetimes it is known to have signed.
    #[serde(default)]
    pub signed: TokenLifetimes,
    /// The longest lifetimes that signers were ever allowed while it was theirs to sign with. It counts in place of what
    /// is known where somebody who may have signed was not heard.
    #[serde(default)]
    pub allowed: TokenLifetimes,
    /// Whether somebody may have signed with it who will never say what.
    #[serde(default)]
    pub signed_in_the_dark: bool,
    /// Whether it was in use before there was a ring: its private half may lie where no signer was heard yet.
    #[serde(default)]
    pub adopted: bool,
    /// What a later release wrote here.
    #[serde(flatten)]
    pub later: Map<String, Value>,
}

/// Whether a person wants a key revoked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Revocation {
    /// Nobody does.
    #[default]
    NotAsked,
    /// As soon as another key signs, and no signer signs with it any more.
    Asked,
    /// At once, even if nothing can be signed then, or a signer signs with it still.
    AskedAtOnce,
}

impl RingKey {
    /// A key that nobody has seen yet.
    pub(super) fn new(public_key: PublicKey, state: KeyState) -> Self {
        Self {
            public_key,
            state,
            custody: Custody::Held,
            tainted: false,
            revocation: Revocation::NotAsked,
            active_seconds: 0,
            stopped_by_epoch: None,
            drained_seconds: 0,
            used_elsewhere: false,
            signed: TokenLifetimes::default(),
            allowed: TokenLifetimes::default(),
            signed_in_the_dark: false,
            adopted: false,
            later: Map::new(),
        }
    }

    /// Its id.
    pub fn kid(&self) -> &KeyId {
        self.public_key.key_id()
    }

    /// Whether it could sign: the private half is there, and nothing speaks against it.
    pub fn may_sign(&self) -> bool {
        self.custody == Custody::Held && !self.tainted && self.revocation == Revocation::NotAsked
    }

    /// Whether it waits to be revoked.
    pub fn is_to_be_revoked(&self) -> bool {
        self.revocation != Revocation::NotAsked
    }

    /// The longest lifetimes of tokens that may live.
    pub fn outlived_by(&self) -> TokenLifetimes {
        if self.signed_in_the_dark { self.signed.longest_of(self.allowed) } else { self.signed }
    }
}

/// What is remembered for ever of a key that is over, so that it never comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// Which key.
    pub kid: KeyId,
    /// [`KeyState::Retired`] or [`KeyState::Revoked`].
    pub state: KeyState,
    /// Whether its private half is still held.
    #[serde(default)]
    pub custody: Custody,
    /// The generation that put it here.
    #[serde(default)]
    pub generation: u64,
    /// What a later release wrote here.
    #[serde(flatten)]
    pub later: Map<String, Value>,
}
