//! The elliptic curves of ServiceAccount keys.

use der::asn1::ObjectIdentifier;

use super::Algorithm;

/// The curves kube-apiserver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Curve {
    /// NIST P-256, secp256r1.
    P256,
    /// NIST P-384, secp384r1.
    P384,
    /// NIST P-521, secp521r1.
    P521,
}

impl Curve {
    /// The name in a JWK's `crv` (RFC 7518 section 6.2.1.1).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    /// The one algorithm that keys on it sign with (RFC 7518 section 3.4).
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
            Self::P521 => Algorithm::Es512,
        }
    }

    /// Bits of its field.
    pub fn bits(self) -> usize {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }

    /// Bytes of one coordinate.
    pub(super) fn coordinate_length(self) -> usize {
        self.bits().div_ceil(8)
    }

    pub(super) fn object_identifier(self) -> ObjectIdentifier {
        match self {
            Self::P256 => ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"),
            Self::P384 => ObjectIdentifier::new_unwrap("1.3.132.0.34"),
            Self::P521 => ObjectIdentifier::new_unwrap("1.3.132.0.35"),
        }
    }

    pub(super) fn from_object_identifier(oid: ObjectIdentifier) -> Option<Self> {
        [Self::P256, Self::P384, Self::P521].into_iter().find(|curve| curve.object_identifier() == oid)
    }

    /// Whether an uncompressed SEC1 point lies on the curve. A JWK that does not makes go-jose, and with it
    /// kube-apiserver and Vault, reject the whole set.
    pub(super) fn contains(self, point: &[u8]) -> bool {
        match self {
            Self::P256 => p256::PublicKey::from_sec1_bytes(point).is_ok(),
            Self::P384 => p384::PublicKey::from_sec1_bytes(point).is_ok(),
            Self::P521 => p521::PublicKey::from_sec1_bytes(point).is_ok(),
        }
    }
}
