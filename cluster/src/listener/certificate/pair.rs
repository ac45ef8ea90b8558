//! A certificate chain with the private key that belongs to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_files::{Bounds, FileError, read, read_secret};
use jiff::Timestamp;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};
use x509_cert::Certificate;
use x509_cert::der::{self, Decode as _};

use super::TlsConfig;
use crate::limits;

/// A chain of a few certificates has some ten thousand bytes.
const BOUNDS: Bounds = Bounds::regular(1 << 20, limits::FILE);

/// A pair that was checked to belong together.
pub struct ServingPair {
    certified_key: Arc<CertifiedKey>,
    not_before: Timestamp,
    not_after: Timestamp,
    /// Of the certificate chain alone: one key may have several certificates, not the other way round.
    fingerprint: Vec<u8>,
}

impl ServingPair {
    /// Reads and checks the pair in `files`.
    ///
    /// # Errors
    /// Names the file and says what is wrong with it.
    pub fn read(files: &TlsConfig) -> Result<Self, CertificateError> {
        let chain = read_chain(&files.certificate)?;
        let key = read_key(&files.private_key)?;
        let Some(leaf) = chain.first() else {
            return Err(CertificateError::NoCertificate { path: files.certificate.clone() });
        };
        let validity = validity(leaf).map_err(|error| CertificateError::BrokenCertificate {
            path: files.certificate.clone(),
            error: error.to_string(),
        })?;
        Self::checked(chain, key, validity).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch {
                certificate: files.certificate.clone(),
                private_key: files.private_key.clone(),
            },
            error => CertificateError::UnusableKey { path: files.private_key.clone(), error },
        })
    }

    /// A pair that the process has made itself.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn made(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let leaf = chain.first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let validity = validity(leaf).map_err(|error| rustls::Error::General(error.to_string()))?;
        Self::checked(chain, key, validity)
    }

    fn checked(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        (not_before, not_after): (Timestamp, Timestamp),
    ) -> Result<Self, rustls::Error> {
        let mut hash = Sha256::new();
        chain.iter().for_each(|certificate| hash.update(certificate));
        let fingerprint = hash.finalize().to_vec();
        let certified_key = Arc::new(CertifiedKey::from_der(chain, key, &default_provider())?);
        Ok(Self { certified_key, not_before, not_after, fingerprint })
    }

    /// What a handshake shows and signs with.
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        self.certified_key.clone()
    }

    /// When the certificate expires.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// What clients dislike about the certificate's dates at `now`.
    pub fn date_problem(&self, now: Timestamp) -> Option<String> {
        if now > self.not_after {
            return Some(format!("expired at {}", self.not_after));
        }
        (now < self.not_before).then(|| format!("is not valid before {}", self.not_before))
    }

    /// Whether clients that ask for `host` take it.
    pub fn is_for(&self, host: &ServerName<'_>) -> bool {
        let leaf = self.certified_key.cert.first().map(ParsedCertificate::try_from);
        leaf.is_some_and(|leaf| leaf.is_ok_and(|leaf| verify_server_name(&leaf, host).is_ok()))
    }

    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for ServingPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingPair").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let pem = read(path, BOUNDS)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    chain.map_err(|error| CertificateError::BrokenPem { path: path.to_owned(), error: error.to_string() })
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let pem = read_secret(path, BOUNDS)?.bytes;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            let is_encrypted = pem.windows(9).any(|window| window == b"ENCRYPTED");
            CertificateError::NoPrivateKey { path: path.to_owned(), is_encrypted }
        }
        error => CertificateError::BrokenPem { path: path.to_owned(), error: error.to_string() },
    })
}

/// From when until when a certificate in DER is valid.
///
/// # Errors
/// When it is no certificate.
pub fn validity(certificate: &[u8]) -> der::Result<(Timestamp, Timestamp)> {
    let certificate = Certificate::from_der(certificate)?;
    let validity = certificate.tbs_certificate().validity();
    let timestamp = |time: x509_cert::time::Time| {
        let second = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
    };
    Ok((timestamp(validity.not_before), timestamp(validity.not_after)))
}

/// Certificate files that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("the serving certificate: {0}. Check the path and who may read it")]
    Unreadable(#[from] FileError),
    /// A new pair that clients would refuse where they take the one in use.
    #[error(
        "the new certificate in {} {problem}, and the one in use does not have that fault; issue it again, or restart if it is meant",
        path.display()
    )]
    Worse {
        /// The certificate's file.
        path: PathBuf,
        /// What clients dislike about it.
        problem: String,
    },
    /// A file is not PEM.
    #[error("{} is not a whole PEM file: {error}; expected base64 between BEGIN and END lines. Write it again", path.display())]
    BrokenPem {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// There is no certificate in the file.
    #[error(
        "{} holds no CERTIFICATE block; expected the server's certificate first, then those that lead to its root. Check which file is configured",
        path.display()
    )]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The first certificate is not one.
    #[error(
        "the first certificate in {} cannot be read: {error}; expected X.509 in DER inside the PEM block. Issue it again",
        path.display()
    )]
    BrokenCertificate {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// There is no usable private key in the file.
    #[error(
        "{} holds {}; expected an unencrypted PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY block. {}",
        path.display(),
        if *is_encrypted { "only an encrypted private key" } else { "no private key" },
        if *is_encrypted { "Decrypt it with `openssl pkey`" } else { "Check which file is configured" }
    )]
    NoPrivateKey {
        /// The file.
        path: PathBuf,
        /// Whether there is one behind a passphrase.
        is_encrypted: bool,
    },
    /// The private key is of a kind that TLS does not take.
    #[error(
        "the private key in {} cannot be used for TLS: {error}; expected RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519. Issue the certificate for such a key",
        path.display()
    )]
    UnusableKey {
        /// The file.
        path: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// The two files do not belong together.
    #[error(
        "the private key in {} is not the one of the first certificate in {}; expected a pair. Put the server's own certificate first, and replace both files together",
        private_key.display(), certificate.display()
    )]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The private key's file.
        private_key: PathBuf,
    },
}
