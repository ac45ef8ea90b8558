//! Public keys and their one encoding, `SubjectPublicKeyInfo` (RFC 5280 section 4.1).

use std::sync::Arc;

use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, UintRef};
use der::{Decode, Encode};
use spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

use super::{Algorithm, Curve, KeyId};
use crate::pem;

const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// The shortest RSA modulus that is published, in bits: Go verifies nothing with a shorter one (`crypto/rsa`, Go 1.24).
const SMALLEST_RSA_BITS: usize = 1024;

/// The longest RSA modulus that is published, in bits: what OpenSSL (`OPENSSL_RSA_MAX_MODULUS_BITS`), AWS-LC and the
/// JDK verify with. Go, and so kube-apiserver, knows no limit, and a key of megabytes would make a JWKS that nobody
/// reads back. Most relying parties stop at 8192.
const LARGEST_RSA_BITS: usize = 16_384;

/// The numbers of a public key, big-endian: RSA without leading zeros, coordinates padded to the curve's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMaterial {
    /// Modulus and public exponent.
    Rsa {
        /// The modulus `n`.
        modulus: Vec<u8>,
        /// The public exponent `e`.
        exponent: Vec<u8>,
    },
    /// A point on a curve.
    Ec {
        /// The curve.
        curve: Curve,
        /// The coordinate `x`.
        x: Vec<u8>,
        /// The coordinate `y`.
        y: Vec<u8>,
    },
}

/// A ServiceAccount verification key: RSA, or ECDSA on P-256, P-384 or P-521, what kube-apiserver publishes.
///
/// Two keys are equal when their key ids are, which are digests of the whole key. Clones share one copy: a key stands in
/// the reading of its source, in what is retained and in what is published.
#[derive(Clone, Debug)]
pub struct PublicKey(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    material: KeyMaterial,
    spki_der: Vec<u8>,
    key_id: KeyId,
}

impl PublicKey {
    /// Reads a DER `SubjectPublicKeyInfo` (RFC 5280 section 4.1).
    ///
    /// # Errors
    /// When it is not one, is of a kind kube-apiserver does not publish, or its point is not on its curve.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, PublicKeyError> {
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| PublicKeyError::NotSpki)?;
        let bits = info.subject_public_key.as_bytes().ok_or(PublicKeyError::NotSpki)?;
        match info.algorithm.oid {
            RSA_ENCRYPTION => {
                // Go refuses any other parameters, so kube-apiserver would skip the key.
                if info.algorithm.parameters != Some(AnyRef::NULL) {
                    return Err(PublicKeyError::RsaParameters);
                }
                let key = pkcs1::RsaPublicKeyRef::from_der(bits).map_err(|_| PublicKeyError::BadRsa)?;
                Self::from_rsa(key.modulus.as_bytes(), key.public_exponent.as_bytes())
            }
            EC_PUBLIC_KEY => {
                let oid = info.algorithm.parameters_oid().map_err(|_| PublicKeyError::UnnamedCurve)?;
                let curve = Curve::from_object_identifier(oid)
                    .ok_or_else(|| PublicKeyError::UnsupportedCurve(oid.to_string()))?;
                Self::from_ec_point(curve, bits)
            }
            other => Err(PublicKeyError::UnsupportedAlgorithm(other.to_string())),
        }
    }

    /// An RSA key from its big-endian numbers; leading zeros are dropped.
    ///
    /// # Errors
    /// When the modulus has fewer than 1024 or more than 16384 bits, or is even, or the exponent is even, below 3 or
    /// above 2^31 - 1: nobody verifies with it.
    pub fn from_rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, PublicKeyError> {
        let (modulus, exponent) = (trim_zeros(modulus), trim_zeros(exponent));
        match bit_length(modulus) {
            bits if bits < SMALLEST_RSA_BITS => return Err(PublicKeyError::RsaTooShort(bits)),
            bits if bits > LARGEST_RSA_BITS => return Err(PublicKeyError::RsaTooLong(bits)),
            _ => {}
        }
        let odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        let small = exponent.iter().fold(0u64, |value, byte| (value << 8 | u64::from(*byte)).min(1 << 40));
        if !odd(modulus) || !odd(exponent) || !(3..1 << 31).contains(&small) {
            return Err(PublicKeyError::BadRsa);
        }
        let numbers = pkcs1::RsaPublicKey {
            modulus: UintRef::new(modulus).map_err(|_| PublicKeyError::BadRsa)?,
            public_exponent: UintRef::new(exponent).map_err(|_| PublicKeyError::BadRsa)?,
        };
        let bits = numbers.to_der().map_err(|_| PublicKeyError::BadRsa)?;
        let material = KeyMaterial::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() };
        Self::from_parts(material, RSA_ENCRYPTION, AnyRef::NULL, &bits)
    }

    /// An ECDSA key from its affine coordinates, big-endian and as long as the curve's field.
    ///
    /// # Errors
    /// When a coordinate has another length or the point is not on the curve.
    pub fn from_ec(curve: Curve, x: &[u8], y: &[u8]) -> Result<Self, PublicKeyError> {
        if x.len() != curve.coordinate_length() || y.len() != curve.coordinate_length() {
            return Err(PublicKeyError::BadPoint(curve.as_str()));
        }
        Self::from_ec_point(curve, &[&[4], x, y].concat())
    }

    fn from_ec_point(curve: Curve, point: &[u8]) -> Result<Self, PublicKeyError> {
        let bad = PublicKeyError::BadPoint(curve.as_str());
        // Go reads uncompressed points only, so a compressed one would be skipped by kube-apiserver.
        let Some((4, coordinates)) = point.split_first() else { return Err(bad) };
        if coordinates.len() != 2 * curve.coordinate_length() || !curve.contains(point) {
            return Err(bad);
        }
        let (x, y) = coordinates.split_at(curve.coordinate_length());
        let oid = curve.object_identifier();
        let material = KeyMaterial::Ec { curve, x: x.to_vec(), y: y.to_vec() };
        Self::from_parts(material, EC_PUBLIC_KEY, AnyRef::from(&oid), point)
    }

    /// Encodes canonically, as Go's `MarshalPKIXPublicKey` does: the key id is a digest of these bytes.
    fn from_parts(
        material: KeyMaterial,
        oid: ObjectIdentifier,
        parameters: AnyRef<'_>,
        bits: &[u8],
    ) -> Result<Self, PublicKeyError> {
        let info = SubjectPublicKeyInfoRef {
            algorithm: AlgorithmIdentifierRef { oid, parameters: Some(parameters) },
            subject_public_key: BitStringRef::from_bytes(bits).map_err(|_| PublicKeyError::NotSpki)?,
        };
        let spki_der = info.to_der().map_err(|_| PublicKeyError::NotSpki)?;
        let key_id = KeyId::of_spki(&spki_der);
        Ok(Self(Arc::new(Contents { material, spki_der, key_id })))
    }

    /// The key id every Kubernetes component computes for this key.
    pub fn key_id(&self) -> &KeyId {
        &self.0.key_id
    }

    /// The one algorithm this key signs with.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0.material {
            KeyMaterial::Rsa { .. } => Algorithm::Rs256,
            KeyMaterial::Ec { curve, .. } => curve.algorithm(),
        }
    }

    /// The numbers.
    pub fn material(&self) -> &KeyMaterial {
        &self.0.material
    }

    /// Canonical DER `SubjectPublicKeyInfo`, the bytes the key id is a digest of.
    pub fn spki_der(&self) -> &[u8] {
        &self.0.spki_der
    }

    /// Bits of the modulus or of the curve's field.
    pub fn bits(&self) -> usize {
        match &self.0.material {
            KeyMaterial::Rsa { modulus, .. } => bit_length(modulus),
            KeyMaterial::Ec { curve, .. } => curve.bits(),
        }
    }

    /// What a person calls this key: `RSA-2048`, `P-256`.
    pub fn description(&self) -> String {
        match &self.0.material {
            KeyMaterial::Rsa { .. } => format!("RSA-{}", self.bits()),
            KeyMaterial::Ec { curve, .. } => curve.as_str().to_owned(),
        }
    }

    /// A PKIX `PUBLIC KEY` PEM block, the form every kube-apiserver reads, lines of 64 characters.
    pub fn to_pem(&self) -> String {
        pem::encode("PUBLIC KEY", &self.0.spki_der)
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key_id == other.0.key_id
    }
}

impl Eq for PublicKey {}

/// Why bytes are not a key we may publish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// The bytes are no `SubjectPublicKeyInfo`.
    #[error("not a PKIX SubjectPublicKeyInfo")]
    NotSpki,
    /// The RSA numbers are out of the range Go accepts.
    #[error("not a usable RSA public key: expected an odd modulus and an odd exponent from 3 to 2^31-1")]
    BadRsa,
    /// The modulus is shorter than Go verifies with; its bits.
    #[error("an RSA key of {0} bits; expected at least 1024, below which kube-apiserver verifies nothing")]
    RsaTooShort(usize),
    /// The modulus is longer than relying parties can use; its bits.
    #[error("an RSA key of {0} bits; expected at most 16384, beyond which OpenSSL and others verify nothing")]
    RsaTooLong(usize),
    /// The algorithm's parameters are not NULL.
    #[error(
        "the RSA key lacks the NULL parameters of RFC 3279, without which kube-apiserver skips it; re-encode it with `openssl rsa -pubin -pubout`"
    )]
    RsaParameters,
    /// The point is malformed, compressed or not on the curve.
    #[error("the point is not an uncompressed point on {0}")]
    BadPoint(&'static str),
    /// The curve is given by explicit parameters.
    #[error("the curve is not given by name; re-encode the key with a named curve")]
    UnnamedCurve,
    /// A curve kube-apiserver does not publish.
    #[error("curve {0} is not one of P-256, P-384 and P-521, which are all that kube-apiserver publishes")]
    UnsupportedCurve(String),
    /// Neither RSA nor ECDSA.
    #[error("algorithm {0} is neither RSA nor ECDSA, which are all that kube-apiserver publishes")]
    UnsupportedAlgorithm(String),
}

fn trim_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

fn bit_length(number: &[u8]) -> usize {
    let number = trim_zeros(number);
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}
