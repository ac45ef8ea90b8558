//! The private key: the one type of the project that holds private material.

use std::fmt;

use chancery_core::PublicKey;
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{Decode, Encode};
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use sec1::{EcParameters, EcPrivateKey};
use zeroize::Zeroizing;

use crate::library_key::{LibraryKey, Refused, SigningCurve};
use crate::{KeyError, KeySpec, SigningKey, Unusable, algorithm_name};

const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// A signing key with its public half, RSA of 2048 to 8192 bits or ECDSA on P-256, P-384 or P-521.
///
/// Memory that held it is wiped on drop, `Debug` shows the key id alone, and it cannot be cloned.
pub struct PrivateKey {
    signing: SigningKey,
    /// The body of the PEM block that kube-apiserver reads in every place: PKCS#1 or SEC1.
    traditional_der: Zeroizing<Vec<u8>>,
}

impl PrivateKey {
    /// Makes a new key, seeded by the operating system.
    ///
    /// Takes about a tenth of a second for RSA-2048 and one second for RSA-4096 on one core, with a wide spread.
    ///
    /// # Errors
    /// When the cryptographic library fails.
    pub fn generate(spec: KeySpec) -> Result<Self, KeyError> {
        let refused = |_| KeyError::Generate(spec);
        let signing = LibraryKey::generate(spec).map_err(refused)?;
        Self::from_library_key(signing).map_err(|_| KeyError::Generate(spec))
    }

    /// Reads DER `RSAPrivateKey` (PKCS#1, RFC 8017 appendix A.1.2).
    ///
    /// # Errors
    /// When it is not one, has another size than 2048 to 8192 bits, more than two primes, or inconsistent numbers.
    pub fn from_pkcs1_der(der: &[u8]) -> Result<Self, Unusable> {
        let numbers = pkcs1::RsaPrivateKeyRef::from_der(der).map_err(|_| Unusable::Garbled)?;
        let modulus = numbers.modulus.as_bytes();
        let leading = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
        let bits = (modulus.len() * 8).saturating_sub(leading);
        if !(2048..=8192).contains(&bits) {
            return Err(Unusable::RsaSize(bits));
        }
        if numbers.version() == pkcs1::Version::Multi {
            return Err(Unusable::MultiPrime);
        }
        Self::from_library_key(LibraryKey::from_pkcs1(der).map_err(|_| Unusable::Inconsistent)?)
    }

    /// Reads DER `ECPrivateKey` (SEC1, RFC 5915) that names its curve.
    ///
    /// # Errors
    /// When it is not one, names no curve or another than P-256, P-384 and P-521, or its halves do not match.
    pub fn from_sec1_der(der: &[u8]) -> Result<Self, Unusable> {
        let key = EcPrivateKey::from_der(der).map_err(|_| Unusable::Garbled)?;
        let Some(EcParameters::NamedCurve(oid)) = key.parameters else { return Err(Unusable::UnnamedCurve) };
        let curve = SigningCurve::from_oid(&oid.to_string())
            .ok_or_else(|| Unusable::Curve(algorithm_name::of(oid)))?;
        let signing = LibraryKey::from_sec1(curve, der).map_err(|_| {
            let without_point = EcPrivateKey { public_key: None, ..key }.to_der().map(Zeroizing::new);
            match without_point.map(|der| LibraryKey::from_sec1(curve, &der)) {
                Ok(Ok(_)) => Unusable::WrongPoint,
                _ => Unusable::Inconsistent,
            }
        })?;
        Self::from_library_key(signing)
    }

    /// Reads DER `PrivateKeyInfo` or `OneAsymmetricKey` (PKCS#8, RFC 5208 and RFC 5958).
    ///
    /// # Errors
    /// As the two readers above, and when the key is neither RSA nor ECDSA.
    pub fn from_pkcs8_der(der: &[u8]) -> Result<Self, Unusable> {
        let info = PrivateKeyInfoRef::from_der(der).map_err(|_| Unusable::Garbled)?;
        let body = info.private_key.as_bytes();
        match info.algorithm.oid {
            RSA_ENCRYPTION => Self::from_pkcs1_der(body),
            EC_PUBLIC_KEY => {
                let oid = info.algorithm.parameters_oid().map_err(|_| Unusable::UnnamedCurve)?;
                let mut key = EcPrivateKey::from_der(body).map_err(|_| Unusable::Garbled)?;
                key.parameters = Some(EcParameters::NamedCurve(oid));
                let with_curve = Zeroizing::new(key.to_der().map_err(|_| Unusable::Garbled)?);
                Self::from_sec1_der(&with_curve)
            }
            other => Err(Unusable::Algorithm(algorithm_name::of(other))),
        }
    }

    fn from_library_key(library: LibraryKey) -> Result<Self, Unusable> {
        let inconsistent = |_: Refused| Unusable::Inconsistent;
        let traditional_der = library.to_traditional_der().map_err(inconsistent)?;
        let spki_der = library.public_spki_der().map_err(inconsistent)?;
        let public = PublicKey::from_spki_der(&spki_der).map_err(Unusable::Public)?;
        Ok(Self { signing: SigningKey::new(library, public), traditional_der })
    }

    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        self.signing.public_key()
    }

    /// What signs.
    pub fn signing_key(&self) -> &SigningKey {
        &self.signing
    }

    /// What signs, without the encoding that can be written to a file.
    pub fn into_signing_key(self) -> SigningKey {
        self.signing
    }

    /// Whether the key is RSA, as k3s and the OpenShift installer require.
    pub fn is_rsa(&self) -> bool {
        matches!(self.signing.library(), LibraryKey::Rsa(_))
    }

    /// The PEM block that kube-apiserver reads both as signing file and as key file: `RSA PRIVATE KEY` with
    /// PKCS#1, or `EC PRIVATE KEY` with SEC1. Lines of 64 characters ending in LF.
    ///
    /// # Errors
    /// Only if the encoder fails, which no key that could be read provokes.
    pub fn to_exposed_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        let label = if self.is_rsa() { "RSA PRIVATE KEY" } else { "EC PRIVATE KEY" };
        // This encoder works in constant time and leaves no copy of the base64 behind.
        let pem = pkcs8::der::pem::encode_string(label, LineEnding::LF, &self.traditional_der);
        pem.map(Zeroizing::new).map_err(|_| KeyError::Encode)
    }

    /// DER `PrivateKeyInfo` (PKCS#8, RFC 5208).
    pub(crate) fn to_pkcs8_der(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        self.signing.library().to_pkcs8_der().map_err(|_| KeyError::Encode)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("key_id", self.public_key().key_id()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_key_id_and_nothing_else() {
        let key = PrivateKey::generate(KeySpec::P256).unwrap();
        let shown = format!("{key:?}");
        assert_eq!(shown, format!("PrivateKey {{ key_id: {:?}, .. }}", key.public_key().key_id()));
    }

    #[test]
    fn every_kind_survives_its_own_encodings() {
        for spec in [KeySpec::Rsa2048, KeySpec::P256, KeySpec::P384, KeySpec::P521] {
            let key = PrivateKey::generate(spec).unwrap();
            let traditional = if key.is_rsa() {
                PrivateKey::from_pkcs1_der(&key.traditional_der)
            } else {
                PrivateKey::from_sec1_der(&key.traditional_der)
            };
            let pkcs8 = PrivateKey::from_pkcs8_der(&key.to_pkcs8_der().unwrap());
            for read in [traditional.unwrap(), pkcs8.unwrap()] {
                assert_eq!(read.public_key(), key.public_key(), "{spec}");
                assert_eq!(read.traditional_der, key.traditional_der, "{spec}");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let key = PrivateKey::generate(KeySpec::Rsa2048).unwrap();
        let mut der = key.traditional_der.to_vec();
        let middle = der.len() / 2;
        der[middle] ^= 1;
        assert_eq!(PrivateKey::from_pkcs1_der(&der).unwrap_err(), Unusable::Inconsistent);
    }
}
