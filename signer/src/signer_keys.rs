//! The keys of a signer at one moment: which one signs, which ones verify, by which decision, and how fresh that is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chancery_core::ring::{Position, TokenLifetimes};
use chancery_core::{KeyId, PublicKey};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::signing::ActiveKey;

/// A key that kube-apiserver verifies with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationKey {
    /// The key.
    pub public_key: PublicKey,
    /// Whether it is kept out of kube-apiserver's own JWKS (`exclude_from_oidc_discovery` of KEP-740).
    pub is_excluded: bool,
}

/// Everything that a signer answers from. It never changes: another one takes its place, whole.
#[derive(Clone, Debug)]
pub struct SignerKeys {
    active: Option<Arc<ActiveKey>>,
    verification: Vec<VerificationKey>,
    position: Option<Position>,
    allowed: Option<TokenLifetimes>,
    confirmed_at: Timestamp,
}

/// What [`SignerKeys`] are made of.
#[derive(Clone, Debug)]
pub struct SignerKeysParts {
    /// The key that signs; nothing can be signed without one.
    pub active: Option<Arc<ActiveKey>>,
    /// The keys that tokens are verified with, in any order; the active one need not be among them.
    pub verification: Vec<VerificationKey>,
    /// The ring that says so; none where files do.
    pub position: Option<Position>,
    /// The longest lifetimes that the ring lets signers sign, if it says any.
    pub allowed: Option<TokenLifetimes>,
    /// When this was last confirmed against where it is kept.
    pub confirmed_at: Timestamp,
}

impl SignerKeys {
    /// Puts the keys in their order, each once. A key that is given both as one to be shown and as one to be excluded is
    /// shown, and so is the one that signs: kube-apiserver refuses the signatures of an excluded key.
    ///
    /// # Errors
    /// When there is none that could be shown: kube-apiserver takes no such set.
    pub fn new(parts: SignerKeysParts) -> Result<Self, SignerKeysError> {
        let SignerKeysParts { active, verification, position, allowed, confirmed_at } = parts;
        let shown = active.iter().map(|key| key.public_key().clone());
        let shown = shown.map(|public_key| VerificationKey { public_key, is_excluded: false });
        let mut by_id: BTreeMap<KeyId, VerificationKey> = BTreeMap::new();
        for key in verification.into_iter().chain(shown) {
            let known = by_id.entry(key.public_key.key_id().clone()).or_insert_with(|| key.clone());
            known.is_excluded &= key.is_excluded;
        }
        if by_id.values().all(|key| key.is_excluded) {
            return Err(SignerKeysError::NothingToShow(by_id.len()));
        }
        Ok(Self { active, verification: by_id.into_values().collect(), position, allowed, confirmed_at })
    }

    /// The same keys, confirmed again.
    #[must_use]
    pub fn confirmed(&self, at: Timestamp) -> Self {
        Self { confirmed_at: at, ..self.clone() }
    }

    /// The key that signs.
    pub fn active(&self) -> Option<&Arc<ActiveKey>> {
        self.active.as_ref()
    }

    /// Every key that verifies, by key id: kube-apiserver takes another order for a change.
    pub fn verification(&self) -> &[VerificationKey] {
        &self.verification
    }

    /// The ring that they come from.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The longest lifetimes that the ring lets signers sign, if it says any.
    pub fn allowed(&self) -> Option<TokenLifetimes> {
        self.allowed
    }

    /// When they were last confirmed against where they are kept.
    pub fn confirmed_at(&self) -> Timestamp {
        self.confirmed_at
    }

    /// Whether both sign, verify and allow alike, whenever they were confirmed.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let signs = |keys: &Self| keys.active.as_ref().map(|key| key.public_key().key_id().clone());
        let rest = |keys: &Self| (keys.position, keys.allowed);
        signs(self) == signs(other) && self.verification == other.verification && rest(self) == rest(other)
    }
}

impl fmt::Display for SignerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.active.as_ref().map(|key| key.public_key()) {
            Some(key) => write!(f, "{} signs ({}, {})", key.key_id(), key.description(), key.algorithm())?,
            None => f.write_str("no key signs")?,
        }
        let excluded = self.verification.iter().filter(|key| key.is_excluded).count();
        write!(f, ", {} verify, {excluded} of them not shown", self.verification.len())?;
        self.position.map_or(Ok(()), |position| write!(f, ", by the ring at {position}"))
    }
}

/// Where the keys of the moment are handed on: a source sends, the service reads the last ones at every request.
pub type SignerKeysSender = watch::Sender<Option<Arc<SignerKeys>>>;
/// The other end of [`SignerKeysSender`]. Nothing is there until a source has read its keys.
pub type SignerKeysReceiver = watch::Receiver<Option<Arc<SignerKeys>>>;

/// Why keys are no keys of a signer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerKeysError {
    /// No key that kube-apiserver could show; how many there are.
    #[error(
        "{0} keys, none of which may be shown; kube-apiserver needs one that is not excluded from discovery"
    )]
    NothingToShow(usize),
}

#[cfg(test)]
mod tests {
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;

    fn parts(verification: Vec<VerificationKey>) -> SignerKeysParts {
        let confirmed_at = Timestamp::UNIX_EPOCH;
        SignerKeysParts { active: None, verification, position: None, allowed: None, confirmed_at }
    }

    fn key(is_excluded: bool) -> VerificationKey {
        let public_key = PrivateKey::generate(KeySpec::P256).unwrap().public_key().clone();
        VerificationKey { public_key, is_excluded }
    }

    #[test]
    fn the_order_is_that_of_the_key_ids_and_each_is_there_once() {
        let (a, b) = (key(false), key(true));
        let there = |keys: &[&VerificationKey]| {
            SignerKeys::new(parts(keys.iter().map(|key| (*key).clone()).collect())).unwrap()
        };
        let (one, two) = (there(&[&a, &b]), there(&[&b, &a, &b]));
        assert!(one.says_the_same(&two.confirmed(Timestamp::MAX)));
        assert_eq!(one.verification().len(), 2);
        let shown = VerificationKey { is_excluded: false, ..b.clone() };
        assert!(there(&[&b, &shown]).verification().iter().all(|key| !key.is_excluded));
    }

    #[test]
    fn what_signs_is_shown_and_something_must_be() {
        let private = PrivateKey::generate(KeySpec::P256).unwrap();
        let excluded = VerificationKey { public_key: private.public_key().clone(), is_excluded: true };
        let alone = SignerKeys::new(parts(vec![excluded.clone()]));
        assert_eq!(alone.unwrap_err(), SignerKeysError::NothingToShow(1));
        assert!(SignerKeys::new(parts(Vec::new())).is_err());
        let active = Some(Arc::new(ActiveKey::new(private.into_signing_key()).unwrap()));
        let keys = SignerKeys::new(SignerKeysParts { active, ..parts(vec![excluded]) }).unwrap();
        assert!(!keys.verification()[0].is_excluded);
    }
}
