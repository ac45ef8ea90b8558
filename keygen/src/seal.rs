//! Sealing: a private key as PBES2 PKCS#8 (RFC 5958 section 3, RFC 8018), label `ENCRYPTED PRIVATE KEY`.
//!
//! PBKDF2-HMAC-SHA256 and AES-256-CBC, since every OpenSSL, LibreSSL, Java and FIPS tool opens that pair. scrypt
//! would resist guessing better, but OpenSSL's memory limit caps it at parameters that spend the advantage.

use aws_lc_rs::rand;
use pkcs8::der::asn1::AnyRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{Decode, Reader as _};
use pkcs8::pkcs5::{self, pbes2};
use pkcs8::spki::AlgorithmIdentifierRef;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef};
use zeroize::Zeroizing;

use crate::{KeyError, Passphrase, PrivateKey, Unusable};

/// The label of a sealed key.
pub const LABEL: &str = "ENCRYPTED PRIVATE KEY";

/// Rounds of PBKDF2-HMAC-SHA256: what OWASP's Password Storage Cheat Sheet asks for. Fewer make guessing cheaper.
const ITERATIONS: u32 = 600_000;

impl PrivateKey {
    /// Seals the key, as PEM. `openssl pkey -passin file:PASSPHRASE_FILE` opens it.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn to_sealed_pem(&self, passphrase: &Passphrase) -> Result<Zeroizing<String>, KeyError> {
        let (mut salt, mut iv) = ([0; 16], [0; 16]);
        rand::fill(&mut salt).map_err(|_| KeyError::Seal)?;
        rand::fill(&mut iv).map_err(|_| KeyError::Seal)?;
        let parameters = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(ITERATIONS, &salt, iv)
            .map_err(|_| KeyError::Seal)?;
        let plain = self.to_pkcs8_der()?;
        let info = PrivateKeyInfoRef::from_der(&plain).map_err(|_| KeyError::Seal)?;
        let sealed = info.encrypt_with_params(parameters, passphrase.expose()).map_err(|_| KeyError::Seal)?;
        let pem = pkcs8::der::pem::encode_string(LABEL, LineEnding::LF, sealed.as_bytes());
        pem.map(Zeroizing::new).map_err(|_| KeyError::Seal)
    }

    /// Opens DER `EncryptedPrivateKeyInfo`.
    ///
    /// # Errors
    /// When it is sealed with another scheme or another passphrase, or the key in it is of no use.
    pub fn from_sealed_der(der: &[u8], passphrase: &Passphrase) -> Result<Self, Unusable> {
        let scheme = |name: &str| Unusable::SealingScheme(name.to_owned());
        let sealed = EncryptedPrivateKeyInfoRef::from_der(der).map_err(|_| unknown_scheme(der))?;
        let plain = sealed.decrypt(passphrase.expose()).map_err(|error| match error {
            pkcs8::Error::EncryptedPrivateKey(pkcs5::Error::NoPbes1CryptSupport) => scheme("PBES1"),
            pkcs8::Error::EncryptedPrivateKey(
                pkcs5::Error::UnsupportedAlgorithm { oid } | pkcs5::Error::AlgorithmParametersInvalid { oid },
            ) => scheme(&oid.to_string()),
            _ => Unusable::WrongPassphrase,
        })?;
        match Self::from_pkcs8_der(plain.as_bytes()) {
            // One wrong passphrase in 256 leaves padding that looks right around bytes that are none.
            Err(Unusable::Garbled) => Err(Unusable::WrongPassphrase),
            read => read,
        }
    }
}

/// Names the scheme of a structure that the decoder does not know.
fn unknown_scheme(der: &[u8]) -> Unusable {
    let oid = AnyRef::from_der(der).and_then(|any| {
        any.sequence(|reader| {
            let oid = AlgorithmIdentifierRef::decode(reader)?.oid;
            reader.read_slice(reader.remaining_len())?;
            Ok::<_, pkcs8::der::Error>(oid.to_string())
        })
    });
    match oid.as_deref() {
        Ok("1.2.840.113549.1.5.13") => {
            Unusable::SealingScheme("PBES2 with another cipher or key derivation".to_owned())
        }
        Ok(oid) if oid.starts_with("1.2.840.113549.1.5.") => Unusable::SealingScheme("PBES1".to_owned()),
        Ok(oid) if oid.starts_with("1.2.840.113549.1.12.1.") => {
            Unusable::SealingScheme("PBES1 of PKCS#12".to_owned())
        }
        Ok(oid) => Unusable::SealingScheme(oid.to_owned()),
        Err(_) => Unusable::Garbled,
    }
}
