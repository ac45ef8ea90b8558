//! The requests of a probe: the discovery document at each address of the issuer's host, and the key set there, or at
//! each address of the host where the discovery document places it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use chancery_core::DocumentKind;
use tokio::task::JoinSet;

use super::{Way, leave_out};
use crate::verify::elsewhere::{JwksRoute, NoRoute};
use crate::verify::failure::{FailureKind, FetchError};
use crate::verify::fetch::{FetchedDocument, Reader};
use crate::verify::jwks_host::IssuerReach;
use crate::verify::report::DocumentFetches;
use crate::verify::{IssuerPlace, Verifier, direct_peer};

/// How many addresses are asked at the same time.
const AT_ONCE: usize = 8;
/// How many places of the key set are followed: each address of the issuer's host may name another one.
const PLACES: usize = 4;

const WAYS: [Way; 2] = [Way::Plain, Way::PastCaches];

type FetchResult = Result<FetchedDocument, FetchError>;

/// What one probe reads: a place, with a number that no probe had before.
#[derive(Clone, Copy)]
pub(super) struct ProbeTask<'a> {
    pub place: IssuerPlace<'a>,
    pub nonce: u64,
}

/// Both documents, read one way.
pub(super) struct RouteRead {
    pub address: Option<SocketAddr>,
    pub keys_at: Option<SocketAddr>,
    pub way: Way,
    pub fetches: DocumentFetches,
}

/// Everything that was read.
pub(super) struct EverywhereRead {
    pub routes: Vec<RouteRead>,
    pub left_out: usize,
}

/// What an address of the issuer's host answered, and where the key set is that is not there as well.
struct AddressRead {
    route: RouteRead,
    elsewhere: Option<String>,
}

/// A key set at one address of another host, as caches answer there and past them.
#[derive(Clone)]
struct KeysRead {
    address: Option<SocketAddr>,
    ways: [FetchResult; 2],
}

/// The key set at another host: at each of its addresses, or why not.
type KeysElsewhere = Result<Vec<KeysRead>, NoRoute>;

impl Verifier {
    /// Reads both documents at each of the addresses of `host`.
    pub(super) async fn read_everywhere(
        &self,
        task: ProbeTask<'_>,
        host: &str,
        addresses: &[Option<SocketAddr>],
    ) -> EverywhereRead {
        let ProbeTask { place, nonce } = task;
        let readers = addresses.iter().map(|address| match address {
            Some(address) => self.reader.at(host, *address).unwrap_or_else(|_| self.reader.clone()),
            None => self.reader.clone(),
        });
        let readers: Vec<Reader> = readers.collect();
        let discovery = place.url(DocumentKind::Discovery);
        let documents = read_both_ways(&readers, &discovery, nonce).await;
        let mut reads = Vec::new();
        for (position, documents) in documents.into_iter().enumerate() {
            let address = addresses.get(position).copied().flatten();
            let reads_here = WAYS.into_iter().zip(documents).map(|(way, discovery)| {
                let route = RouteRead { address, keys_at: None, way, fetches: self.fetched(discovery) };
                let url = place.jwks_url(&route.fetches);
                (position, route, url)
            });
            reads.extend(reads_here);
        }
        let here = read_keys_here(task, &readers, reads).await;
        self.add_keys_elsewhere(task, here).await
    }

    /// Reads the key sets that are at other hosts, and gives each address of such a host at least one route.
    async fn add_keys_elsewhere(&self, task: ProbeTask<'_>, reads: Vec<AddressRead>) -> EverywhereRead {
        let ProbeTask { place, nonce } = task;
        let peers = reads.iter().filter_map(|read| direct_peer(read.route.fetches.discovery.as_ref().ok()?));
        let issuer = IssuerReach::new(place.issuer.host(), peers);
        let mut places: BTreeMap<String, KeysElsewhere> = BTreeMap::new();
        let mut left_out = 0;
        for url in reads.iter().filter_map(|read| read.elsewhere.as_deref()) {
            if places.contains_key(url) || places.len() >= PLACES {
                continue;
            }
            let keys = match self.routes_elsewhere(url, &issuer).await {
                Ok(mut routes) => {
                    left_out += leave_out(&mut routes, nonce);
                    Ok(read_keys(routes, url, nonce).await)
                }
                Err(problem) => Err(problem),
            };
            places.insert(url.to_owned(), keys);
        }
        EverywhereRead { routes: join(reads, &places), left_out }
    }
}

/// Reads the key set at the addresses where the discovery document came from.
async fn read_keys_here(
    task: ProbeTask<'_>,
    readers: &[Reader],
    reads: Vec<(usize, RouteRead, Option<String>)>,
) -> Vec<AddressRead> {
    let ProbeTask { place, nonce } = task;
    let mut all = Vec::new();
    let mut waiting: Vec<_> = reads.into_iter().rev().collect();
    while !waiting.is_empty() {
        let chunk = waiting.split_off(waiting.len().saturating_sub(2 * AT_ONCE));
        let mut tasks = JoinSet::new();
        for (order, (position, mut route, url)) in chunk.into_iter().rev().enumerate() {
            let elsewhere = url.clone().filter(|url| place.is_elsewhere(url));
            let (reader, url) = (readers.get(position).cloned(), url.filter(|_| elsewhere.is_none()));
            tasks.spawn(async move {
                if let (Some(reader), Some(url)) = (reader, url) {
                    route.fetches.jwks = Some(reader.get(&asked(&url, route.way, nonce)).await);
                }
                (order, AddressRead { route, elsewhere })
            });
        }
        let mut read = tasks.join_all().await;
        read.sort_by_key(|(order, _)| *order);
        all.extend(read.into_iter().map(|(_, read)| read));
    }
    all
}

/// The URL of a document, with a query where the answer must not come from a cache.
fn asked(url: &str, way: Way, nonce: u64) -> String {
    match way {
        Way::Plain => url.to_owned(),
        Way::PastCaches => {
            let separator = if url.contains('?') { '&' } else { '?' };
            format!("{url}{separator}chancery-probe={nonce}")
        }
    }
}

async fn read_keys(routes: Vec<JwksRoute>, url: &str, nonce: u64) -> Vec<KeysRead> {
    let readers: Vec<Reader> = routes.iter().map(|route| route.reader.clone()).collect();
    let read = read_both_ways(&readers, url, nonce).await;
    routes.iter().zip(read).map(|(route, ways)| KeysRead { address: route.address, ways }).collect()
}

/// Reads one document with each of the readers, plain and past caches.
async fn read_both_ways(readers: &[Reader], url: &str, nonce: u64) -> Vec<[FetchResult; 2]> {
    let mut all = Vec::new();
    for some in readers.chunks(AT_ONCE) {
        let mut tasks = JoinSet::new();
        for (order, reader) in some.iter().cloned().enumerate() {
            let [plain, past] = WAYS.map(|way| asked(url, way, nonce));
            tasks.spawn(async move {
                let answers: [FetchResult; 2] = tokio::join!(reader.get(&plain), reader.get(&past)).into();
                (order, answers)
            });
        }
        let mut read = tasks.join_all().await;
        read.sort_by_key(|(order, _)| *order);
        all.extend(read.into_iter().map(|(_, answers)| answers));
    }
    all
}

/// Gives each route its key set. A host of key sets with more addresses than there are routes to it gets more routes.
fn join(reads: Vec<AddressRead>, places: &BTreeMap<String, KeysElsewhere>) -> Vec<RouteRead> {
    let mut routes = Vec::new();
    let mut taken: BTreeMap<(String, Way), usize> = BTreeMap::new();
    let mut more = Vec::new();
    for AddressRead { mut route, elsewhere } in reads {
        if let Some(url) = elsewhere {
            let number = taken.entry((url.clone(), route.way)).or_default();
            let keys = places.get(&url);
            add(&mut route, &url, keys, *number);
            *number += 1;
            more.push((url, RouteRead { fetches: route.fetches.clone(), ..route }));
        }
        routes.push(route);
    }
    for (url, route) in more {
        let Some(next) = taken.get_mut(&(url.clone(), route.way)) else { continue };
        let keys = places.get(&url);
        let addresses = keys.and_then(|keys| keys.as_ref().ok()).map_or(0, Vec::len);
        while *next < addresses {
            let mut another = RouteRead { fetches: route.fetches.clone(), ..route };
            add(&mut another, &url, keys, *next);
            *next += 1;
            routes.push(another);
        }
    }
    routes
}

/// Adds the key set that is at the address of this `number`, counted round.
fn add(route: &mut RouteRead, url: &str, keys: Option<&KeysElsewhere>, number: usize) {
    match keys {
        Some(Ok(keys)) => {
            let keys = number.checked_rem(keys.len()).and_then(|position| keys.get(position));
            let [plain, past] = match keys {
                Some(keys) => keys.ways.clone(),
                None => return,
            };
            route.keys_at = keys.and_then(|keys| keys.address);
            route.fetches.jwks = Some(if route.way == Way::Plain { plain } else { past });
        }
        Some(Err(NoRoute::Failed(error))) => route.fetches.jwks = Some(Err(error.clone())),
        Some(Err(NoRoute::Refused(why))) => route.fetches.jwks_refused = Some(why.clone()),
        None => {
            let why = format!("the addresses of the host name more than {PLACES} places for it");
            let kind = FailureKind::Other(why);
            route.fetches.jwks = Some(Err(FetchError { url: url.to_owned(), kind, elapsed: Duration::ZERO }));
        }
    }
}
