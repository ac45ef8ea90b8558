//! What a writer wants of a target, and what it goes by beside what it finds there.

use serde::{Deserialize, Serialize};

use crate::jwks::ObservedJwks;
use crate::marker::{Edition, Owner};
use crate::provenance::Identity;
use crate::withdrawal::Withdrawals;
use crate::writer_key::WriterKey;
use crate::{DocumentSet, PublicKey};

/// What we want of a target.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// The documents with every key that must be visible.
    pub documents: &'a DocumentSet,
    /// Keys that are withdrawn.
    pub withdrawals: &'a Withdrawals,
    /// Who we are.
    pub owner: &'a Owner,
    /// What we go by beside what we find.
    pub memory: WriterMemory<'a>,
    /// Whether objects without any marker may be taken over.
    pub adopt_unmarked: bool,
}

impl<'a> Desired<'a> {
    /// Whom we take for ourselves.
    pub fn identity(&self) -> Identity<'a> {
        let writer_key = match self.memory {
            WriterMemory::Stateless { writer_key, .. } => writer_key,
            WriterMemory::Stateful { writer_key, .. } => Some(writer_key),
        };
        Identity { issuer: self.documents.issuer(), owner: self.owner, writer_key }
    }

    /// Keys there that are neither published nor withdrawn by us.
    pub(crate) fn unknown<'o>(&self, published: &'o ObservedJwks) -> impl Iterator<Item = &'o PublicKey> {
        let ours = self.documents.jwks();
        published
            .keys()
            .filter(|key| !ours.contains(key.key_id()) && !self.withdrawals.contains(key.key_id()))
    }
}

/// What a writer goes by beside what it finds.
#[derive(Clone, Copy, Debug)]
pub enum WriterMemory<'a> {
    /// It keeps nothing from one publication to the next, as a pipeline.
    Stateless {
        /// With it the writer proves what it writes, and knows what others have proven.
        writer_key: Option<&'a WriterKey>,
        /// What becomes of keys that it is to publish and that were withdrawn there.
        returning: Returning,
        /// Whether an empty set may be written where every key was revoked: a person has chosen the outage.
        may_empty: bool,
        /// The number of the first decision at a place where nothing was decided; see [`first_decision`].
        first_decision: u64,
    },
    /// It records what it decides.
    Stateful {
        /// Proves what it writes.
        writer_key: &'a WriterKey,
        /// By which decision the documents are to be published, counted from 1.
        decision: u64,
        /// What it has recorded of this target; nothing where it has never been: what stands there may be a predecessor's.
        contact: Option<&'a Contact>,
    },
}

impl WriterMemory<'_> {
    /// Of a writer without state and without a key, which lives by the most cautious rules.
    pub const NONE: Self = Self::Stateless {
        writer_key: None,
        returning: Returning::Refused,
        may_empty: false,
        first_decision: 1,
    };
}

/// What becomes of a key that a writer without state is to publish, and that the marker it finds has withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returning {
    /// It blocks the target: a person who repeats an old command must not undo what somebody decided.
    Refused,
    /// It is left out where a proven marker says that it was retired or revoked, and published where it only expired or
    /// nothing is proven: a service goes by its sources.
    LeftOut,
    /// It is published, unless it was revoked: a person has said so.
    Allowed,
}

/// The number of the first decision of a writer that begins at some time, in whole seconds since 1970. Decisions are
/// rarer than seconds, so a writer that begins anew, as its state was lost, is not taken for an older one.
pub fn first_decision(unix_seconds: u64) -> u64 {
    unix_seconds.max(1)
}

/// What a writer with state has recorded of a target that it writes to: what is not proven to be ours there is an
/// intruder's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Contact {
    /// The JWKS that it last wrote there, or that it last adopted.
    pub known: Option<Edition>,
}

impl Contact {
    /// From which decision the JWKS is that it knows there.
    pub fn decision(&self) -> Option<u64> {
        self.known.as_ref().map(Edition::decision)
    }
}
