//! Every address of an issuer's host, each asked twice: as caches answer there, and past them.
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

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chancery_core::lint::Finding;
use chancery_core::visibility::{EdgeSight, Seen, Sighting};
use chancery_core::{DocumentKind, IssuerUrl};
use tokio::task::JoinSet;

use super::failure::{FailureKind, FetchError};
use super::fetch::Reader;
use super::report::Report;
use super::{Expectation, Got, Place, Verifier, VerifierError, read};

/// The most addresses that one probe asks. Of more, the next probe asks others.
pub const ADDRESSES: usize = 32;
/// How many are asked at the same time.
const AT_ONCE: usize = 8;

/// What a probe brought back.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The plain reading of each address, and after it the one past caches.
    pub edges: Vec<Edge>,
    /// How many addresses were not asked this time.
    pub left_out: usize,
    /// From the start to the last byte.
    pub took: Duration,
}

/// One reading.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Which address was asked; `None` where there is only one way: an address in the URL, a proxy, an unknown name.
    pub address: Option<SocketAddr>,
    /// How it was asked.
    pub way: Way,
    /// What came.
    pub report: Report,
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
    /// What the record calls it: `192.0.2.7`, `192.0.2.7 past caches`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) if address.port() == 0 => write!(f, "{}", address.ip())?,
            Some(address) => write!(f, "{address}")?,
            None => f.write_str("the host")?,
        }
        match self.way {
            Way::Plain => Ok(()),
            Way::PastCaches => f.write_str(" past caches"),
        }
    }
}

impl Verifier {
    /// Reads `place` at each address of its host. `nonce` must be another one each time. Never fails: what cannot be
    /// read is a finding. Takes at most eight times the timeout.
    pub async fn probe(&self, place: Place<'_>, expected: &Expectation, nonce: u64) -> Probe {
        let started = Instant::now();
        let (host, mut addresses) =
            self.reader.edges(&place.url(DocumentKind::Discovery)).await.unwrap_or_default();
        let left_out = addresses.len().saturating_sub(ADDRESSES);
        if left_out > 0 {
            let start = nonce.wrapping_mul(ADDRESSES as u64) % addresses.len() as u64;
            addresses.rotate_left(usize::try_from(start).unwrap_or_default());
            addresses.truncate(ADDRESSES);
        }
        let mut ways: Vec<Option<SocketAddr>> = addresses.into_iter().map(Some).collect();
        if ways.is_empty() {
            ways.push(None);
        }
        let mut edges = Vec::new();
        for some in ways.chunks(AT_ONCE) {
            edges.extend(self.ask(some, (place, &host, expected), nonce).await);
        }
        Probe { edges, left_out, took: started.elapsed() }
    }

    /// Asks some addresses at the same time.
    async fn ask(
        &self,
        addresses: &[Option<SocketAddr>],
        (place, host, expected): (Place<'_>, &str, &Expectation),
        nonce: u64,
    ) -> Vec<Edge> {
        let mut tasks = JoinSet::new();
        for (position, address) in addresses.iter().copied().enumerate() {
            let reader = match address {
                Some(address) => self.reader.at(host, address),
                None => Ok(self.reader.clone()),
            };
            let (issuer, base) = (place.issuer.clone(), place.base.map(str::to_owned));
            tasks.spawn(async move {
                (position, address, both_ways(&reader, (&issuer, base.as_deref()), nonce).await)
            });
        }
        let mut answers = tasks.join_all().await;
        answers.sort_by_key(|(position, ..)| *position);
        let edges = answers.into_iter().flat_map(|(_, address, got)| {
            [Way::Plain, Way::PastCaches].into_iter().zip(got).map(move |(way, got)| (address, way, got))
        });
        let unhindered = Expectation { cache: expected.cache, ..Expectation::none() };
        let judged = edges.map(|(address, way, got)| {
            let expected = if way == Way::Plain { expected } else { &unhindered };
            Edge { address, way, report: self.judge(place.issuer, expected, got) }
        });
        judged.collect()
    }
}

async fn both_ways(
    reader: &Result<Reader, VerifierError>,
    (issuer, base): (&IssuerUrl, Option<&str>),
    nonce: u64,
) -> [Got; 2] {
    let place = Place { issuer, base };
    let reader = match reader {
        Ok(reader) => reader,
        Err(error) => {
            let (url, kind) = (place.url(DocumentKind::Discovery), FailureKind::Other(error.to_string()));
            let failure = FetchError { url, kind, elapsed: Duration::ZERO };
            return [(Err(failure.clone()), None), (Err(failure), None)];
        }
    };
    tokio::join!(read(reader, place, None), read(reader, place, Some(nonce))).into()
}

/// The URL of the same document that no cache has an answer for.
pub(super) fn past_caches(url: &str, nonce: u64) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}chancery-probe={nonce}")
}

impl Probe {
    /// The readings as relying parties make them.
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
        all
    }

    /// Whether a question past caches was answered.
    pub fn answers_past_caches(&self) -> bool {
        self.edges.iter().any(|edge| edge.way == Way::PastCaches && edge.statuses() == [Some(200), Some(200)])
    }

    /// What this says about the keys in a view, by the table at the head of this module. `answered_before` is whether
    /// a question past the caches of this view was ever answered.
    pub fn sighting(&self, view: &str, answered_before: bool) -> Sighting {
        let answers = answered_before || self.answers_past_caches();
        let edges = self.edges.iter().filter_map(|edge| Some((edge.to_string(), edge.sight(answers)?)));
        Sighting { view: view.to_owned(), edges: edges.collect(), took: self.took }
    }
}

impl Edge {
    fn statuses(&self) -> [Option<u16>; 2] {
        let status = |kind| self.report.reading.fetched(kind).map(|fetched| fetched.status);
        [status(DocumentKind::Discovery), status(DocumentKind::Jwks)]
    }

    /// What it says about the keys; `None` when the server does not take the question.
    fn sight(&self, answers_past_caches: bool) -> Option<EdgeSight> {
        let refused = self.statuses().into_iter().flatten().any(|status| (400..500).contains(&status));
        if self.way == Way::PastCaches && refused && !answers_past_caches {
            return None;
        }
        for kind in [DocumentKind::Discovery, DocumentKind::Jwks] {
            if let Some(failure) = self.report.reading.failure(kind) {
                return Some(EdgeSight::Unreadable(failure.kind.to_string()));
            }
            match self.report.reading.fetched(kind).map(|fetched| fetched.status) {
                None | Some(200 | 401 | 403 | 404 | 410) => {}
                Some(status) => return Some(EdgeSight::Unreadable(format!("the {kind} answered {status}"))),
            }
        }
        Some(EdgeSight::Read(Seen {
            kids: self.report.visible.iter().cloned().collect(),
            age: self.age(),
            max_age: self.report.max_age,
        }))
    }

    /// How long the older of the two documents had been in a cache.
    fn age(&self) -> Option<Duration> {
        let ages = [DocumentKind::Discovery, DocumentKind::Jwks].into_iter().filter_map(|kind| {
            let age = self.report.reading.fetched(kind)?.headers.age.as_deref()?;
            age.trim().parse().ok().map(Duration::from_secs)
        });
        ages.max()
    }
}
