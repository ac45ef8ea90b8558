//! What can be done to a ring.

use std::fmt;

use serde::Serialize;

use super::{Custody, KeyState, Position};
use crate::{Algorithm, KeyId, PublicKey};

/// One step of a rotation: a change of the ring, or of what is held beside it. Repeating one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a key, and have its private half written and synced into custody. The ring changes by [`Step::Enter`].
    Make(Algorithm),
    /// Have a person import a bundle with a key: none is made where the ring is. The ring changes by [`Step::Enter`].
    Import(Algorithm),
    /// Take a key that is in custody into the ring, to be published.
    Enter(PublicKey),
    /// Call it the standby: everybody sees it.
    Publish(KeyId),
    /// Let it sign from the next epoch on, and the key that signs now no more.
    Activate(KeyId),
    /// Take it out of the JWKS, and leave it to kube-apiserver.
    KeepForVerifying(KeyId),
    /// Take it out of everything: its last token is dead.
    Retire(KeyId),
    /// Take out a key that never signed.
    Withdraw(KeyId),
    /// Take it out of everything, for good, whatever it has signed.
    Revoke(KeyId),
    /// Destroy the private half.
    Destroy(KeyId),
}

impl Step {
    /// The key that it is about; none when it is still to be made.
    pub fn kid(&self) -> Option<&KeyId> {
        match self {
            Self::Make(_) | Self::Import(_) => None,
            Self::Enter(key) => Some(key.key_id()),
            Self::Publish(kid)
            | Self::Activate(kid)
            | Self::KeepForVerifying(kid)
            | Self::Retire(kid)
            | Self::Withdraw(kid)
            | Self::Revoke(kid)
            | Self::Destroy(kid) => Some(kid),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(algorithm) => write!(f, "make a key for {algorithm}"),
            Self::Import(algorithm) => write!(f, "import a key for {algorithm}"),
            Self::Enter(key) => write!(f, "enter {}", key.key_id()),
            Self::Publish(kid) => write!(f, "call {kid} the standby"),
            Self::Activate(kid) => write!(f, "sign with {kid}"),
            Self::KeepForVerifying(kid) => write!(f, "take {kid} out of the JWKS and verify with it"),
            Self::Retire(kid) => write!(f, "retire {kid}"),
            Self::Withdraw(kid) => write!(f, "withdraw {kid}, which never signed"),
            Self::Revoke(kid) => write!(f, "revoke {kid}"),
            Self::Destroy(kid) => write!(f, "destroy the private half of {kid}"),
        }
    }
}

impl Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a person asks of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The standby signs as soon as it is safe, whatever the schedule says.
    RotateNow,
    /// The key that signed before signs again, while its private half is held.
    RollBack,
    /// Nobody may trust the key any more.
    Revoke {
        /// Which.
        kid: KeyId,
        /// Even if nothing can be signed then, or a signer signs with it still.
        at_once: bool,
    },
    /// Nobody shall sign with the key any more; its tokens are still good.
    Taint(KeyId),
    /// The signer of that name is switched off for good. It is not waited for any more.
    ForgetSigner(String),
    /// These keys are in use already.
    Adopt(Vec<AdoptedKey>),
    /// Count from a new epoch: the way out after a poisoned generation or a ring that came from a backup.
    Reset,
}

/// A key that was in use before there was a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedKey {
    /// The key.
    pub public_key: PublicKey,
    /// Whether it signs now; otherwise its tokens may live.
    pub signs: bool,
    /// Where its private half is.
    pub custody: Custody,
}

/// What a step or a request finds in the ring that forbids it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// No key has that id.
    #[error("there is no key {0} in the ring; `chancery ring status` lists those there are")]
    NoSuchKey(KeyId),
    /// The key is in a state from which the step does not lead on.
    #[error("{step} is not possible: the key is {state}; plan again")]
    WrongState {
        /// What was asked, in words.
        step: String,
        /// The state of the key.
        state: KeyState,
    },
    /// The key was retired or revoked before.
    #[error("{kid} was {state} before and never comes back; make a new key")]
    Buried {
        /// Which.
        kid: KeyId,
        /// As what it was buried.
        state: KeyState,
    },
    /// The key must not sign.
    #[error(
        "{0} must not sign: it is tainted, to be revoked, or its private half is not held; rotate to another key"
    )]
    MayNotSign(KeyId),
    /// The private half may still be needed.
    #[error("the private half of {0} is not destroyed while the key may sign; rotate first")]
    StillNeeded(KeyId),
    /// Nothing to go back to.
    #[error(
        "no key can sign again: none is Retiring with its private half held and untainted; rotate forward"
    )]
    NothingToRollBackTo,
    /// Nobody of that name has ever acknowledged anything.
    #[error("no signer is called {name:?}; known are {known}")]
    NoSuchSigner {
        /// What was asked for.
        name: String,
        /// Who there is.
        known: String,
    },
    /// Two keys would sign.
    #[error("{0} signs already; adopt the other keys as ones that do not sign")]
    AnotherSigns(KeyId),
    /// The numbers of the ring cannot have been counted.
    #[error("the ring is at {0}, which nobody has counted up to; `chancery ring reset` begins a new epoch")]
    Poisoned(Position),
    /// The epoch leaves no room for a later one.
    #[error("no epoch is later than {0}; begin a new ring and adopt the keys of this one")]
    Exhausted(u64),
}
