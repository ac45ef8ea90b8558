//! Sealing: a private key as PBES2 PKCS#8 (RFC 5958 section 3, RFC 8018), label `ENCRYPTED PRIVATE KEY`.
//!
//! PBKDF2-HMAC-SHA256 and AES-256-CBC, since every OpenSSL, LibreSSL, Java and FIPS tool opens that pair. scrypt
//! would resist guessing better, but OpenSSL's memory limit caps it at parameters that spend the advantage.

use aws_lc_rs::rand;
use pkcs8::der::asn1::AnyRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{Decode, Reader as _};
use pkcs8::pkcs5;
use pkcs8::pkcs5::pbes2::{self, Kdf};
use pkcs8::spki::AlgorithmIdentifierRef;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef};
use zeroize::Zeroizing;

use crate::{KeyError, Passphrase, PrivateKey, Unusable};

/// The label of a sealed key.
pub const LABEL: &str = "ENCRYPTED PRIVATE KEY";

/// Rounds of PBKDF2-HMAC-SHA256: what OWASP's Password Storage Cheat Sheet asks for. Fewer make guessing cheaper.
const ITERATIONS: u32 = 600_000;

/// The most rounds of PBKDF2 that are gone through to open a key: some ten seconds.
const MOST_ITERATIONS: u32 = 10_000_000;

/// The most memory that scrypt may ask for, 128 * N * r bytes. OpenSSL takes 32 MiB unless it is told otherwise.
const MOST_MEMORY: u64 = 256 << 20;

/// The most work that scrypt may ask for, 128 * N * r * p bytes: a few seconds.
const MOST_WORK: u64 = 1 << 30;

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
        check_cost(&sealed)?;
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

/// Refuses to pay what only somebody would ask who wants to stop us: the file names the cost of opening it.
fn check_cost(sealed: &EncryptedPrivateKeyInfoRef<'_>) -> Result<(), Unusable> {
    let pkcs5::EncryptionScheme::Pbes2(parameters) = &sealed.encryption_algorithm else { return Ok(()) };
    let too_much = |cost: String| Err(Unusable::SealingCost(cost));
    match &parameters.kdf {
        Kdf::Pbkdf2(kdf) if kdf.iteration_count > MOST_ITERATIONS => {
            too_much(format!("{} rounds of PBKDF2, expected at most {MOST_ITERATIONS}", kdf.iteration_count))
        }
        Kdf::Scrypt(kdf) => {
            let (n, r, p) = (kdf.cost_parameter, u64::from(kdf.block_size), u64::from(kdf.parallelization));
            let memory = n.saturating_mul(r).saturating_mul(128);
            if memory > MOST_MEMORY || memory.saturating_mul(p) > MOST_WORK {
                return too_much(format!(
                    "scrypt with N={n}, r={r}, p={p}, expected 128*N*r of at most {MOST_MEMORY} bytes, and with p of at most {MOST_WORK}"
                ));
            }
            Ok(())
        }
        _ => Ok(()),
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
