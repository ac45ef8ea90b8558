//! What must be uploaded to a relying party that is given the keys themselves, decided without touching it.
//!
//! Such a party never reads the issuer: it holds a copy of the JWKS. [`plan`] follows the rules of
//! [`crate::publication`], for one value without a discovery document:
//!
//! 1. A marker of another owner blocks. Most of these places carry no marker; there the configuration that names the
//!    place is the permission to write it.
//! 2. A key that is held there and that is neither ours nor tombstoned by us stays, behind ours, and is reported. An
//!    entry that cannot be carried on unchanged blocks, because dropping it may reject somebody's tokens.
//! 3. What is uploaded is therefore our set, united with what stays, minus our own tombstones: never empty.
//! 4. Nothing is uploaded when the same keys are held already, in whatever order and spelling.

use crate::publication::Version;
use crate::{Jwks, KeyId, Owner, PublicKey};

/// What a place holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Its keys, in its order.
    pub keys: Vec<PublicKey>,
    /// Entries that we could not carry on unchanged, in words.
    pub strange: Vec<String>,
    /// Whose it is, where the place can say so.
    pub owner: Option<Owner>,
    /// What a conditional write must name, where the place knows versions.
    pub version: Option<Version>,
}

/// What we want of a place.
#[derive(Clone, Copy, Debug)]
pub struct DesiredUpload<'a> {
    /// Every key that must be held.
    pub jwks: &'a Jwks,
    /// Keys that we uploaded ourselves and have decided to withdraw.
    pub tombstones: &'a [KeyId],
    /// Who we are.
    pub owner: &'a Owner,
}

/// What is to be uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPlan {
    /// The whole set, or `None` when the place is up to date.
    pub upload: Option<Jwks>,
    /// Keys that become trusted there.
    pub adds: Vec<KeyId>,
    /// Keys that are withdrawn there.
    pub withdraws: Vec<KeyId>,
    /// Keys there that we did not put there; they stay.
    pub foreign: Vec<KeyId>,
}

/// Why a place may not be written, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UploadBlocked {
    /// Somebody else's marker.
    #[error(
        "it belongs to {theirs}, and we are {ours}; nothing was uploaded. Give this issuer a place of its own, or set its `owner` to {theirs} if it is the same issuer"
    )]
    ForeignOwner {
        /// The marker found.
        theirs: Owner,
        /// Our own.
        ours: Owner,
    },
    /// An entry that we could not carry on unchanged.
    #[error(
        "it holds an entry that cannot be carried on unchanged ({0}); nothing was uploaded, since dropping it may reject somebody's tokens. Remove it by hand if nobody signs with it"
    )]
    StrangeEntry(String),
}

/// Decides what to upload, by the rules at the head of this module.
///
/// # Errors
/// Says what blocks the place. Nothing may be uploaded then.
pub fn plan(desired: DesiredUpload<'_>, held: &Held) -> Result<UploadPlan, UploadBlocked> {
    if let Some(theirs) = held.owner.as_ref().filter(|theirs| *theirs != desired.owner) {
        return Err(UploadBlocked::ForeignOwner { theirs: theirs.clone(), ours: desired.owner.clone() });
    }
    if let Some(strange) = held.strange.first() {
        return Err(UploadBlocked::StrangeEntry(strange.clone()));
    }
    let ours = desired.jwks;
    let gone = |key: &&PublicKey| desired.tombstones.contains(key.key_id()) && !ours.contains(key.key_id());
    let staying: Vec<&PublicKey> =
        held.keys.iter().filter(|key| !ours.contains(key.key_id()) && !gone(key)).collect();
    let missing = |key: &&PublicKey| !held.keys.iter().any(|there| there.key_id() == key.key_id());
    let ids = |keys: Vec<&PublicKey>| keys.into_iter().map(|key| key.key_id().clone()).collect::<Vec<_>>();
    let adds = ids(ours.keys().iter().filter(missing).collect());
    let withdraws = ids(held.keys.iter().filter(gone).collect());
    let upload = match adds.is_empty() && withdraws.is_empty() {
        true => None,
        false => Jwks::new(ours.keys().iter().chain(staying.iter().copied()).cloned()),
    };
    Ok(UploadPlan { upload, adds, withdraws, foreign: ids(staying) })
}
