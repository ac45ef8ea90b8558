//! The ownership marker: what travels in an object's metadata and says whose it is, how new, and who says so.
//!
//! | field | holds |
//! |---|---|
//! | `chancery-owner` | the issuer id; another one than ours makes a target read-only for us |
//! | `chancery-decision` | from which decision of the issuer the object was written, so that an older one is known as old |
//! | `chancery-withdrawn` | keys that must not come back: for each a letter, E(xpired), (re)T(ired) or R(evoked), and the first 16 characters of its id |
//! | `chancery-proof` | the proof that a writer of the issuer wrote it, see [`crate::writer_key`] |
//!
//! Stores carry the fields as they are, under names that their metadata allows.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::writer_key::{Proof, Statement, WriterKey};
use crate::withdrawal::{Withdrawal, WithdrawalCause, WithdrawnKey};
use crate::{Document, IssuerUrl};

pub mod writer_key;

/// How many withdrawn keys a marker names. With 18 characters each, and an owner of 128, all fields stay below the
/// 2 kB that S3 grants an object's metadata.
pub const WITHDRAWN_KEPT: usize = 90;

/// Whose an object is: the id of an issuer, 1 to 128 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(String);

impl Owner {
    /// The owner of an issuer that names none: the same for every process that publishes this issuer, another for every
    /// other issuer. `chancery-` and the first 22 characters (132 bits) of base64url(SHA-256(issuer URL)).
    pub fn of_issuer(issuer: &IssuerUrl) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(issuer.as_str()));
        Self("chancery-".chars().chain(digest.chars().take(22)).collect())
    }

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
    /// From which decision of the issuer it was written, counted from 1; 0 where none was said.
    pub decision: u64,
    /// Keys withdrawn by then, as many as a marker names.
    pub withdrawn: Vec<Withdrawal>,
    /// The proof of its writer, where there is one.
    pub proof: Option<Proof>,
}

impl Marker {
    /// A marker that says whose the object is and nothing else.
    pub fn of(owner: Owner) -> Self {
        Self { owner, decision: 0, withdrawn: Vec::new(), proof: None }
    }

    /// The marker of a decision. Of more than [`WITHDRAWN_KEPT`] withdrawals it names the strongest, then the latest.
    pub fn of_decision<'a>(
        owner: Owner,
        decision: u64,
        withdrawals: impl IntoIterator<Item = &'a Withdrawal>,
    ) -> Self {
        let mut withdrawn: Vec<_> = withdrawals.into_iter().enumerate().collect();
        withdrawn.sort_by_key(|(position, withdrawal)| std::cmp::Reverse((withdrawal.cause, *position)));
        withdrawn.truncate(WITHDRAWN_KEPT);
        let withdrawn = withdrawn.into_iter().map(|(_, withdrawal)| Withdrawal {
            key: withdrawal.key.prefix(),
            cause: withdrawal.cause,
            decision,
        });
        Self { owner, decision, withdrawn: withdrawn.collect(), proof: None }
    }

    /// The same, proven by a writer for the document beside it.
    pub fn proven(self, key: &WriterKey, issuer: &IssuerUrl, document: &Document) -> Self {
        let Document { kind, bytes, .. } = document;
        let proof = key.prove(Statement { issuer, kind: *kind, bytes, marker: &self });
        Self { proof: Some(proof), ..self }
    }

    /// The value of one field, `None` where nothing needs to be said.
    pub fn field(&self, field: MarkerField) -> Option<String> {
        match field {
            MarkerField::Owner => Some(self.owner.to_string()),
            MarkerField::Decision => (self.decision > 0).then(|| self.decision.to_string()),
            MarkerField::Withdrawn => {
                let keys = self.withdrawn.iter();
                let keys: Vec<_> = keys.map(|w| format!("{}{}", w.cause.letter(), w.key.prefix())).collect();
                (!keys.is_empty()).then(|| keys.join(","))
            }
            MarkerField::Proof => self.proof.as_ref().map(|proof| proof.as_str().to_owned()),
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
    pub fn read<'a>(field: impl Fn(MarkerField) -> Option<&'a str>) -> Result<Option<Self>, DamagedMarker> {
        let Some(owner) = field(MarkerField::Owner) else { return Ok(None) };
        let owner: Owner =
            owner.parse().map_err(|_| DamagedMarker::illegal(None, MarkerField::Owner, owner))?;
        let illegal =
            |field: MarkerField, value: &str| DamagedMarker::illegal(Some(owner.clone()), field, value);
        let decision = match field(MarkerField::Decision) {
            Some(text) => text.parse().map_err(|_| illegal(MarkerField::Decision, text))?,
            None => 0,
        };
        let withdrawn = match field(MarkerField::Withdrawn) {
            Some(text) => text.split(',').map(|entry| read_withdrawal(entry, decision)).collect(),
            None => Some(Vec::new()),
        };
        let withdrawn = withdrawn.ok_or_else(|| {
            illegal(MarkerField::Withdrawn, field(MarkerField::Withdrawn).unwrap_or_default())
        })?;
        let proof = match field(MarkerField::Proof) {
            Some(text) => Some(text.parse().map_err(|_| illegal(MarkerField::Proof, text))?),
            None => None,
        };
        Ok(Some(Self { owner, decision, withdrawn, proof }))
    }
}

fn read_withdrawal(entry: &str, decision: u64) -> Option<Withdrawal> {
    let letter = entry.chars().next()?;
    let cause = WithdrawalCause::ALL.into_iter().find(|cause| cause.letter() == letter)?;
    let key: WithdrawnKey = entry.get(1..)?.parse().ok()?;
    Some(Withdrawal { key, cause, decision })
}

/// One writing of an issuer's JWKS on one target: what a writer remembers in order to know whether somebody else was
/// there. As text, `DECISION-DIGEST` with the base64url SHA-256 of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Edition {
    decision: u64,
    digest: String,
}

impl Edition {
    /// The edition of an object with this content; `None` when nobody of ours wrote it.
    pub fn of(bytes: &[u8], marker: Option<&Marker>) -> Option<Self> {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        marker.map(|marker| Self { decision: marker.decision, digest })
    }

    /// From which decision it was written.
    pub fn decision(&self) -> u64 {
        self.decision
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.decision, self.digest)
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
            text.split_once('-').and_then(|(decision, digest)| Some((decision.parse().ok()?, digest)));
        let parts = parts.map(|(decision, digest)| Self { decision, digest: digest.to_owned() });
        parts.ok_or(EditionError(text))
    }
}

/// A text that names no edition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no edition of a JWKS; expected DECISION-DIGEST")]
pub struct EditionError(String);

/// One entry of an object's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkerField {
    /// Whose it is.
    Owner,
    /// How new it is.
    Decision,
    /// What must not come back.
    Withdrawn,
    /// Who says so.
    Proof,
}

impl MarkerField {
    /// Every field.
    pub const ALL: [Self; 4] = [Self::Owner, Self::Decision, Self::Withdrawn, Self::Proof];

    /// Its name, in lower case with hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Owner => "chancery-owner",
            Self::Decision => "chancery-decision",
            Self::Withdrawn => "chancery-withdrawn",
            Self::Proof => "chancery-proof",
        }
    }

    /// Its name where only identifiers are allowed, as in Azure's metadata.
    pub fn identifier(self) -> &'static str {
        match self {
            Self::Owner => "chancery_owner",
            Self::Decision => "chancery_decision",
            Self::Withdrawn => "chancery_withdrawn",
            Self::Proof => "chancery_proof",
        }
    }
}

/// A marker that cannot be read. No writer of ours leaves one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct DamagedMarker {
    /// Whose object it says it is, as far as that can be read.
    pub owner: Option<Owner>,
    /// What is wrong with it; what somebody else wrote is quoted.
    pub problem: String,
}

impl DamagedMarker {
    fn illegal(owner: Option<Owner>, field: MarkerField, value: &str) -> Self {
        let field = field.name();
        let problem =
            format!("the ownership marker's field {field} is {value:?}, which no writer of ours leaves");
        Self { owner, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyId;
    use crate::withdrawal::Withdrawals;

    fn kid(number: u8) -> KeyId {
        format!("{number:03}{}", "A".repeat(40)).parse().unwrap()
    }

    fn read_back(marker: &Marker) -> Option<Marker> {
        let fields: Vec<_> = marker.fields().collect();
        let value = |wanted| fields.iter().find(|(field, _)| *field == wanted).map(|(_, text)| text.as_str());
        Marker::read(value).unwrap()
    }

    #[test]
    fn a_marker_comes_back_and_stays_within_what_stores_grant() {
        let marker = Marker::of("chancery-x".parse().unwrap());
        assert_eq!(marker.fields().count(), 1, "nothing is said that says nothing");
        assert_eq!(read_back(&marker).as_ref(), Some(&marker));

        let owner: Owner = "o".repeat(128).parse().unwrap();
        let (issuer, key) = ("https://id.example.com".parse().unwrap(), WriterKey::new([1; 32]));
        let withdrawals = Withdrawals::of((0..200).map(kid), WithdrawalCause::Expired, 1);
        let marker = Marker::of_decision(owner, u64::MAX, withdrawals.iter());
        let document = Document {
            kind: crate::DocumentKind::Jwks,
            bytes: b"{}".to_vec(),
            cache: crate::CachePolicy::default(),
        };
        let marker = marker.proven(&key, &issuer, &document);
        assert_eq!(read_back(&marker).as_ref(), Some(&marker));
        let size: usize = marker.fields().map(|(field, value)| field.name().len() + value.len()).sum();
        assert!(size < 2048, "{size} bytes of metadata");
    }

    #[test]
    fn revocations_are_named_before_all_others_and_late_ones_before_early_ones() {
        let mut withdrawals = Withdrawals::of((0..60).map(kid), WithdrawalCause::Revoked, 1);
        for number in 60..200 {
            let cause = WithdrawalCause::Expired;
            withdrawals.add(Withdrawal { key: (&kid(number)).into(), cause, decision: u64::from(number) });
        }
        let marker = Marker::of_decision("us".parse().unwrap(), 200, withdrawals.iter());
        let named = |number: u8| marker.withdrawn.iter().any(|withdrawal| withdrawal.key.is(&kid(number)));
        assert!((0..60).all(named) && (170..200).all(named), "60 revoked, then the 30 latest");
        assert_eq!(marker.withdrawn.len(), WITHDRAWN_KEPT);
    }

    #[test]
    fn a_damaged_marker_does_not_pass_for_none() {
        let proof = "A".repeat(43);
        for (owner, decision, withdrawn, proof) in [
            ("with space", "1", "", proof.as_str()),
            ("us", "one", "", &proof),
            ("us", "-1", "", &proof),
            ("us", "1", "no kid", &proof),
            ("us", "1", "XAAAAAAAAAAAAAAAA", &proof),
            ("us", "1", "RAAAAAAAAAAAAAAAA", "short"),
        ] {
            let read = Marker::read(|field| {
                Some(match field {
                    MarkerField::Owner => owner,
                    MarkerField::Decision => decision,
                    MarkerField::Withdrawn => withdrawn,
                    MarkerField::Proof => proof,
                })
            });
            assert!(read.is_err(), "{owner} {decision} {withdrawn} {proof}");
        }
        assert_eq!(Marker::read(|_| None), Ok(None));
    }

    #[test]
    fn an_owner_belongs_to_one_issuer_byte_for_byte() {
        let owner = |url: &str| Owner::of_issuer(&url.parse().unwrap()).to_string();
        // printf %s https://id.example.com/a | openssl sha256 -binary | basenc --base64url | cut -c1-22
        assert_eq!(owner("https://id.example.com/a"), "chancery-Zqzzb_h4qGetiZNhWKChbe");
        let urls = ["https://id.example.com/a", "https://id.example.com/a/", "https://ID.example.com/a"];
        assert_eq!(urls.map(owner).into_iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    }
}
