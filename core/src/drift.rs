//! What changed on a target although we did not write it.
//!
//! [`compare`] holds what a target shows against what it showed, or was written to show, before. Rules:
//!
//! 1. Only what carried our marker can drift. What others do with their own objects is their affair, and an object
//!    that was not there before is a publication.
//! 2. An object of ours that is gone, or carries another marker or none, has drifted.
//! 3. Under our marker, a higher generation than before is another writer of ours, or a write of our own whose answer
//!    was lost. Anything else that differs has drifted: whoever edits an object in place keeps its metadata, and
//!    whoever restores an older version brings back a lower generation. The same content in a new version has not.
//! 4. A key that appears under our marker, and that we neither publish nor withdrew, is reported whatever the
//!    generation says: whoever can put a key there can forge identities. It stays, by the rules of
//!    [`crate::publication`], until a person decides.

use std::fmt;

use crate::jwks::ObservedJwks;
use crate::publication::{Desired, Observed, StoredObject};
use crate::{DocumentKind, KeyId, Owner, PublicKey};

/// One difference that we did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Of which document.
    pub document: DocumentKind,
    /// What became of it.
    pub what: DriftKind,
}

/// What became of a document of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftKind {
    /// It is gone.
    Vanished,
    /// It belongs to somebody else now, or to nobody.
    Marker {
        /// Whose marker it carries.
        theirs: Option<Owner>,
    },
    /// Its bytes, headers or withdrawals differ under our own marker.
    Changed,
    /// It shows keys under our own marker that are not ours.
    ForeignKeys(Vec<KeyId>),
}

impl DriftKind {
    /// Its name in metrics and conditions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Vanished => "Vanished",
            Self::Marker { .. } => "MarkerReplaced",
            Self::Changed => "Changed",
            Self::ForeignKeys(_) => "ForeignKeys",
        }
    }

    /// Whether somebody may be forging identities, rather than only breaking something.
    pub fn is_possible_intrusion(&self) -> bool {
        matches!(self, Self::ForeignKeys(_))
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = self.document;
        match &self.what {
            DriftKind::Vanished => write!(f, "the {document} was removed, and not by us"),
            DriftKind::Marker { theirs: Some(theirs) } => {
                write!(f, "the {document} was replaced by one that belongs to {theirs}")
            }
            DriftKind::Marker { theirs: None } => {
                write!(f, "the {document} was replaced by one without an ownership marker")
            }
            DriftKind::Changed => write!(f, "the {document} was changed under our marker, and not by us"),
            DriftKind::ForeignKeys(kids) => {
                let kids: Vec<&str> = kids.iter().map(KeyId::as_str).collect();
                write!(
                    f,
                    "somebody put keys into the {document} under our marker ({}); tokens signed with them are accepted. \
                     They stay, since dropping a key may reject somebody's tokens: find out whose they are, and remove them by hand if nobody answers",
                    kids.join(", ")
                )
            }
        }
    }
}

/// Everything that differs between `last`, what was seen or written, and `now`, by the rules at the head of this
/// module.
pub fn compare(desired: Desired<'_>, last: &Observed, now: &Observed) -> Vec<Drift> {
    let kinds = DocumentKind::ALL.into_iter();
    kinds
        .flat_map(|document| {
            let what = match last.object(document).filter(|object| is_ours(object, desired.owner)) {
                Some(before) => of_object(desired, before, now.object(document)),
                None => Vec::new(),
            };
            what.into_iter().map(move |what| Drift { document, what })
        })
        .collect()
}

fn is_ours(object: &StoredObject, owner: &Owner) -> bool {
    object.marker.as_ref().is_some_and(|marker| marker.owner == *owner)
}

fn of_object(desired: Desired<'_>, before: &StoredObject, now: Option<&StoredObject>) -> Vec<DriftKind> {
    let Some(now) = now else { return vec![DriftKind::Vanished] };
    if now.version == before.version {
        return Vec::new();
    }
    if !is_ours(now, desired.owner) {
        let theirs = now.marker.as_ref().map(|marker| marker.owner.clone());
        return vec![DriftKind::Marker { theirs }];
    }
    let generation = |object: &StoredObject| object.marker.as_ref().map(|marker| marker.generation);
    let is_newer = generation(now) > generation(before);
    let content = |object: &StoredObject| StoredObject { version: before.version.clone(), ..object.clone() };
    let changed = (!is_newer && content(now) != content(before)).then_some(DriftKind::Changed);
    let foreign = new_foreign_keys(desired, before, now);
    changed.into_iter().chain((!foreign.is_empty()).then_some(DriftKind::ForeignKeys(foreign))).collect()
}

fn new_foreign_keys(desired: Desired<'_>, before: &StoredObject, now: &StoredObject) -> Vec<KeyId> {
    let ids = |object: &StoredObject| -> Vec<KeyId> {
        let published = ObservedJwks::parse(&object.bytes).unwrap_or_default();
        published.keys().map(PublicKey::key_id).cloned().collect()
    };
    let known = ids(before);
    let ours = |id: &KeyId| desired.documents.jwks().contains(id) || desired.tombstones.contains(id);
    ids(now).into_iter().filter(|id| !known.contains(id) && !ours(id)).collect()
}
