//! Public keys, the algorithm each one implies, and the key id that Kubernetes gives it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, UintRef};
use der::{Decode, Encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// The signature algorithm of a JWK, fixed by its key: every RSA size signs RS256, each curve has its own
/// (kube-apiserver, `pkg/serviceaccount`). Ordered by name, as the discovery document lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
}

impl Algorithm {
    /// The name registered for JOSE (RFC 7518 section 3.1).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::Rs256 => "RS256",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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

    /// Bytes of one coordinate.
    fn coordinate_length(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    fn object_identifier(self) -> ObjectIdentifier {
        match self {
            Self::P256 => ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"),
            Self::P384 => ObjectIdentifier::new_unwrap("1.3.132.0.34"),
            Self::P521 => ObjectIdentifier::new_unwrap("1.3.132.0.35"),
        }
    }

    fn from_object_identifier(oid: ObjectIdentifier) -> Option<Self> {
        [Self::P256, Self::P384, Self::P521].into_iter().find(|curve| curve.object_identifier() == oid)
    }

    /// Whether an uncompressed SEC1 point lies on the curve. A JWK that does not makes go-jose, and with it
    /// kube-apiserver and Vault, reject the whole set.
    fn contains(self, point: &[u8]) -> bool {
        match self {
            Self::P256 => p256::PublicKey::from_sec1_bytes(point).is_ok(),
            Self::P384 => p384::PublicKey::from_sec1_bytes(point).is_ok(),
            Self::P521 => p521::PublicKey::from_sec1_bytes(point).is_ok(),
        }
    }
}

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
/// Two keys are equal when their key ids are, which are digests of the whole key.
#[derive(Clone, Debug)]
pub struct PublicKey {
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
    /// When the modulus is shorter than 1024 bits or even, or the exponent is even, below 3 or above 2^31 - 1,
    /// which Go, and so kube-apiserver, refuses.
    pub fn from_rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, PublicKeyError> {
        let (modulus, exponent) = (trim_zeros(modulus), trim_zeros(exponent));
        let odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        let small = exponent.iter().fold(0u64, |value, byte| (value << 8 | u64::from(*byte)).min(1 << 40));
        if bit_length(modulus) < 1024 || !odd(modulus) || !odd(exponent) || !(3..1 << 31).contains(&small) {
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
        Ok(Self { material, spki_der, key_id })
    }

    /// The key id every Kubernetes component computes for this key.
    pub fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// The one algorithm this key signs with.
    pub fn algorithm(&self) -> Algorithm {
        match &self.material {
            KeyMaterial::Rsa { .. } => Algorithm::Rs256,
            KeyMaterial::Ec { curve: Curve::P256, .. } => Algorithm::Es256,
            KeyMaterial::Ec { curve: Curve::P384, .. } => Algorithm::Es384,
            KeyMaterial::Ec { curve: Curve::P521, .. } => Algorithm::Es512,
        }
    }

    /// The numbers.
    pub fn material(&self) -> &KeyMaterial {
        &self.material
    }

    /// Canonical DER `SubjectPublicKeyInfo`, the bytes the key id is a digest of.
    pub fn spki_der(&self) -> &[u8] {
        &self.spki_der
    }

    /// Bits of the modulus or of the curve's field.
    pub fn bits(&self) -> usize {
        match &self.material {
            KeyMaterial::Rsa { modulus, .. } => bit_length(modulus),
            KeyMaterial::Ec { curve: Curve::P256, .. } => 256,
            KeyMaterial::Ec { curve: Curve::P384, .. } => 384,
            KeyMaterial::Ec { curve: Curve::P521, .. } => 521,
        }
    }

    /// What a person calls this key: `RSA-2048`, `P-256`.
    pub fn description(&self) -> String {
        match &self.material {
            KeyMaterial::Rsa { .. } => format!("RSA-{}", self.bits()),
            KeyMaterial::Ec { curve, .. } => curve.as_str().to_owned(),
        }
    }

    /// A PKIX `PUBLIC KEY` PEM block, the form every kube-apiserver reads, lines of 64 characters.
    pub fn to_pem(&self) -> String {
        crate::pem::encode("PUBLIC KEY", &self.spki_der)
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.key_id == other.key_id
    }
}

impl Eq for PublicKey {}

/// `base64url(SHA-256(SubjectPublicKeyInfo DER))` without padding, 43 characters: the key id of kube-apiserver.
///
/// ```
/// let kid: Result<chancery_core::KeyId, _> = "not a kid".parse();
/// assert!(kid.is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl KeyId {
    /// The id of a key given as canonical DER `SubjectPublicKeyInfo`.
    fn of_spki(der: &[u8]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(Sha256::digest(der)))
    }

    /// The 43 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for KeyId {
    type Err = KeyIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match URL_SAFE_NO_PAD.decode(text) {
            Ok(digest) if digest.len() == 32 => Ok(Self(text.to_owned())),
            _ => Err(KeyIdError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for KeyId {
    type Error = KeyIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(key_id: KeyId) -> Self {
        key_id.0
    }
}

/// A string that no Kubernetes component would compute as a key id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key id; expected the 43 base64url characters of a SHA-256 digest, as `chancery keygen inspect` prints them"
)]
pub struct KeyIdError(String);

/// Why bytes are not a key we may publish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// The bytes are no `SubjectPublicKeyInfo`.
    #[error("not a PKIX SubjectPublicKeyInfo")]
    NotSpki,
    /// The RSA numbers are out of the range Go accepts.
    #[error(
        "not a usable RSA public key: expected an odd modulus of at least 1024 bits and an odd exponent from 3 to 2^31-1"
    )]
    BadRsa,
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
