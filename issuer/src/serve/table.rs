//! Which document answers for which host and path, decided once when the documents change.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. Every issuer is served below its own URL: its host and port, and its path with one trailing slash removed.
//!    Paths are compared byte for byte, as relying parties write them.
//! 2. Hosts are compared without case and without a trailing dot, and port 443 is the same as no port: a client
//!    that speaks `https` leaves it out (RFC 9110 section 7.2), and so does a proxy that forwards its `Host`.
//! 3. An extra host serves every issuer by path, on the port it names or, if it names none, on any.
//! 4. Two issuers that would answer at the same host and path are refused, whether by their own host or an extra one.
//! 5. An issuer without documents is known all the same: its paths are "not yet", not "not here".

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use chancery_core::{DocumentKind, DocumentSet, IssuerUrl};

use super::host::{ExtraHost, normalized, without_port};
use super::prepared::Prepared;

/// The hosts and paths of a fixed list of issuers, checked for conflicts.
#[derive(Clone, Debug)]
pub struct HostPolicy {
    issuers: Vec<IssuerUrl>,
    hosts: HashMap<String, Places>,
    any_port_hosts: HashMap<String, Places>,
}

/// Path to the issuer, by its position, and the kind of document there.
type Places = HashMap<String, (usize, DocumentKind)>;

impl HostPolicy {
    /// The places at which `issuers` are served.
    ///
    /// # Errors
    /// Names two issuers that would answer at the same place.
    pub fn new(issuers: &[IssuerUrl], extra_hosts: &[ExtraHost]) -> Result<Self, TableError> {
        let mut policy =
            Self { issuers: issuers.to_vec(), hosts: HashMap::new(), any_port_hosts: HashMap::new() };
        for (position, issuer) in issuers.iter().enumerate() {
            let host = normalized(issuer.authority());
            add(policy.hosts.entry(host).or_default(), issuers, position)?;
        }
        for extra in extra_hosts {
            let table = if extra.has_port() { &mut policy.hosts } else { &mut policy.any_port_hosts };
            let places = table.entry(extra.as_str().to_owned()).or_default();
            for position in 0..issuers.len() {
                add(places, issuers, position)?;
            }
        }
        Ok(policy)
    }

    /// The issuers, in the order in which they were given.
    pub fn issuers(&self) -> &[IssuerUrl] {
        &self.issuers
    }
}

/// Adds the places of the issuer at `position` to those of one host.
fn add(places: &mut Places, issuers: &[IssuerUrl], position: usize) -> Result<(), TableError> {
    let Some(issuer) = issuers.get(position) else { return Ok(()) };
    for kind in DocumentKind::ALL {
        match places.entry(path_of(issuer, kind)) {
            Entry::Vacant(entry) => _ = entry.insert((position, kind)),
            // An extra host may repeat an issuer's own host.
            Entry::Occupied(entry) if entry.get().0 == position => {}
            Entry::Occupied(entry) => {
                let first = Box::new(issuers.get(entry.get().0).unwrap_or(issuer).clone());
                return Err(TableError::SharedPath {
                    path: entry.key().clone(),
                    first,
                    second: Box::new(issuer.clone()),
                });
            }
        }
    }
    Ok(())
}

fn path_of(issuer: &IssuerUrl, kind: DocumentKind) -> String {
    let path = issuer.path();
    format!("{}/{}", path.strip_suffix('/').unwrap_or(path), kind.path())
}

/// Every answer there is, by host and path. Immutable: a change makes a new table.
#[derive(Debug, Default)]
pub struct DocumentTable {
    hosts: HashMap<String, Answers>,
    any_port_hosts: HashMap<String, Answers>,
    missing: Vec<IssuerUrl>,
}

type Answers = HashMap<String, Option<Arc<Prepared>>>;

/// What a table says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The document to send.
    Document(&'a Prepared),
    /// An issuer of ours, no key of which has been seen.
    NotYet,
    /// Our host, but nothing at this path.
    NoSuchPath,
    /// Not a host of ours.
    NoSuchHost,
}

impl DocumentTable {
    /// The table of `sets` at the places of `policy`. Issuers of the policy without a set answer "not yet"; a set whose
    /// issuer the policy does not know, since it has gone, is left out.
    ///
    /// # Errors
    /// Names an issuer that is there twice.
    pub fn new(sets: &[DocumentSet], policy: &HostPolicy) -> Result<Self, TableError> {
        let positions: HashMap<&IssuerUrl, usize> =
            policy.issuers.iter().enumerate().map(|(position, issuer)| (issuer, position)).collect();
        let mut prepared: HashMap<(usize, DocumentKind), Arc<Prepared>> = HashMap::new();
        for set in sets {
            let Some(position) = positions.get(set.issuer()) else { continue };
            for kind in DocumentKind::ALL {
                let document = Arc::new(Prepared::new(set.document(kind)));
                if prepared.insert((*position, kind), document).is_some() {
                    return Err(TableError::RepeatedIssuer(set.issuer().clone()));
                }
            }
        }
        let has_documents =
            |position: usize| DocumentKind::ALL.iter().any(|kind| prepared.contains_key(&(position, *kind)));
        let missing = policy.issuers.iter().enumerate().filter(|(position, _)| !has_documents(*position));
        let missing = missing.map(|(_, issuer)| issuer.clone()).collect();
        let answers = |places: &Places| -> Answers {
            places.iter().map(|(path, place)| (path.clone(), prepared.get(place).cloned())).collect()
        };
        let by_host = |hosts: &HashMap<String, Places>| {
            hosts.iter().map(|(host, places)| (host.clone(), answers(places))).collect()
        };
        Ok(Self { hosts: by_host(&policy.hosts), any_port_hosts: by_host(&policy.any_port_hosts), missing })
    }

    /// What answers at `path` on `host`, the value of `Host` or `:authority` as it was sent.
    pub fn find(&self, host: &str, path: &str) -> Found<'_> {
        match self.answers(host).map(|answers| answers.get(path)) {
            Some(Some(Some(document))) => Found::Document(document),
            Some(Some(None)) => Found::NotYet,
            Some(None) => Found::NoSuchPath,
            None => Found::NoSuchHost,
        }
    }

    /// Issuers without documents, in the order of the policy.
    pub fn missing(&self) -> &[IssuerUrl] {
        &self.missing
    }

    fn answers(&self, host: &str) -> Option<&Answers> {
        // Nearly every client writes the host as the issuer does, and then nothing is allocated.
        if let Some(answers) = self.hosts.get(host) {
            return Some(answers);
        }
        let host = normalized(host);
        self.hosts.get(&host).or_else(|| self.any_port_hosts.get(without_port(&host)))
    }
}

/// Documents that cannot be served together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Two issuers at one place.
    #[error(
        "the issuers {first} and {second} would both answer at {path} on the same host; expected a host or a path of its own for each. Change one issuer URL, or name no `extraHosts` when issuers differ by host alone"
    )]
    SharedPath {
        /// The path.
        path: String,
        /// Who has it.
        first: Box<IssuerUrl>,
        /// Who also wants it.
        second: Box<IssuerUrl>,
    },
    /// Two sets of one issuer.
    #[error("there are two sets of documents of {0}; expected one. Remove one of the two")]
    RepeatedIssuer(IssuerUrl),
}

#[cfg(test)]
#[path = "table/tests.rs"]
mod tests;
