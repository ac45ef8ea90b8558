//! The certificate that the public server shows, replaced when its files change.
//!
//! Its private key is a TLS serving key: it proves that we are the host in the issuer URL, and signs no token.
//! The rule that this process never holds a private signing key stands.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. At start, files that cannot be used end the process with the reason. An expired certificate is only a warning:
//!    a clock may be wrong, and serving it says more to a client than refusing connections.
//! 2. Files are read again when something happens in their directories (which covers the `..data` swap with which
//!    kubelet replaces a mounted Secret), and once a minute in case nobody told us.
//! 3. A new pair that cannot be used never replaces one that can. It is named once in the log, and counted.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::Deserialize;

mod pair;
mod watch;

pub use pair::{CertificateError, ServingPair};
pub use watch::watch;

/// Where the certificate chain and its private key are: `serve.tls`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TlsConfig {
    /// A PEM file with the server's certificate first, then those that lead to its root.
    pub certificate: PathBuf,
    /// A PEM file with the unencrypted private key of the first certificate (PKCS#8, PKCS#1 or SEC1).
    pub private_key: PathBuf,
}

impl TlsConfig {
    /// The directories in which something happens when a file is replaced.
    fn directories(&self) -> Vec<&Path> {
        let mut directories: Vec<_> = [&self.certificate, &self.private_key]
            .into_iter()
            .map(|file| match file.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            })
            .collect();
        directories.dedup();
        directories
    }
}

/// The pair in use, shared by the TLS handshakes and whoever replaces it.
#[derive(Debug)]
pub struct Certificates {
    files: TlsConfig,
    current: RwLock<Arc<ServingPair>>,
    last_refusal: Mutex<Option<String>>,
}

/// What a look at the files came to.
#[derive(Debug)]
pub enum Reload {
    /// They hold what is in use, or what was refused before.
    Unchanged,
    /// They hold a new pair, which new connections get.
    Replaced,
    /// They hold something else, and the old pair stays.
    Refused(CertificateError),
}

impl Certificates {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// Names the file and says what is wrong with it.
    pub fn open(files: TlsConfig) -> Result<Self, CertificateError> {
        let pair = ServingPair::read(&files)?;
        Ok(Self { files, current: RwLock::new(Arc::new(pair)), last_refusal: Mutex::default() })
    }

    /// Reads the files again and takes what is in them if it can be used.
    pub fn reload(&self) -> Reload {
        let mut last_refusal = self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner);
        match ServingPair::read(&self.files) {
            Ok(pair) => {
                *last_refusal = None;
                if pair.is_same_as(&self.current()) {
                    return Reload::Unchanged;
                }
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                Reload::Replaced
            }
            Err(error) => {
                let text = error.to_string();
                if last_refusal.as_deref() == Some(&text) {
                    return Reload::Unchanged;
                }
                *last_refusal = Some(text);
                Reload::Refused(error)
            }
        }
    }

    /// When the certificate in use expires.
    pub fn not_after(&self) -> Timestamp {
        self.current().not_after()
    }

    /// What clients dislike about the certificate's dates at `now`, in words.
    pub fn date_problem(&self, now: Timestamp) -> Option<String> {
        self.current().date_problem(now)
    }

    fn current(&self) -> Arc<ServingPair> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().certified_key())
    }
}
