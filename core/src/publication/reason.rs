//! Why an object is written.

use std::fmt;

use crate::KeyId;

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
            Self::Content => f.write_str("the bytes differ"),
            Self::MediaType(was) => write!(f, "media type was {}", was.as_deref().unwrap_or("not set")),
            Self::CacheControl(was) => write!(f, "cache header was {}", was.as_deref().unwrap_or("not set")),
            Self::Adopted => f.write_str("takes over an object without an ownership marker"),
            Self::Unproven => f.write_str("its marker is not proven to be ours"),
            Self::OlderDecision { found } => write!(f, "it was written from decision {found}"),
        }
    }
}
