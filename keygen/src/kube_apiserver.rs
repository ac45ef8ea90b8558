//! What kube-apiserver makes of a PEM block, by the rules of client-go's `util/keyutil` (v0.36).
//!
//! Its two readers differ. The signing file (`--service-account-signing-key-file`) goes by the label, takes the
//! first private key that parses and ignores the rest. A key file (`--service-account-key-file`) ignores labels,
//! takes every block that parses, but tries SEC1 alone for EC private keys, so that an EC key in PKCS#8 signs
//! tokens which the same file cannot verify. Both skip what they cannot read without a word.

use chancery_core::key::PublicKeyError;
use chancery_core::key_file::SkipReason;

use crate::Unusable;
use crate::pem_file::{Content, Encoding, PemBlock};

/// What a reader of kube-apiserver does with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Takes the key.
    Read,
    /// Passes over it without a word, for the reason given.
    Skipped(&'static str),
    /// Takes it and then fails at what the key is for, as the reason says.
    Fatal(&'static str),
}

impl Verdict {
    /// Whether the key is taken.
    pub fn is_read(self) -> bool {
        self == Self::Read
    }

    /// Why the key is not taken.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Read => None,
            Self::Skipped(reason) | Self::Fatal(reason) => Some(reason),
        }
    }
}

const ENCRYPTED: &str = "encrypted; open it with `chancery keygen import --passphrase-file`";
const NO_KEY: &str = "no key that it can parse";

impl PemBlock {
    /// What happens to the block in `--service-account-signing-key-file`.
    pub fn as_signing_file(&self) -> Verdict {
        match &self.content {
            Content::Private(_, Encoding::Sealed)
            | Content::Unusable(
                Unusable::Sealed
                | Unusable::LegacyEncrypted
                | Unusable::WrongPassphrase
                | Unusable::SealingScheme(_)
                | Unusable::SealingCost(_),
            ) => Verdict::Skipped(ENCRYPTED),
            Content::Private(_, encoding) => match (self.label.as_str(), encoding) {
                ("RSA PRIVATE KEY", Encoding::Pkcs1)
                | ("EC PRIVATE KEY", Encoding::Sec1)
                | ("PRIVATE KEY", Encoding::Pkcs8) => Verdict::Read,
                _ => Verdict::Skipped(
                    "its label does not match its body; rewrite it with `chancery keygen import`",
                ),
            },
            // We refuse these, kube-apiserver does not.
            Content::Unusable(Unusable::RsaSize(_) | Unusable::MultiPrime | Unusable::WrongPoint) => {
                Verdict::Read
            }
            Content::Public(..) => Verdict::Skipped("public; a signing file needs a private key"),
            Content::Unusable(Unusable::Algorithm(name))
                if go_parses(name) && self.label == "PRIVATE KEY" =>
            {
                Verdict::Fatal(
                    "not RSA or ECDSA; it is taken as the signing key and kube-apiserver does not start",
                )
            }
            Content::Unusable(Unusable::Curve(name)) if name == "P-224" => {
                Verdict::Fatal("on P-224; it is taken as the signing key and kube-apiserver does not start")
            }
            Content::Unusable(_) => Verdict::Skipped(NO_KEY),
        }
    }

    /// What happens to the block in `--service-account-key-file`.
    pub fn as_key_file(&self) -> Verdict {
        match &self.content {
            Content::Private(_, Encoding::Sealed)
            | Content::Unusable(
                Unusable::Sealed
                | Unusable::LegacyEncrypted
                | Unusable::WrongPassphrase
                | Unusable::SealingScheme(_)
                | Unusable::SealingCost(_),
            ) => Verdict::Skipped(ENCRYPTED),
            Content::Private(key, Encoding::Pkcs8) if !key.is_rsa() => Verdict::Skipped(
                "an EC private key in PKCS#8, of which it tries SEC1 alone; convert it with `chancery keygen import`",
            ),
            Content::Private(..)
            | Content::Public(..)
            | Content::Unusable(Unusable::RsaSize(_) | Unusable::MultiPrime) => Verdict::Read,
            Content::Unusable(Unusable::WrongPoint) if self.label == "EC PRIVATE KEY" => Verdict::Read,
            Content::Unusable(reason) if has_odd_size(reason) => Verdict::Read,
            Content::Unusable(reason) if self.is_p224(reason) => Verdict::Fatal(
                "on P-224; it is taken, and kube-apiserver then serves no discovery document and no JWKS",
            ),
            Content::Unusable(Unusable::Skipped(SkipReason::Pkcs1Public)) => Verdict::Skipped(
                "a PKCS#1 public key, where it expects PKIX; convert it with `openssl rsa -RSAPublicKey_in -pubout`",
            ),
            Content::Unusable(_) => Verdict::Skipped(NO_KEY),
        }
    }
}

impl PemBlock {
    /// Whether the key is on P-224, in one of the forms in which a key file takes it: Go knows the curve, JOSE does
    /// not (RFC 7518 section 3.4).
    fn is_p224(&self, reason: &Unusable) -> bool {
        match reason {
            Unusable::Curve(name) => name == "P-224" && self.label == "EC PRIVATE KEY",
            Unusable::Public(PublicKeyError::UnsupportedCurve(oid))
            | Unusable::Skipped(SkipReason::Certificate(PublicKeyError::UnsupportedCurve(oid))) => {
                oid == "1.3.132.0.33"
            }
            _ => false,
        }
    }
}

/// Whether it is an RSA key of a size that nobody verifies with, which a key file takes all the same.
fn has_odd_size(reason: &Unusable) -> bool {
    let (Unusable::Public(error) | Unusable::Skipped(SkipReason::Certificate(error))) = reason else {
        return false;
    };
    matches!(error, PublicKeyError::RsaTooShort(_) | PublicKeyError::RsaTooLong(_))
}

/// The kinds of PKCS#8 key that Go parses although kube-apiserver cannot sign with them.
fn go_parses(algorithm: &str) -> bool {
    matches!(algorithm, "Ed25519" | "X25519")
}
