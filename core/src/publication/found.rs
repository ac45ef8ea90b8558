//! What was found at the place of the JWKS, and what that means for what may be done there.

use super::{Blocked, Contact, Desired, StoredObject, WriterMemory};
use crate::jwks::{JwksError, ObservedJwks};
use crate::marker::Marker;
use crate::provenance::Provenance;
use crate::{DocumentKind, Jwks, PublicKey};

/// What was found at the place of the JWKS.
pub(super) struct Found<'a> {
    pub(super) object: Option<&'a StoredObject>,
    pub(super) provenance: Option<Provenance<'a>>,
    pub(super) published: ObservedJwks,
    pub(super) unreadable: bool,
}

impl<'a> Found<'a> {
    pub(super) fn of(desired: Desired<'_>, object: Option<&'a StoredObject>) -> Result<Self, Blocked> {
        let provenance = object.map(|object| desired.identity().judge(DocumentKind::Jwks, object));
        let (published, unreadable) = match object.map(|object| ObservedJwks::parse(&object.bytes)) {
            None => (ObservedJwks::default(), false),
            Some(Ok(published)) => (published, false),
            // A set that somebody more lenient than we may still read, so its keys may be in use.
            Some(Err(JwksError::NotAnObject)) if !provenance.is_some_and(|it| is_repaired(desired, it)) => {
                return Err(Blocked::ForeignEntry { kid: String::new(), kty: String::new() });
            }
            Some(Err(_)) => (ObservedJwks::default(), true),
        };
        Ok(Self { object, provenance, published, unreadable })
    }

    pub(super) fn marker(&self) -> Option<&'a Marker> {
        self.object?.marker.as_ref()
    }

    pub(super) fn decision(&self) -> u64 {
        self.marker().map_or(0, |marker| marker.decision)
    }

    pub(super) fn is_proven(&self) -> bool {
        self.provenance == Some(Provenance::Proven)
    }

    pub(super) fn shows_exactly(&self, jwks: &Jwks) -> bool {
        let same = |key: &PublicKey| jwks.contains(key.key_id());
        let order = Jwks::new(self.published.keys().cloned()).unwrap_or_else(Jwks::empty);
        order.keys().len() == jwks.keys().len() && order.keys().iter().all(same)
    }
}

/// Whether what is found there is replaced without asking. Where we have recorded that we write, and do not know yet
/// that we have, that is only what carries a proof: it is a write of ours that somebody has changed.
pub(super) fn is_repaired(desired: Desired<'_>, provenance: Provenance<'_>) -> bool {
    match desired.memory {
        WriterMemory::Stateful { contact: Some(Contact { known: Some(_) }), .. } => true,
        WriterMemory::Stateful { contact: Some(Contact { known: None }), .. } => {
            provenance == Provenance::Disproven
        }
        _ => false,
    }
}

/// Whether the keys that are found there must become ours before anything is written.
pub(super) fn takes_over(desired: Desired<'_>, found: &Found<'_>) -> bool {
    match desired.memory {
        // Where there is nothing to take over, the first write makes the contact.
        WriterMemory::Stateful { contact: None, .. } => found.object.is_some(),
        WriterMemory::Stateful { contact: Some(Contact { known: None }), .. } => {
            let predecessor = matches!(found.provenance, Some(Provenance::Unproven | Provenance::Unmarked));
            predecessor && desired.unknown(&found.published).next().is_some()
        }
        _ => false,
    }
}
