//! The public server: the documents of every issuer over HTTP or HTTPS, and nothing else.
//!
//! | room | what is in it |
//! |---|---|
//! | `host` | [`ExtraHost`], and hosts compared as HTTP compares them |
//! | `prepared` | a document with its headers, rendered once per change |
//! | [`table`] | which document answers for which host and path |
//! | `answer` | the answer to one request, a function of table and request |
//! | `listener` | [`Server`]: has [`chancery_cluster::listener`] answer with the table |
//!
//! Whoever watches the keys calls [`Documents::replace`]; every request reads the table that is in place when it
//! arrives. Readers hold the lock for the time it takes to clone an `Arc`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use chancery_core::{DocumentSet, IssuerUrl};
use serde::Deserialize;

mod answer;
mod host;
mod listener;
mod prepared;
pub mod table;

pub use chancery_cluster::listener::{ListenError, TlsConfig};
pub use host::{ExtraHost, ExtraHostError};
pub use listener::{Server, ServerParts};
pub use prepared::Prepared;
pub use table::{DocumentTable, HostPolicy, TableError};

/// The public listener: `serve`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServeConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The serving certificate. Without it the server speaks plain HTTP, for a proxy in front that speaks TLS:
    /// relying parties only ever connect with `https`.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// Hosts that serve every issuer by path, besides those of the issuer URLs.
    #[serde(default)]
    pub extra_hosts: Vec<ExtraHost>,
}

impl ServeConfig {
    /// The same listener, the relative paths of its certificate starting at `folder`.
    #[must_use]
    pub fn below(mut self, folder: &Path) -> Self {
        self.tls = self.tls.map(|tls| tls.below(folder));
        self
    }
}

/// What is served now. Clones share it.
#[derive(Clone, Debug)]
pub struct Documents {
    table: Arc<RwLock<Arc<DocumentTable>>>,
    /// Held while a table is made of the one before: of two changes at a time neither undoes the other. Readers do not wait
    /// for it.
    changing: Arc<Mutex<()>>,
}

impl Documents {
    /// Nothing to serve yet for the issuers of `policy`.
    pub fn new(policy: HostPolicy) -> Self {
        let table = Arc::new(RwLock::new(Arc::new(DocumentTable::empty(Arc::new(policy)))));
        Self { table, changing: Arc::default() }
    }

    /// Serves `sets` from the next request on, and nothing that was served before. Documents of an issuer that has gone
    /// are left out.
    ///
    /// # Errors
    /// Names an issuer that is there twice; what was served before stays.
    pub fn replace(&self, sets: &[DocumentSet]) -> Result<(), TableError> {
        self.change(|before| before.replaced(before.policy().clone(), sets))
    }

    /// Answers for the issuers of `policy` from now on, and for no others, with those of `sets` that are theirs.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn answer_for(&self, policy: HostPolicy, sets: &[DocumentSet]) -> Result<(), TableError> {
        self.change(|before| before.replaced(Arc::new(policy), sets))
    }

    /// The table of this moment.
    pub fn table(&self) -> Arc<DocumentTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every issuer of this server.
    pub fn issuers(&self) -> Vec<IssuerUrl> {
        self.table().policy().issuers().to_vec()
    }

    fn change(
        &self,
        made_of: impl FnOnce(&DocumentTable) -> Result<DocumentTable, TableError>,
    ) -> Result<(), TableError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let table = made_of(&self.table())?;
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Whoever serves what was collected does not bring the issuers back that a reload has just replaced.
    #[test]
    fn of_two_changes_at_a_time_neither_undoes_the_other() {
        let policy = |name: usize| {
            let url: IssuerUrl = format!("https://id.example.com/{name}").parse().unwrap();
            HostPolicy::new(&[url], &[]).unwrap()
        };
        let (documents, over) = (Documents::new(policy(0)), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    documents.replace(&[]).unwrap();
                }
            });
            let lost = (1..3000).find(|name| {
                let wanted = policy(*name);
                let issuers = wanted.issuers().to_vec();
                documents.answer_for(wanted, &[]).unwrap();
                thread::yield_now();
                documents.issuers() != issuers
            });
            over.store(true, Ordering::Relaxed);
            assert_eq!(lost, None, "the issuers of that change are not answered for");
        });
    }

    #[test]
    fn the_configuration_is_strict_and_its_paths_start_where_it_stands() {
        let text = "{ listen: '[::]:8443', tls: { certificate: tls.crt, privateKey: /run/tls.key }, extraHosts: [Chancery.svc] }";
        let config: ServeConfig = serde_saphyr::from_str(text).unwrap();
        assert_eq!(config.extra_hosts.first().map(ExtraHost::as_str), Some("chancery.svc"));
        let tls = config.below(Path::new("/etc/chancery")).tls.unwrap();
        assert_eq!(tls.certificate, Path::new("/etc/chancery/tls.crt"));
        assert_eq!(tls.private_key, Path::new("/run/tls.key"));
        for (text, word) in [
            ("{ listen: '127.0.0.1:1', port: 1 }", "port"),
            ("{ listen: '127.0.0.1:1', tls: { certificate: a } }", "privateKey"),
            ("{ listen: '127.0.0.1:1', extraHosts: ['https://a'] }", "expected HOST"),
            ("{ listen: localhost }", "listen"),
        ] {
            let error = serde_saphyr::from_str::<ServeConfig>(text).unwrap_err().to_string();
            assert!(error.contains(word) || error.contains("socket address"), "{text}: {error}");
        }
    }
}
