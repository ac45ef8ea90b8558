//! What must be uploaded to a relying party that is given the keys themselves, decided without touching it.
//!
//! Such a party never reads the issuer: it holds a copy of the JWKS. [`plan`] follows the rules of
//! [`crate::publication`], for one value without a discovery document:
//!
//! 1. A marker of another owner blocks. A place that could carry a marker, holds something and carries none blocks
//!    unless we were told to adopt it. Where no marker can be carried, the configuration that names the place is the
//!    permission to write it.
//! 2. A key that is held there and that is neither ours nor withdrawn by us stays, behind ours, and is reported. An
//!    entry that cannot be carried on unchanged blocks, because dropping it may reject somebody's tokens.
//! 3. What is uploaded is therefore our set, united with what stays, minus what is withdrawn: never empty.
//! 4. Nothing is uploaded when the same keys are held already, in whatever order and spelling, and nothing beside
//!    them must be mended.

use std::collections::BTreeSet;

use crate::jwks::{JwksError, ObservedJwk, ObservedJwks};
use crate::publication::Version;
use crate::{Jwks, KeyId, Owner, PublicKey, Withdrawals};

/// What a place holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldKeys {
    /// Its keys, in its order. The same key may be there twice, in two spellings.
    pub keys: Vec<PublicKey>,
    /// Keys under another id, algorithm or use than Kubernetes gives them: they are not what tokens ask for.
    pub altered: Vec<PublicKey>,
    /// Entries that we could not carry on unchanged, in words.
    pub unsupported: Vec<String>,
    /// Whose it is, where the place can say so.
    pub owner: Option<Owner>,
    /// Whether the place can say whose it is and holds something, but does not say.
    pub unmarked: bool,
    /// Whether something beside the keys is not as it should be, such as a document that lies next to them.
    pub stale: bool,
    /// What a conditional write must name, where the place knows versions.
    pub version: Option<Version>,
}

impl HeldKeys {
    /// What a place holds that keeps a JWKS (RFC 7517 section 5).
    ///
    /// # Errors
    /// When the bytes are not one. Whether they may be replaced then, the place decides.
    pub fn of_jwks(bytes: &[u8]) -> Result<Self, JwksError> {
        let entries = match ObservedJwks::parse(bytes) {
            Ok(observed) => observed.entries,
            // Somebody more lenient than we may still read the other entries.
            Err(error @ JwksError::NotAnObject) => {
                return Ok(Self { unsupported: vec![error.to_string()], ..Self::default() });
            }
            Err(error) => return Err(error),
        };
        let mut held = Self::default();
        for entry in entries {
            match &entry.key {
                Some(key) if entry.is_kubernetes_key() => held.keys.push(key.clone()),
                Some(key) => held.altered.push(key.clone()),
                None => held.unsupported.push(in_words(&entry)),
            }
        }
        Ok(held)
    }
}

fn in_words(entry: &ObservedJwk) -> String {
    format!("kid {:?}, kty {:?}", entry.kid.as_deref().unwrap_or_default(), entry.kty)
}

/// What we want of a place.
#[derive(Clone, Copy, Debug)]
pub struct DesiredUpload<'a> {
    /// Every key that must be held.
    pub jwks: &'a Jwks,
    /// Keys that are withdrawn.
    pub withdrawals: &'a Withdrawals,
    /// Who we are.
    pub owner: &'a Owner,
    /// Whether a place that holds something without a marker may be taken over.
    pub adopt_unmarked: bool,
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
    /// Every key that is held once the upload is made: ours, then the foreign ones.
    pub result: Vec<KeyId>,
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
    /// No marker.
    #[error(
        "it is there without an ownership marker, so somebody else wrote it; nothing was uploaded. Look at it, then set `adopt: true` on the sink or choose another place"
    )]
    Unmarked,
    /// An entry that we could not carry on unchanged.
    #[error(
        "it holds an entry that cannot be carried on unchanged ({0}); nothing was uploaded, since dropping it may reject somebody's tokens. Remove it by hand if nobody signs with it"
    )]
    UnsupportedEntry(String),
}

/// Decides what to upload, by the rules at the head of this module.
///
/// # Errors
/// Says what blocks the place. Nothing may be uploaded then.
pub fn plan(desired: DesiredUpload<'_>, held: &HeldKeys) -> Result<UploadPlan, UploadBlocked> {
    check_owner(desired, held)?;
    let ours = desired.jwks;
    let is_gone =
        |key: &PublicKey| desired.withdrawals.contains(key.key_id()) && !ours.contains(key.key_id());
    let stays = |key: &PublicKey| !ours.contains(key.key_id()) && !is_gone(key);
    check_entries(held, stays)?;

    let there: BTreeSet<&KeyId> = held.keys.iter().map(PublicKey::key_id).collect();
    let adds = distinct(ours.keys().iter().filter(|key| !there.contains(key.key_id())));
    let withdraws = distinct(held.keys.iter().chain(&held.altered).filter(|key| is_gone(key)));
    let foreign = distinct(held.keys.iter().filter(|key| stays(key)));
    let result = Jwks::new(ours.keys().iter().chain(held.keys.iter().filter(|key| stays(key))).cloned());
    let is_due = !adds.is_empty() || !withdraws.is_empty() || held.unmarked || held.stale;
    let ids = result.iter().flat_map(Jwks::keys).map(|key| key.key_id().clone()).collect();
    Ok(UploadPlan { upload: result.filter(|_| is_due), adds, withdraws, foreign, result: ids })
}

fn check_owner(desired: DesiredUpload<'_>, held: &HeldKeys) -> Result<(), UploadBlocked> {
    match &held.owner {
        Some(theirs) if theirs != desired.owner => {
            Err(UploadBlocked::ForeignOwner { theirs: theirs.clone(), ours: desired.owner.clone() })
        }
        None if held.unmarked && !desired.adopt_unmarked => Err(UploadBlocked::Unmarked),
        _ => Ok(()),
    }
}

/// An altered key that is ours is covered by ours, as in old recipes that publish it under a home-made id.
fn check_entries(held: &HeldKeys, stays: impl Fn(&PublicKey) -> bool) -> Result<(), UploadBlocked> {
    let altered = held.altered.iter().find(|key| stays(key)).map(|key| {
        format!("key {} under another id, algorithm or use than Kubernetes gives it", key.key_id())
    });
    match held.unsupported.first().cloned().or(altered) {
        Some(entry) => Err(UploadBlocked::UnsupportedEntry(entry)),
        None => Ok(()),
    }
}

/// Each id once, in order.
fn distinct<'a>(keys: impl Iterator<Item = &'a PublicKey>) -> Vec<KeyId> {
    let mut seen = BTreeSet::new();
    keys.map(PublicKey::key_id).filter(|id| seen.insert(*id)).cloned().collect()
}
