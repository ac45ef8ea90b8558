//! The key by which an issuer's writers know each other's work, and the proof that it makes.
//!
//! An object's metadata says whose it is, and whoever can write the object can write that. The proof cannot be copied
//! to other content: it is an HMAC-SHA256 (RFC 2104) over everything that the marker says and the bytes beside it,
//! under a key that lies with the issuer's state and never at a target.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, ZeroizeOnDrop};

use super::{Marker, MarkerField};
use crate::{DocumentKind, IssuerUrl};

/// What every proof begins with, so that the key proves nothing else.
const CONTEXT: &[u8] = b"chancery marker 1";

/// 256 secret bits that all writers of one issuer share. As text: 43 base64url characters.
#[derive(Clone, PartialEq, Eq, ZeroizeOnDrop)]
pub struct WriterKey([u8; 32]);

impl WriterKey {
    /// The key of these bits, which must be random.
    pub fn new(bits: [u8; 32]) -> Self {
        Self(bits)
    }

    /// The key as it stands in a file. Whoever holds it can decide what is published.
    pub fn to_secret_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The proof that a writer who holds this key said `statement`.
    pub fn prove(&self, statement: Statement<'_>) -> Proof {
        Proof(URL_SAFE_NO_PAD.encode(self.mac(statement).finalize().into_bytes()))
    }

    /// Whether `proof` was made with this key for this very statement. Compares in constant time.
    pub fn has_proven(&self, statement: Statement<'_>, proof: &Proof) -> bool {
        URL_SAFE_NO_PAD
            .decode(&proof.0)
            .is_ok_and(|expected| self.mac(statement).verify_slice(&expected).is_ok())
    }

    fn mac(&self, statement: Statement<'_>) -> Hmac<Sha256> {
        let Statement { issuer, kind, bytes, marker } = statement;
        let decision = marker.decision.to_string();
        let withdrawn = marker.field(MarkerField::Withdrawn).unwrap_or_default();
        let digest = Sha256::digest(bytes);
        let parts: [&[u8]; 7] = [
            CONTEXT,
            issuer.as_str().as_bytes(),
            kind.path().as_bytes(),
            marker.owner.as_str().as_bytes(),
            decision.as_bytes(),
            withdrawn.as_bytes(),
            &digest,
        ];
        #[expect(clippy::expect_used, reason = "an HMAC takes keys of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        for part in parts {
            // Each part tells its length, so that no two lists of parts read the same.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for WriterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriterKey(..)")
    }
}

impl FromStr for WriterKey {
    type Err = WriterKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut decoded = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| WriterKeyError)?;
        let key = <[u8; 32]>::try_from(decoded.as_slice()).map(Self).map_err(|_| WriterKeyError);
        decoded.zeroize();
        key
    }
}

/// A text that is no writer key. It does not repeat the text, which may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no writer key; expected 43 base64url characters, as `chancery publish writer-key` makes them"
)]
pub struct WriterKeyError;

/// What a proof is about: one object of one issuer, with the marker beside it.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'a> {
    /// Whose documents.
    pub issuer: &'a IssuerUrl,
    /// Which of them.
    pub kind: DocumentKind,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What its metadata says; the proof in it is no part of the statement.
    pub marker: &'a Marker,
}

/// The proof of a statement: 43 base64url characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof(String);

impl Proof {
    /// The proof as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Proof {
    type Err = NoProof;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match URL_SAFE_NO_PAD.decode(text) {
            Ok(mac) if mac.len() == 32 => Ok(Self(text.to_owned())),
            _ => Err(NoProof),
        }
    }
}

/// A text that has not the form of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 43 base64url characters")]
pub struct NoProof;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::withdrawal::{Withdrawal, WithdrawalCause};

    #[test]
    fn a_proof_holds_for_its_own_statement_alone() {
        let issuer: IssuerUrl = "https://id.example.com/a".parse().unwrap();
        let other: IssuerUrl = "https://id.example.com/b".parse().unwrap();
        let key = WriterKey::new([7; 32]);
        let mut marker = Marker::of("us".parse().unwrap());
        marker.decision = 3;
        let said = Statement { issuer: &issuer, kind: DocumentKind::Jwks, bytes: b"{}", marker: &marker };
        let proof = key.prove(said);
        assert!(key.has_proven(said, &proof));
        assert_eq!(proof.as_str().parse(), Ok(proof.clone()));

        let mut later = marker.clone();
        later.decision = 4;
        let mut theirs = marker.clone();
        theirs.owner = "them".parse().unwrap();
        let mut withdrawing = marker.clone();
        let kid: crate::KeyId = "A".repeat(43).parse().unwrap();
        let cause = WithdrawalCause::Revoked;
        withdrawing.withdrawn = vec![Withdrawal { key: (&kid).into(), cause, decision: 3 }];
        let others = [
            Statement { issuer: &other, ..said },
            Statement { kind: DocumentKind::Discovery, ..said },
            Statement { bytes: b"{} ", ..said },
            Statement { marker: &later, ..said },
            Statement { marker: &theirs, ..said },
            Statement { marker: &withdrawing, ..said },
        ];
        for statement in others {
            assert!(!key.has_proven(statement, &proof), "{statement:?}");
        }
        assert!(!WriterKey::new([8; 32]).has_proven(said, &proof));
    }

    #[test]
    fn a_key_is_read_back_and_never_shown() {
        let key = WriterKey::new([7; 32]);
        assert_eq!(format!("{}\n", key.to_secret_text()).parse(), Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "WriterKey(..)");
        for wrong in ["", "c2hvcnQ", "not base64 at all"] {
            let refused = wrong.parse::<WriterKey>().unwrap_err().to_string();
            assert!(wrong.is_empty() || !refused.contains(wrong), "{refused}");
        }
    }
}
