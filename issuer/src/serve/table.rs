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

    /// The places at `host`, as it was sent.
    fn places(&self, host: &str) -> Option<&Places> {
        // Nearly every client writes the host as the issuer does, and then nothing is allocated.
        if let Some(places) = self.hosts.get(host) {
            return Some(places);
        }
        let host = normalized(host);
        self.hosts.get(&host).or_else(|| self.any_port_hosts.get(without_port(&host)))
    }
}

/// What an issuer answers at, each as a host and a path. Two issuers that have one of these in common are those that
/// [`HostPolicy::new`] refuses.
pub(crate) fn answers_at(issuer: &IssuerUrl, extra_hosts: &[ExtraHost]) -> Vec<String> {
    let path = issuer.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let own = format!("{}{path}", normalized(issuer.authority()));
    let extra = extra_hosts.iter().map(|extra| match extra.has_port() {
        true => format!("{extra}{path}"),
        false => format!("{extra}:*{path}"),
    });
    std::iter::once(own).chain(extra).collect()
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

/// The documents of every issuer of a policy. Immutable: a change makes a new table, which shares what has not changed.
#[derive(Debug)]
pub struct DocumentTable {
    policy: Arc<HostPolicy>,
    /// In the order of the policy; nothing for an issuer without documents.
    issuers: Vec<Option<Arc<IssuerDocuments>>>,
}

/// What one issuer shows, ready to be sent.
#[derive(Debug)]
struct IssuerDocuments {
    set: DocumentSet,
    jwks: Prepared,
    discovery: Prepared,
}

impl IssuerDocuments {
    fn new(set: &DocumentSet) -> Self {
        let prepared = |kind| Prepared::new(set.document(kind));
        let (jwks, discovery) = (prepared(DocumentKind::Jwks), prepared(DocumentKind::Discovery));
        Self { set: set.clone(), jwks, discovery }
    }
}

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
    /// The table of an issuer list that has no documents yet.
    pub fn empty(policy: Arc<HostPolicy>) -> Self {
        let issuers = vec![None; policy.issuers.len()];
        Self { policy, issuers }
    }

    /// The table of `sets` at the places of `policy`. Issuers of the policy without a set answer "not yet"; a set whose
    /// issuer the policy does not know, since it has gone, is left out. What this table has of the same documents is
    /// shared: of thousands of issuers one changes at a time.
    ///
    /// # Errors
    /// Names an issuer that is there twice.
    pub fn replaced(&self, policy: Arc<HostPolicy>, sets: &[DocumentSet]) -> Result<Self, TableError> {
        let positions: HashMap<&IssuerUrl, usize> =
            policy.issuers.iter().enumerate().map(|(position, issuer)| (issuer, position)).collect();
        let known: HashMap<&IssuerUrl, &Arc<IssuerDocuments>> =
            self.issuers.iter().flatten().map(|documents| (documents.set.issuer(), documents)).collect();
        let mut issuers = vec![None; policy.issuers.len()];
        for set in sets {
            let Some(place) = positions.get(set.issuer()).and_then(|position| issuers.get_mut(*position))
            else {
                continue;
            };
            let unchanged = known.get(set.issuer()).filter(|documents| documents.set == *set);
            let documents =
                unchanged.map_or_else(|| Arc::new(IssuerDocuments::new(set)), |known| Arc::clone(known));
            if place.replace(documents).is_some() {
                return Err(TableError::RepeatedIssuer(set.issuer().clone()));
            }
        }
        Ok(Self { policy, issuers })
    }

    /// What answers at `path` on `host`, the value of `Host` or `:authority` as it was sent.
    pub fn find(&self, host: &str, path: &str) -> Found<'_> {
        let Some(places) = self.policy.places(host) else { return Found::NoSuchHost };
        let Some((position, kind)) = places.get(path) else { return Found::NoSuchPath };
        match (self.issuers.get(*position), kind) {
            (Some(Some(documents)), DocumentKind::Jwks) => Found::Document(&documents.jwks),
            (Some(Some(documents)), DocumentKind::Discovery) => Found::Document(&documents.discovery),
            _ => Found::NotYet,
        }
    }

    /// The hosts and paths that it answers at.
    pub fn policy(&self) -> &Arc<HostPolicy> {
        &self.policy
    }

    /// Issuers without documents, in the order of the policy.
    pub fn missing(&self) -> Vec<IssuerUrl> {
        let all = self.policy.issuers.iter().zip(&self.issuers);
        all.filter(|(_, documents)| documents.is_none()).map(|(issuer, _)| issuer.clone()).collect()
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
