//! What changed on a target although we did not write it.
//!
//! [`compare`] holds what a target shows against what it showed, or was written to show, before. Rules:
//!
//! 1. Only what carried our marker can drift. What others do with their own objects is their affair, and an object
//!    that was not there before is a publication.
//! 2. An object of ours that is gone, or carries another marker or none, has drifted.
//! 3. A writer with state knows by the proof who wrote what carries our marker. What is not proven was changed by an
//!    intruder; what is proven and of an older decision than what stood there was brought back by one.
//! 4. A writer without state has only the count of decisions to go by: a higher one than before is another writer of
//!    ours, or a write of its own whose answer was lost. Anything else that differs has drifted.
//! 5. What is larger than what is read is nobody's of ours, whatever its marker says.
//! 6. The same content in a new version has not drifted.
//! 7. A key that appears without a proof, and that we neither publish nor withdrew, is reported by name: whoever can
//!    put a key there can forge identities. A writer with state removes it; one without reports it, since it cannot
//!    tell it from another writer's.

use std::fmt;

use crate::jwks::ObservedJwks;
use crate::provenance::Provenance;
use crate::publication::{Desired, LARGEST_OBJECT, Observed, StoredObject, WriterMemory};
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
    /// Somebody put an object there that is larger than what is read.
    Oversize,
    /// An older edition of it was brought back.
    RolledBack,
    /// It shows keys under our own marker that are not ours.
    ForeignKeys {
        /// Which keys.
        kids: Vec<KeyId>,
        /// Whether they are removed, since it is certain that no writer of ours put them there.
        removed: bool,
    },
}

impl DriftKind {
    /// The names of all kinds.
    pub const NAMES: [&str; 6] =
        ["Changed", "Vanished", "Oversize", "MarkerReplaced", "RolledBack", "ForeignKeys"];

    /// Its name in metrics and conditions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Vanished => "Vanished",
            Self::Marker { .. } => "MarkerReplaced",
            Self::Changed => "Changed",
            Self::Oversize => "Oversize",
            Self::RolledBack => "RolledBack",
            Self::ForeignKeys { .. } => "ForeignKeys",
        }
    }

    /// Whether somebody may be forging identities, rather than only breaking something.
    pub fn is_possible_intrusion(&self) -> bool {
        matches!(self, Self::ForeignKeys { .. } | Self::RolledBack)
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
            DriftKind::Oversize => write!(
                f,
                "somebody put an object of more than {LARGEST_OBJECT} bytes in the place of the {document}, which relying parties may not be able to read"
            ),
            DriftKind::RolledBack => {
                write!(
                    f,
                    "somebody brought an older edition of the {document} back, and with it the keys that were withdrawn since"
                )
            }
            DriftKind::ForeignKeys { kids, removed } => {
                let kids: Vec<&str> = kids.iter().map(KeyId::as_str).collect();
                let kids = kids.join(", ");
                write!(f, "somebody put keys into the {document} under our marker ({kids}); ")?;
                f.write_str(match removed {
                    true => "tokens signed with them were accepted until they were removed again: find out who can write there",
                    false => "tokens signed with them are accepted. They stay, since dropping a key may reject somebody's tokens: find out whose they are, and remove them by hand if nobody answers",
                })
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
                Some(before) => of_object(desired, document, before, now.object(document)),
                None => Vec::new(),
            };
            what.into_iter().map(move |what| Drift { document, what })
        })
        .collect()
}

fn is_ours(object: &StoredObject, owner: &Owner) -> bool {
    object.marker.as_ref().is_some_and(|marker| marker.owner == *owner)
}

fn of_object(
    desired: Desired<'_>,
    document: DocumentKind,
    before: &StoredObject,
    now: Option<&StoredObject>,
) -> Vec<DriftKind> {
    let Some(now) = now else { return vec![DriftKind::Vanished] };
    if now.version == before.version {
        return Vec::new();
    }
    let provenance = desired.identity().judge(document, now);
    let decision = |object: &StoredObject| object.marker.as_ref().map_or(0, |marker| marker.decision);
    let content = |object: &StoredObject| StoredObject { version: before.version.clone(), ..object.clone() };
    let differs = content(now) != content(before);
    let is_stateful = matches!(desired.memory, WriterMemory::Stateful { .. });
    let changed = match provenance {
        Provenance::Foreign(theirs) => return vec![DriftKind::Marker { theirs: Some(theirs.clone()) }],
        _ if now.is_oversize() => Some(DriftKind::Oversize),
        Provenance::Unmarked => Some(DriftKind::Marker { theirs: None }),
        Provenance::Proven if decision(now) < decision(before) => Some(DriftKind::RolledBack),
        Provenance::Proven => (differs && decision(now) == decision(before) && now.bytes == before.bytes)
            .then_some(DriftKind::Changed),
        _ if is_stateful => differs.then_some(DriftKind::Changed),
        _ => (differs && decision(now) <= decision(before)).then_some(DriftKind::Changed),
    };
    let kids = match provenance {
        Provenance::Proven => Vec::new(),
        // A writer without state does not touch what carries no marker.
        Provenance::Unmarked if !is_stateful => Vec::new(),
        _ => new_foreign_keys(desired, before, now),
    };
    let foreign = (!kids.is_empty()).then_some(DriftKind::ForeignKeys { kids, removed: is_stateful });
    changed.into_iter().chain(foreign).collect()
}

fn new_foreign_keys(desired: Desired<'_>, before: &StoredObject, now: &StoredObject) -> Vec<KeyId> {
    let published = |object: &StoredObject| ObservedJwks::parse(&object.bytes).unwrap_or_default();
    let known: Vec<KeyId> = published(before).keys().map(PublicKey::key_id).cloned().collect();
    let now = published(now);
    desired.unknown(&now).map(PublicKey::key_id).filter(|kid| !known.contains(kid)).cloned().collect()
}
