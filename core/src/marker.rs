//! The ownership marker: what travels in an object's metadata and says whose it is and how new.
//!
//! | field | holds |
//! |---|---|
//! | `chancery-owner` | the issuer id; another one than ours makes a target read-only for us |
//! | `chancery-generation` | how often the JWKS was written, so that each writing of it is another [`Edition`] |
//! | `chancery-withdrawn` | the keys withdrawn last, so that a writer with older state does not bring them back |
//!
//! Stores carry the fields as they are, under names that their metadata allows.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::KeyId;

/// How many withdrawn keys a marker names. With 43 characters each they stay below the 2 kB that S3 grants metadata.
pub const WITHDRAWN_KEPT: usize = 24;

/// Whose an object is: the id of an issuer, 1 to 128 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(String);

impl Owner {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Owner {
    type Err = OwnerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if legal { Ok(Self(text.to_owned())) } else { Err(OwnerError(text.to_owned())) }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that cannot travel as object metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("owner {0:?} cannot be used; expected 1 to 128 visible ASCII characters without spaces")]
pub struct OwnerError(String);

/// What one object says about its writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Whose the object is.
    pub owner: Owner,
    /// How often the issuer's JWKS was written: one more than what it replaced.
    pub generation: u64,
    /// Keys withdrawn by the owner, the latest last.
    pub withdrawn: Vec<KeyId>,
}

impl Marker {
    /// A marker that says whose the object is and nothing else.
    pub fn of(owner: Owner) -> Self {
        Self { owner, generation: 0, withdrawn: Vec::new() }
    }

    /// The value of one field, `None` where nothing needs to be said. At most [`WITHDRAWN_KEPT`] keys, the latest ones.
    pub fn field(&self, field: MarkerField) -> Option<String> {
        match field {
            MarkerField::Owner => Some(self.owner.to_string()),
            MarkerField::Generation => (self.generation > 0).then(|| self.generation.to_string()),
            MarkerField::Withdrawn => {
                let kept = self.withdrawn.len().saturating_sub(WITHDRAWN_KEPT);
                let kids: Vec<&str> = self.withdrawn.iter().skip(kept).map(KeyId::as_str).collect();
                (!kids.is_empty()).then(|| kids.join(","))
            }
        }
    }

    /// The fields that say something.
    pub fn fields(&self) -> impl Iterator<Item = (MarkerField, String)> {
        MarkerField::ALL.into_iter().filter_map(|field| Some((field, self.field(field)?)))
    }

    /// Reads a marker back. `None` when the object has no owner.
    ///
    /// # Errors
    /// When a field cannot be read: a damaged marker must not pass for none.
    pub fn read<'a>(field: impl Fn(MarkerField) -> Option<&'a str>) -> Result<Option<Self>, MarkerError> {
        let Some(owner) = field(MarkerField::Owner) else { return Ok(None) };
        let illegal = |field: MarkerField, value: &str| MarkerError { field, value: value.to_owned() };
        let owner = owner.parse().map_err(|_| illegal(MarkerField::Owner, owner))?;
        let generation = match field(MarkerField::Generation) {
            Some(text) => text.parse().map_err(|_| illegal(MarkerField::Generation, text))?,
            None => 0,
        };
        let withdrawn = match field(MarkerField::Withdrawn) {
            Some(text) => text.split(',').map(str::parse).collect::<Result<_, _>>(),
            None => Ok(Vec::new()),
        };
        let withdrawn = withdrawn.map_err(|_| {
            illegal(MarkerField::Withdrawn, field(MarkerField::Withdrawn).unwrap_or_default())
        })?;
        Ok(Some(Self { owner, generation, withdrawn }))
    }
}

/// One writing of an issuer's JWKS on one target: what a writer remembers in order to know whether somebody else was
/// there. As text, `GENERATION-DIGEST` with the base64url SHA-256 of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Edition {
    generation: u64,
    digest: String,
}

impl Edition {
    /// The edition of an object with this content; `None` when nobody of ours wrote it.
    pub fn of(bytes: &[u8], marker: Option<&Marker>) -> Option<Self> {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        marker.map(|marker| Self { generation: marker.generation, digest })
    }

    /// How often the JWKS had been written then.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.digest)
    }
}

impl From<Edition> for String {
    fn from(edition: Edition) -> Self {
        edition.to_string()
    }
}

impl TryFrom<String> for Edition {
    type Error = EditionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts =
            text.split_once('-').and_then(|(generation, digest)| Some((generation.parse().ok()?, digest)));
        let parts = parts.map(|(generation, digest)| Self { generation, digest: digest.to_owned() });
        parts.ok_or(EditionError(text))
    }
}

/// A text that names no edition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no edition of a JWKS; expected GENERATION-DIGEST")]
pub struct EditionError(String);

/// One entry of an object's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkerField {
    /// Whose it is.
    Owner,
    /// How new it is.
    Generation,
    /// What must not come back.
    Withdrawn,
}

impl MarkerField {
    /// Every field.
    pub const ALL: [Self; 3] = [Self::Owner, Self::Generation, Self::Withdrawn];

    /// Its name, in lower case with hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Owner => "chancery-owner",
            Self::Generation => "chancery-generation",
            Self::Withdrawn => "chancery-withdrawn",
        }
    }

    /// Its name where only identifiers are allowed, as in Azure's metadata.
    pub fn identifier(self) -> &'static str {
        match self {
            Self::Owner => "chancery_owner",
            Self::Generation => "chancery_generation",
            Self::Withdrawn => "chancery_withdrawn",
        }
    }
}

/// A marker that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ownership marker's field {} is {value:?}, which no writer of ours leaves", field.name())]
pub struct MarkerError {
    /// Which field.
    pub field: MarkerField,
    /// What it holds.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kid(number: u8) -> KeyId {
        let id = format!("{}{}", "A".repeat(40), format_args!("{number:02}"));
        format!("{id}A").parse().unwrap()
    }

    fn read_back(marker: &Marker) -> Option<Marker> {
        let fields: Vec<_> = marker.fields().collect();
        let value = |wanted| fields.iter().find(|(field, _)| *field == wanted).map(|(_, text)| text.as_str());
        Marker::read(value).unwrap()
    }

    #[test]
    fn a_marker_comes_back_and_keeps_the_latest_withdrawals() {
        let mut marker = Marker::of("chancery-x".parse().unwrap());
        assert_eq!(marker.fields().count(), 1, "nothing is said that says nothing");
        assert_eq!(read_back(&marker).as_ref(), Some(&marker));
        marker.generation = 7;
        marker.withdrawn = (0..30).map(kid).collect();
        let back = read_back(&marker).unwrap();
        assert_eq!((back.generation, back.withdrawn), (7, (6..30).map(kid).collect()));
        let size: usize = marker.fields().map(|(field, value)| field.name().len() + value.len()).sum();
        assert!(size < 1200, "{size} bytes of metadata");
    }

    #[test]
    fn a_damaged_marker_does_not_pass_for_none() {
        for (owner, generation, withdrawn) in
            [("with space", "1", ""), ("us", "one", ""), ("us", "-1", ""), ("us", "1", "no kid")]
        {
            let read = Marker::read(|field| {
                Some(match field {
                    MarkerField::Owner => owner,
                    MarkerField::Generation => generation,
                    MarkerField::Withdrawn => withdrawn,
                })
            });
            assert!(read.is_err(), "{owner} {generation} {withdrawn}");
        }
        assert_eq!(Marker::read(|_| None), Ok(None));
    }
}
