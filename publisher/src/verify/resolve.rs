//! Names to addresses, with the caller's own addresses first.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::Addresses;

/// The resolver of this machine, except for the names whose addresses are given.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    given: Arc<Addresses>,
}

impl Resolver {
    pub(super) fn new(given: Addresses) -> Self {
        Self { given: Arc::new(given) }
    }

    /// Whether the name is not looked up.
    pub(super) fn is_given(&self, host: &str) -> bool {
        self.given.of(host).is_some()
    }

    /// Every address of a name.
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<SocketAddr>, NameNotFound> {
        match self.given.of(host) {
            Some(addresses) => Ok(addresses.to_vec()),
            None => look_up(host).await,
        }
    }

    /// The same, where a name has one address alone.
    pub(super) fn with_only(&self, host: &str, address: SocketAddr) -> Self {
        Self::new(self.given.with_only(host, address))
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
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
