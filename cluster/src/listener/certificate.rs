//! The certificate that a listener shows, replaced when its files change.
//!
//! Its private key is a TLS serving key: it proves that we are the host that a client asked for, and signs no token.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. At start, files that cannot be used end the process with the reason. An expired certificate is only a warning:
//!    a clock may be wrong, and serving it says more to a client than refusing connections. So is one for other hosts: a
//!    proxy in front may ask for another name than ours.
//! 2. Files are read again when something happens in their directories (which covers the `..data` swap with which
//!    kubelet replaces a mounted Secret), and once a minute in case nobody told us.
//! 3. A new pair that cannot be used, or that is worse than the one in use, never replaces it: worse is a date that
//!    clients refuse where that of the other one is good, and a host that it is not for and the other one is. It is named
//!    once in the log, counted, and looked at again each time: what is not valid yet will be.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::Deserialize;

mod pair;
mod watch;

pub use pair::{CertificateError, ServingPair, validity};
pub(super) use watch::watch;

/// Where the certificate chain and its private key are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TlsConfig {
    /// A PEM file with the server's certificate first, then those that lead to its root.
    pub certificate: PathBuf,
    /// A PEM file with the unencrypted private key of the first certificate (PKCS#8, PKCS#1 or SEC1).
    pub private_key: PathBuf,
}

impl TlsConfig {
    /// The same files, relative paths starting at `folder`.
    #[must_use]
    pub fn below(self, folder: &Path) -> Self {
        Self { certificate: folder.join(self.certificate), private_key: folder.join(self.private_key) }
    }

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
    /// Where it comes from; nowhere if the process makes it itself.
    files: Option<TlsConfig>,
    /// The hosts that clients ask for.
    hosts: Vec<ServerName<'static>>,
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

/// A certificate in use, as its operator should know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStanding {
    /// When it expires.
    pub not_after: Timestamp,
    /// What clients dislike about it, in words: its dates, or that it is for other hosts.
    pub problem: Option<String>,
    /// Why what lies in its files now is not taken in its place.
    pub refused: Option<String>,
}

impl Certificates {
    /// Reads the files for the first time. They are for `hosts`, names and addresses; what is neither does not count.
    ///
    /// # Errors
    /// Names the file and says what is wrong with it.
    pub fn open(files: TlsConfig, hosts: &[String]) -> Result<Self, CertificateError> {
        let pair = ServingPair::read(&files)?;
        let hosts = hosts.iter().filter_map(|host| ServerName::try_from(host.clone()).ok()).collect();
        let current = RwLock::new(Arc::new(pair));
        Ok(Self { files: Some(files), hosts, current, last_refusal: Mutex::default() })
    }

    /// A pair that the process has made itself, and replaces itself.
    pub fn given(pair: ServingPair) -> Self {
        let current = RwLock::new(Arc::new(pair));
        Self { files: None, hosts: Vec::new(), current, last_refusal: Mutex::default() }
    }

    /// New connections get this pair.
    pub fn replace(&self, pair: ServingPair) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }

    /// The chain that new connections are shown, the server's own certificate first.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.current().certified_key().cert.clone()
    }

    /// Reads the files again and takes what is in them if it can be used and is not worse at `now`.
    pub fn reload(&self, now: Timestamp) -> Reload {
        let Some(files) = &self.files else { return Reload::Unchanged };
        let mut last_refusal = self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let read = ServingPair::read(files).and_then(|pair| self.no_worse(pair, files, now));
        match read {
            Ok(None) => {
                *last_refusal = None;
                Reload::Unchanged
            }
            Ok(Some(pair)) => {
                *last_refusal = None;
                self.replace(pair);
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

    /// `pair` if it is another than the one in use, and clients have nothing against it that they have not against that.
    fn no_worse(
        &self,
        pair: ServingPair,
        files: &TlsConfig,
        now: Timestamp,
    ) -> Result<Option<ServingPair>, CertificateError> {
        let current = self.current();
        if pair.is_same_as(&current) {
            return Ok(None);
        }
        let lost = self.hosts.iter().find(|host| current.is_for(host) && !pair.is_for(host));
        let problem = match (pair.date_problem(now), lost) {
            (Some(problem), _) if current.date_problem(now).is_none() => problem,
            (_, Some(host)) => format!("is not for {}", host.to_str()),
            _ => return Ok(Some(pair)),
        };
        Err(CertificateError::Worse { path: files.certificate.clone(), problem })
    }

    /// How the certificate in use stands at `now`.
    pub fn standing(&self, now: Timestamp) -> CertificateStanding {
        let current = self.current();
        let other = || self.hosts.iter().find(|host| !current.is_for(host));
        let problem =
            current.date_problem(now).or_else(|| other().map(|host| format!("is not for {}", host.to_str())));
        let refused = self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner).clone();
        CertificateStanding { not_after: current.not_after(), problem, refused }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    use super::*;

    const HOST: &str = "id.example.com";

    /// A pair for `hosts` from 2020 to the last year.
    fn write(folder: &TempDir, hosts: &[&str], last_year: i32) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        fs::write(folder.path().join("tls.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(folder.path().join("tls.key"), key.serialize_pem()).unwrap();
    }

    fn open(folder: &TempDir, hosts: &[&str]) -> Certificates {
        let files = TlsConfig {
            certificate: folder.path().join("tls.crt"),
            private_key: folder.path().join("tls.key"),
        };
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        Certificates::open(files, &hosts).unwrap()
    }

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_pair_with_a_fault_that_the_one_in_use_has_not_never_replaces_it() {
        let (current, behind_proxy): (&[&str], &[&str]) = (&[HOST, "127.0.0.1"], &["chancery.svc"]);
        for (old, old_year, new, new_year, problem) in [
            (current, 2030, current, 2031, None),
            (current, 2030, &[HOST, "127.0.0.1", "another.example.com"][..], 2031, None),
            (current, 2030, current, 2025, Some("expired at 2025-12-31T00:00:00Z")),
            (current, 2030, &["127.0.0.1"][..], 2031, Some("is not for id.example.com")),
            (current, 2030, &[HOST][..], 2031, Some("is not for 127.0.0.1")),
            (current, 2025, current, 2024, None),
            (current, 2025, &[HOST][..], 2031, Some("is not for 127.0.0.1")),
            (behind_proxy, 2030, &["other.svc"][..], 2031, None),
            (&["*.example.com", "127.0.0.1"][..], 2030, current, 2031, None),
        ] {
            let folder = TempDir::new().unwrap();
            write(&folder, old, old_year);
            let certificates = open(&folder, current);
            let before = certificates.standing(now()).not_after;
            assert!(matches!(certificates.reload(now()), Reload::Unchanged));
            write(&folder, new, new_year);
            match (certificates.reload(now()), problem) {
                (Reload::Replaced, None) => assert_ne!(certificates.standing(now()).not_after, before),
                (Reload::Refused(error), Some(problem)) => {
                    assert!(error.to_string().contains(problem), "{error}");
                    assert_eq!(certificates.standing(now()).not_after, before);
                    assert!(matches!(certificates.reload(now()), Reload::Unchanged), "said twice");
                }
                (reload, _) => panic!("{new:?} until {new_year} after {old:?} until {old_year}: {reload:?}"),
            }
        }
    }

    #[test]
    fn what_is_refused_for_its_dates_is_taken_when_they_are_good() {
        let folder = TempDir::new().unwrap();
        write(&folder, &[HOST], 2030);
        let certificates = open(&folder, &[HOST]);
        write(&folder, &[HOST], 2031);
        let early = "2019-01-01T00:00:00Z".parse().unwrap();
        // By a clock that is wrong for both, the new one is no worse.
        assert!(matches!(certificates.reload(early), Reload::Replaced));
        write(&folder, &[HOST], 2025);
        assert!(matches!(certificates.reload(now()), Reload::Refused(_)));
        assert!(matches!(certificates.reload("2025-06-01T00:00:00Z".parse().unwrap()), Reload::Replaced));
    }
}
