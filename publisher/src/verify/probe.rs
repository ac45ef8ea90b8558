//! Every address of an issuer's host, each asked twice: as caches answer there, and past them. Where the discovery
//! document places the key set at another host, every address of that one as well.
//!
//! A relying party reads at whichever address it is given, so a key is visible only where all of them show it. The
//! plain URL is what relying parties read; with a query that nobody asked before, a cache passes the question on, and
//! the answer is the origin's.
//!
//! What an answer says about the keys, for [`chancery_core::visibility`]:
//!
//! | answer | meaning |
//! |---|---|
//! | both documents came | the keys that are visible by them, none if they are not to be trusted |
//! | 401, 403, 404 or 410 | no key: the document is gone, or hidden. S3 says 403 to those who may not list |
//! | any other status, or no answer | the edge could not be read |
//! | past caches 4xx, and never a 200 before | the server does not take the question: this edge is none |
//!
//! The last row is for servers that refuse a query they do not know. Once a view has answered past its caches, a
//! 404 there means that the origin has lost the document, however long caches still show it.

mod difference;
mod reading;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chancery_core::DocumentKind;
use chancery_core::lint::Finding;
use chancery_core::quoted::escaped;
use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation};

use self::reading::ProbeTask;
use super::fetch::HostAddresses;
use super::report::VerifyReport;
use super::{Expectation, IssuerPlace, Verifier};

/// The most addresses of one host that one probe asks. Of more, the next probe asks others.
pub const ADDRESSES: usize = 32;

/// What a probe brought back.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The plain answer of each address, and after it the one past caches.
    pub edges: Vec<Edge>,
    /// How many addresses, of all hosts, were not asked this time.
    pub left_out: usize,
    /// From the start to the last byte.
    pub took: Duration,
}

/// One way to read both documents, and what came.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Which address was asked; `None` where there is only one way: an address in the URL, a proxy, an unknown name.
    pub address: Option<SocketAddr>,
    /// Which address was asked for a key set at another host.
    pub keys_at: Option<SocketAddr>,
    /// How it was asked.
    pub way: Way,
    /// What came.
    pub report: VerifyReport,
}

/// How an address is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// As relying parties ask.
    Plain,
    /// With a query that no cache has an answer for.
    PastCaches,
}

impl fmt::Display for Edge {
    /// What the record calls it: `192.0.2.7`, `192.0.2.7 past caches`, `192.0.2.7, keys at 198.51.100.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, address: SocketAddr| match address.port() {
            0 => write!(f, "{}", address.ip()),
            _ => write!(f, "{address}"),
        };
        match self.address {
            Some(address) => write(f, address)?,
            None => f.write_str("the host")?,
        }
        if let Some(address) = self.keys_at {
            f.write_str(", keys at ")?;
            write(f, address)?;
        }
        match self.way {
            Way::Plain => Ok(()),
            Way::PastCaches => f.write_str(" past caches"),
        }
    }
}

impl Verifier {
    /// Reads `place` at each address of each host on the way to the keys. `nonce` must be another one each time. Never
    /// fails: what cannot be read is a finding. Takes at most twelve times the timeout.
    pub async fn probe(&self, place: IssuerPlace<'_>, expected: &Expectation, nonce: u64) -> Probe {
        let started = Instant::now();
        let found = self.reader.find(&place.url(DocumentKind::Discovery)).await;
        let (host, mut addresses) = match found {
            HostAddresses::Given { host, addresses } | HostAddresses::Resolved { host, addresses } => {
                (host, addresses)
            }
            HostAddresses::OneWay { .. } | HostAddresses::NotFound(_) => (String::new(), Vec::new()),
        };
        let left_out = leave_out(&mut addresses, nonce);
        let mut ways: Vec<Option<SocketAddr>> = addresses.into_iter().map(Some).collect();
        if ways.is_empty() {
            ways.push(None);
        }
        let read = self.read_everywhere(ProbeTask { place, nonce }, &host, &ways).await;
        let unhindered = Expectation { cache: expected.cache, ..Expectation::none() };
        let edges = read.routes.into_iter().map(|route| {
            let expected = if route.way == Way::Plain { expected } else { &unhindered };
            let report = self.judge(place.issuer, expected, route.fetches);
            Edge { address: route.address, keys_at: route.keys_at, way: route.way, report }
        });
        Probe { edges: edges.collect(), left_out: left_out + read.left_out, took: started.elapsed() }
    }
}

/// Takes of more addresses than are asked another part each time. How many are left out.
fn leave_out<T>(addresses: &mut Vec<T>, nonce: u64) -> usize {
    let left_out = addresses.len().saturating_sub(ADDRESSES);
    if left_out > 0 {
        let start = nonce.wrapping_mul(ADDRESSES as u64) % addresses.len() as u64;
        addresses.rotate_left(usize::try_from(start).unwrap_or_default());
        addresses.truncate(ADDRESSES);
    }
    left_out
}

impl Probe {
    /// What came to those who ask as relying parties do.
    pub fn plain(&self) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(|edge| edge.way == Way::Plain)
    }

    /// Whether every address shows keys and nothing is wrong at any of them; notes are not.
    pub fn is_good(&self) -> bool {
        self.plain().all(|edge| edge.report.is_good()) && !self.findings().iter().any(super::report::is_bad)
    }

    /// What is wrong at any address or between them, the worst first. What is wrong at some addresses only names them.
    pub fn findings(&self) -> Vec<Finding> {
        let plain = self.plain().count();
        let mut findings: Vec<(Finding, Vec<String>)> = Vec::new();
        for edge in self.plain() {
            for finding in &edge.report.findings {
                match findings.iter_mut().find(|(known, _)| known == finding) {
                    Some((_, edges)) => edges.push(edge.to_string()),
                    None => findings.push((finding.clone(), vec![edge.to_string()])),
                }
            }
        }
        let located = findings.into_iter().map(|(finding, edges)| match edges.len() == plain {
            true => finding,
            false => Finding { message: format!("at {}: {}", edges.join(", "), finding.message), ..finding },
        });
        let mut all: Vec<Finding> = located.chain(difference::findings(self)).collect();
        all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        bounded(all)
    }

    /// Whether a question past caches was answered.
    pub fn answers_past_caches(&self) -> bool {
        self.edges.iter().any(|edge| edge.way == Way::PastCaches && edge.statuses() == [Some(200), Some(200)])
    }

    /// What this says about the keys in a view, by the table at the head of this module. `answered_before` is whether
    /// a question past the caches of this view was ever answered.
    pub fn observation(&self, view: &str, answered_before: bool) -> Observation {
        let answers = answered_before || self.answers_past_caches();
        let edges = self.edges.iter().filter_map(|edge| Some((edge.to_string(), edge.keys(answers)?)));
        Observation { view: view.to_owned(), edges: edges.collect(), took: self.took }
    }
}

impl Edge {
    fn statuses(&self) -> [Option<u16>; 2] {
        let status = |kind| self.report.fetches.fetched(kind).map(|fetched| fetched.status);
        [status(DocumentKind::Discovery), status(DocumentKind::Jwks)]
    }

    /// What it says about the keys; `None` when the server does not take the question.
    fn keys(&self, answers_past_caches: bool) -> Option<EdgeObservation> {
        let refused = self.statuses().into_iter().flatten().any(|status| (400..500).contains(&status));
        if self.way == Way::PastCaches && refused && !answers_past_caches {
            return None;
        }
        if let Some(why) = &self.report.fetches.jwks_refused {
            return Some(EdgeObservation::Unreadable(why.clone()));
        }
        for kind in [DocumentKind::Discovery, DocumentKind::Jwks] {
            if let Some(failure) = self.report.fetches.failure(kind) {
                return Some(EdgeObservation::Unreadable(shortened(&failure.kind)));
            }
            match self.report.fetches.fetched(kind).map(|fetched| fetched.status) {
                None | Some(200 | 401 | 403 | 404 | 410) => {}
                Some(status) => {
                    return Some(EdgeObservation::Unreadable(format!("the {kind} answered {status}")));
                }
            }
        }
        Some(EdgeObservation::Read(EdgeKeys {
            kids: self.report.visible.iter().cloned().collect(),
            others: 0,
            age: self.age(),
            lifetime: self.report.max_age,
        }))
    }

    /// How long the older of the two documents had been in a cache.
    fn age(&self) -> Option<Duration> {
        let ages = [DocumentKind::Discovery, DocumentKind::Jwks].into_iter().filter_map(|kind| {
            let age = self.report.fetches.fetched(kind)?.headers.age.as_deref()?;
            age.trim().parse().ok().map(Duration::from_secs)
        });
        ages.max()
    }
}

/// Why an edge could not be read, which a server has a say in, for a record and a log.
fn shortened(why: &impl fmt::Display) -> String {
    const SHOWN: usize = 200;
    let why = escaped(why).to_string();
    match why.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}\u{2026}", why.get(..end).unwrap_or_default()),
        None => why,
    }
}

/// Leaves of each rule the first few findings, and one that says how many more there are.
fn bounded(findings: Vec<Finding>) -> Vec<Finding> {
    const SHOWN: usize = 3;
    let mut all: Vec<Finding> = Vec::new();
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        let of_rule = all.iter().filter(|known| known.rule == finding.rule).count();
        if of_rule < SHOWN {
            all.push(finding);
            continue;
        }
        let number = more.entry(finding.rule).or_default();
        *number += 1;
        if of_rule == SHOWN {
            all.push(finding);
        }
    }
    for (rule, number) in more.into_iter().filter(|(_, number)| *number > 1) {
        if let Some(last) = all.iter_mut().rfind(|finding| finding.rule == rule) {
            last.message = format!("{}; and {} more like this", last.message, number - 1);
        }
    }
    all
}
