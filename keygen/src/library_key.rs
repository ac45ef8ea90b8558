//! The cached key of the cryptographic library.

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256,
};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::Decode;
use zeroize::Zeroizing;

use crate::KeySpec;

/// The library refused, without saying why.
pub(crate) struct Refused;

/// A key that is ready to sign. Parsing one takes longer than signing with it, so it is done once. The library
/// wipes its memory when it is dropped.
pub(crate) enum LibraryKey {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl LibraryKey {
    pub(crate) fn generate(spec: KeySpec) -> Result<Self, Refused> {
        let rsa = |size| RsaKeyPair::generate(size).map(Self::Rsa);
        let ecdsa = |algorithm| EcdsaKeyPair::generate(algorithm).map(Self::Ecdsa);
        match spec {
            KeySpec::Rsa2048 => rsa(KeySize::Rsa2048),
            KeySpec::Rsa3072 => rsa(KeySize::Rsa3072),
            KeySpec::Rsa4096 => rsa(KeySize::Rsa4096),
            KeySpec::P256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            KeySpec::P384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            KeySpec::P521 => ecdsa(&ECDSA_P521_SHA512_FIXED_SIGNING),
        }
        .map_err(|_| Refused)
    }

    /// From an `RSAPrivateKey` (RFC 8017 appendix A.1.2), whose numbers are checked against each other.
    pub(crate) fn from_pkcs1(der: &[u8]) -> Result<Self, Refused> {
        RsaKeyPair::from_der(der).map(Self::Rsa).map_err(|_| Refused)
    }

    /// From an `ECPrivateKey` (RFC 5915) that names `curve`; its public point, if there is one, is checked.
    pub(crate) fn from_sec1(curve: SigningCurve, der: &[u8]) -> Result<Self, Refused> {
        EcdsaKeyPair::from_private_key_der(curve.signing_algorithm(), der)
            .map(Self::Ecdsa)
            .map_err(|_| Refused)
    }

    /// The traditional form: `RSAPrivateKey` or, with curve and public point, `ECPrivateKey`.
    pub(crate) fn to_traditional_der(&self) -> Result<Zeroizing<Vec<u8>>, Refused> {
        match self {
            Self::Rsa(_) => {
                let pkcs8 = self.to_pkcs8_der()?;
                let info = PrivateKeyInfoRef::from_der(&pkcs8).map_err(|_| Refused)?;
                Ok(Zeroizing::new(info.private_key.as_bytes().to_vec()))
            }
            Self::Ecdsa(pair) => {
                let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().map_err(|_| Refused)?;
                Ok(Zeroizing::new(der.as_ref().to_vec()))
            }
        }
    }

    /// `PrivateKeyInfo` (RFC 5208).
    pub(crate) fn to_pkcs8_der(&self) -> Result<Zeroizing<Vec<u8>>, Refused> {
        match self {
            Self::Rsa(pair) => {
                let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| Refused)?;
                Ok(Zeroizing::new(der.as_ref().to_vec()))
            }
            Self::Ecdsa(pair) => {
                let document = pair.to_pkcs8v1().map_err(|_| Refused)?;
                Ok(Zeroizing::new(document.as_ref().to_vec()))
            }
        }
    }

    /// `SubjectPublicKeyInfo` (RFC 5280 section 4.1).
    pub(crate) fn public_spki_der(&self) -> Result<Vec<u8>, Refused> {
        let der: PublicKeyX509Der<'_> = match self {
            Self::Rsa(pair) => pair.public_key().as_der(),
            Self::Ecdsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| Refused)?;
        Ok(der.as_ref().to_vec())
    }

    /// A JWS signature (RFC 7518 sections 3.3 and 3.4): ECDSA as `R || S` of fixed length, not as DER.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Refused> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| Refused)?;
                Ok(signature)
            }
            Self::Ecdsa(pair) => {
                let signature = pair.sign(&random, message).map_err(|_| Refused)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

/// A curve that can sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SigningCurve {
    P256,
    P384,
    P521,
}

impl SigningCurve {
    /// From the number of the curve (RFC 5480 section 2.1.1.1).
    pub(crate) fn from_oid(oid: &str) -> Option<Self> {
        match oid {
            "1.2.840.10045.3.1.7" => Some(Self::P256),
            "1.3.132.0.34" => Some(Self::P384),
            "1.3.132.0.35" => Some(Self::P521),
            _ => None,
        }
    }

    fn signing_algorithm(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            Self::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
            Self::P521 => &ECDSA_P521_SHA512_FIXED_SIGNING,
        }
    }
}
