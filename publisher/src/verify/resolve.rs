//! Names to addresses, with the caller's own addresses first.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The resolver of this machine, except for the names whose address is given.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    given: Arc<BTreeMap<String, SocketAddr>>,
}

impl Resolver {
    pub(super) fn new(given: &BTreeMap<String, SocketAddr>) -> Self {
        let lower = given.iter().map(|(host, address)| (host.to_ascii_lowercase(), *address));
        Self { given: Arc::new(lower.collect()) }
    }

    /// Whether the name is not looked up.
    pub(super) fn is_given(&self, host: &str) -> bool {
        self.given.contains_key(&host.to_ascii_lowercase())
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let given = self.given.get(&name.as_str().to_ascii_lowercase()).copied();
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = match given {
                Some(address) => vec![address],
                None => look_up(name.as_str()).await?,
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

async fn look_up(host: &str) -> Result<Vec<SocketAddr>, NameNotFound> {
    let found = tokio::net::lookup_host((host, 0)).await;
    let addresses: Vec<_> = found.map_err(|error| NameNotFound(error.to_string()))?.collect();
    if addresses.is_empty() { Err(NameNotFound("no A or AAAA record".to_owned())) } else { Ok(addresses) }
}

/// A name without an address.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the host name has no address: {0}")]
pub(super) struct NameNotFound(pub(super) String);
