//! Why an object is written.

use std::fmt;

use super::found::Found;
use super::{Desired, LARGEST_OBJECT, StoredObject, distinct};
use crate::provenance::Provenance;
use crate::withdrawal::Withdrawals;
use crate::{Document, Jwks, KeyId, PublicKey};

/// Why an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is none yet.
    Missing,
    /// Keys become visible.
    Adds(Vec<KeyId>),
    /// Withdrawn keys go.
    Withdraws(Vec<KeyId>),
    /// Keys go that no writer of ours put there.
    RemovesIntruders(Vec<KeyId>),
    /// What is there cannot be read by anybody.
    Unreadable,
    /// It is larger than what is read.
    Oversize,
    /// The bytes differ in another way.
    Content,
    /// The media type differs.
    MediaType(Option<String>),
    /// The cache header differs.
    CacheControl(Option<String>),
    /// The object has no marker and is adopted.
    Adopted,
    /// The object does not prove that a writer of ours wrote it.
    Unproven,
    /// The same keys were published by an older decision.
    OlderDecision {
        /// By which one.
        found: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |keys: &[KeyId]| keys.iter().map(KeyId::as_str).collect::<Vec<_>>().join(", ");
        match self {
            Self::Missing => f.write_str("it is not there"),
            Self::Adds(keys) => write!(f, "adds {}", list(keys)),
            Self::Withdraws(keys) => write!(f, "withdraws {}", list(keys)),
            Self::RemovesIntruders(keys) => {
                write!(f, "removes {}, which nobody of ours put there", list(keys))
            }
            Self::Unreadable => f.write_str("what is there cannot be read"),
            Self::Oversize => write!(f, "it has more than {LARGEST_OBJECT} bytes"),
            Self::Content => f.write_str("the bytes differ"),
            Self::MediaType(was) => write!(f, "media type was {}", was.as_deref().unwrap_or("not set")),
            Self::CacheControl(was) => write!(f, "cache header was {}", was.as_deref().unwrap_or("not set")),
            Self::Adopted => f.write_str("takes over an object without an ownership marker"),
            Self::Unproven => f.write_str("its marker is not proven to be ours"),
            Self::OlderDecision { found } => write!(f, "it was written from decision {found}"),
        }
    }
}

/// In what an object differs from the document that is to be there.
pub(super) fn difference(
    desired: Desired<'_>,
    document: &Document,
    object: Option<&StoredObject>,
) -> Vec<Reason> {
    let Some(object) = object else { return vec![Reason::Missing] };
    let mut reasons = Vec::new();
    if object.bytes != document.bytes {
        reasons.push(Reason::Content);
    }
    if object.is_oversize() {
        reasons.push(Reason::Oversize);
    }
    if object.media_type.as_deref() != Some(document.kind.media_type()) {
        reasons.push(Reason::MediaType(object.media_type.clone()));
    }
    if object.cache_control.as_deref() != Some(document.cache.header().as_str()) {
        reasons.push(Reason::CacheControl(object.cache_control.clone()));
    }
    let identity = desired.identity();
    match identity.judge(document.kind, object) {
        Provenance::Unmarked => reasons.push(Reason::Adopted),
        Provenance::Damaged(_) => reasons.push(Reason::Unproven),
        Provenance::Unproven | Provenance::Disproven if identity.writer_key.is_some() => {
            reasons.push(Reason::Unproven);
        }
        _ => {}
    }
    reasons
}

/// Says which keys a changed JWKS adds and withdraws, instead of only that its bytes differ.
pub(super) fn explain_content(
    reasons: Vec<Reason>,
    found: &Found<'_>,
    after: &Jwks,
    withdrawals: &Withdrawals,
) -> Vec<Reason> {
    let before = distinct(found.published.keys());
    let adds: Vec<_> =
        after.keys().iter().map(PublicKey::key_id).filter(|id| !before.contains(id)).cloned().collect();
    let gone = before.into_iter().filter(|id| !after.contains(id));
    let (withdraws, removes): (Vec<_>, Vec<_>) = gone.partition(|id| withdrawals.contains(id));
    let mut explained = Vec::new();
    if found.unreadable {
        explained.push(Reason::Unreadable);
    }
    explained.extend((!adds.is_empty()).then_some(Reason::Adds(adds)));
    explained.extend((!withdraws.is_empty()).then_some(Reason::Withdraws(withdraws)));
    explained.extend((!removes.is_empty()).then_some(Reason::RemovesIntruders(removes)));
    let explains = !explained.is_empty();
    explained.extend(reasons.into_iter().filter(|reason| !(explains && *reason == Reason::Content)));
    explained
}
