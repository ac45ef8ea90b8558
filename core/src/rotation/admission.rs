//! Whether a bundle of keys may be imported, and which private halves have to be in custody for it.

use crate::key_bundle::KeyBundle;
use crate::ring::{Custody, KeyState};
use crate::{Algorithm, IssuerUrl, KeyId, KeyRing};

/// Whose ring a bundle is imported into, and what is known there.
#[derive(Clone, Copy, Debug)]
pub struct ImportingRing<'a> {
    /// Whose.
    pub issuer: &'a IssuerUrl,
    /// What the next keys are for.
    pub algorithm: Algorithm,
    /// The ring.
    pub ring: &'a KeyRing,
    /// What was imported before.
    pub imported: &'a [KeyBundle],
}

/// What an import has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Whether the bundle was never imported to its end.
    pub is_new: bool,
    /// The keys, by their place in the bundle, whose private halves must be in custody. Those that are over stay out of it.
    pub to_hold: Vec<usize>,
}

/// Decides about a bundle whose signature was verified. One that was imported before is admitted again, so that what
/// was lost of it can be brought back; nothing that is over comes back.
///
/// # Errors
/// When it belongs to another issuer, is for another algorithm, or has a key that is known from elsewhere.
pub fn admit(bundle: &KeyBundle, into: ImportingRing<'_>) -> Result<Admission, AdmissionError> {
    if bundle.issuer() != into.issuer {
        let (found, expected) = (Box::new(bundle.issuer().clone()), Box::new(into.issuer.clone()));
        return Err(AdmissionError::OtherIssuer { found, expected });
    }
    let is_new = !into.imported.contains(bundle);
    let mut to_hold = Vec::new();
    for (place, key) in bundle.keys().iter().enumerate() {
        let kid = key.kid();
        if is_new {
            check_new(kid, into)?;
            let algorithm = key.public_key.algorithm();
            if algorithm != into.algorithm {
                let wanted = into.algorithm;
                return Err(AdmissionError::OtherAlgorithm { kid: kid.clone(), algorithm, wanted });
            }
        }
        let is_held = into.ring.key(kid).is_none_or(|known| known.custody == Custody::Held);
        if is_held && into.ring.tombstone(kid).is_none() {
            to_hold.push(place);
        }
    }
    Ok(Admission { is_new, to_hold })
}

fn check_new(kid: &KeyId, into: ImportingRing<'_>) -> Result<(), AdmissionError> {
    if let Some(over) = into.ring.tombstone(kid) {
        return Err(AdmissionError::Over { kid: kid.clone(), state: over.state });
    }
    if let Some(known) = into.ring.key(kid) {
        return Err(AdmissionError::InRing { kid: kid.clone(), state: known.state });
    }
    match into.imported.iter().any(|bundle| bundle.keys().iter().any(|key| key.kid() == kid)) {
        true => Err(AdmissionError::InAnother(kid.clone())),
        false => Ok(()),
    }
}

/// Why a bundle is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// Somebody else's.
    #[error(
        "the bundle is for issuer {found}; expected {expected}. Import it with the policy of its own ring"
    )]
    OtherIssuer {
        /// Whose it is.
        found: Box<IssuerUrl>,
        /// Whose ring this is.
        expected: Box<IssuerUrl>,
    },
    /// Keys that the policy does not want.
    #[error(
        "{kid} of the bundle signs {algorithm}, and the policy wants {wanted}; set its `key` first, or make another bundle"
    )]
    OtherAlgorithm {
        /// Which key.
        kid: KeyId,
        /// What it signs.
        algorithm: Algorithm,
        /// What is wanted.
        wanted: Algorithm,
    },
    /// A key that ended.
    #[error(
        "{kid} of the bundle was {state} before and never comes back; nothing was imported. Make a new bundle"
    )]
    Over {
        /// Which key.
        kid: KeyId,
        /// How it ended.
        state: KeyState,
    },
    /// A key that came by another way.
    #[error(
        "{kid} of the bundle is in the ring already, as {state}; nothing was imported. Make a new bundle"
    )]
    InRing {
        /// Which key.
        kid: KeyId,
        /// In which state.
        state: KeyState,
    },
    /// A key that another bundle has.
    #[error("{0} is in another bundle that was imported before; nothing was imported. Make a new bundle")]
    InAnother(KeyId),
}
