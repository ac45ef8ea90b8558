//! What to make of an object's marker: whoever can write an object can write its marker, so the proof decides.

use crate::marker::{DamagedMarker, Owner};
use crate::publication::StoredObject;
use crate::writer_key::{Statement, WriterKey};
use crate::{DocumentKind, IssuerUrl};

/// Who wrote an object, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance<'a> {
    /// There is no marker.
    Unmarked,
    /// The marker names another owner.
    Foreign(&'a Owner),
    /// There is a marker that nobody can read, and by what can be read it is not another owner's.
    Damaged(&'a DamagedMarker),
    /// The marker names us and proves nothing: a pipeline without our writer key, or anybody.
    Unproven,
    /// The marker names us, and its proof is not one of our key over this content: another writer key, or an object
    /// that somebody has changed.
    Disproven,
    /// A writer of this issuer wrote it.
    Proven,
}

/// Whom we take for ourselves.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Whose documents these are.
    pub issuer: &'a IssuerUrl,
    /// Our id in markers.
    pub owner: &'a Owner,
    /// The key that proves our markers; without one no proof can be told from another.
    pub writer_key: Option<&'a WriterKey>,
}

impl Identity<'_> {
    /// Who wrote an object that was found at the place of a document of ours.
    pub fn judge<'o>(&self, kind: DocumentKind, object: &'o StoredObject) -> Provenance<'o> {
        if let Some(damage) = &object.damage {
            return match &damage.owner {
                Some(owner) if owner != self.owner => Provenance::Foreign(owner),
                _ => Provenance::Damaged(damage),
            };
        }
        let Some(marker) = &object.marker else { return Provenance::Unmarked };
        if marker.owner != *self.owner {
            return Provenance::Foreign(&marker.owner);
        }
        let Some(proof) = &marker.proof else { return Provenance::Unproven };
        let statement = Statement { issuer: self.issuer, kind, bytes: &object.bytes, marker };
        match self.writer_key {
            Some(key) if key.has_proven(statement, proof) => Provenance::Proven,
            _ => Provenance::Disproven,
        }
    }
}
