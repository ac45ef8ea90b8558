//! Names to addresses, in bounded time, with the caller's own addresses first.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::limits::LOOK_UP;

/// Addresses given for hosts, any number for each. The port counts only for a URL that names none; 0 is then the
/// scheme's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenAddresses(BTreeMap<String, Vec<SocketAddr>>);

impl GivenAddresses {
    /// Adds one more address of `host`.
    pub fn insert(&mut self, host: impl AsRef<str>, address: SocketAddr) {
        let addresses = self.0.entry(host.as_ref().to_ascii_lowercase()).or_default();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    /// The addresses of a host, if any were given.
    pub fn of(&self, host: &str) -> Option<&[SocketAddr]> {
        self.0.get(&host.to_ascii_lowercase()).map(Vec::as_slice)
    }

    /// The same, where `host` has this address alone.
    #[must_use]
    pub fn with_only(&self, host: &str, address: SocketAddr) -> Self {
        let mut addresses = self.clone();
        addresses.0.insert(host.to_ascii_lowercase(), vec![address]);
        addresses
    }
}

impl<const N: usize> From<[(String, SocketAddr); N]> for GivenAddresses {
    fn from(given: [(String, SocketAddr); N]) -> Self {
        let mut addresses = Self::default();
        given.into_iter().for_each(|(host, address)| addresses.insert(host, address));
        addresses
    }
}

/// The name service of this machine, except for the names whose addresses are given.
#[derive(Clone, Debug, Default)]
pub struct Resolver {
    given: Arc<GivenAddresses>,
}

impl Resolver {
    /// A resolver that looks up what is not given.
    pub fn new(given: GivenAddresses) -> Self {
        Self { given: Arc::new(given) }
    }

    /// What is given.
    pub fn given(&self) -> &GivenAddresses {
        &self.given
    }

    /// Every address of a name, with port 0 where it was looked up. Takes [`LOOK_UP`] at most.
    ///
    /// # Errors
    /// When it has none, or the name service does not answer in time.
    pub async fn addresses(&self, host: &str) -> Result<Vec<SocketAddr>, NameNotFound> {
        if let Some(addresses) = self.given.of(host) {
            return Ok(addresses.to_vec());
        }
        let mut found = within(LOOK_UP, tokio::net::lookup_host((host, 0))).await?.collect::<Vec<_>>();
        if host.eq_ignore_ascii_case("localhost") {
            // What may be sent to it in the clear must stay on this machine (RFC 6761 section 6.3).
            found.retain(|address| address.ip().is_loopback());
        }
        if found.is_empty() { Err(NameNotFound("no A or AAAA record".to_owned())) } else { Ok(found) }
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

/// A look-up that gives up. The operating system's own goes on in its thread, which nobody waits for.
async fn within<T>(limit: Duration, look_up: impl Future<Output = io::Result<T>>) -> Result<T, NameNotFound> {
    match tokio::time::timeout(limit, look_up).await {
        Ok(found) => found.map_err(|error| NameNotFound(error.to_string())),
        Err(_) => Err(NameNotFound(format!("the name service did not answer in {} s", limit.as_secs()))),
    }
}

/// A name without an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host name has no address: {0}")]
pub struct NameNotFound(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_name_service_that_never_answers_is_given_up() {
        let started = tokio::time::Instant::now();
        let error = within(LOOK_UP, std::future::pending::<io::Result<()>>()).await.unwrap_err();
        assert!(error.to_string().contains("did not answer in 5 s"), "{error}");
        assert_eq!(started.elapsed(), LOOK_UP);
    }

    #[tokio::test]
    async fn given_addresses_come_first_in_any_case() {
        let address: SocketAddr = "192.0.2.7:443".parse().unwrap();
        let resolver = Resolver::new([("ID.example.com".to_owned(), address)].into());
        assert_eq!(resolver.addresses("id.EXAMPLE.com").await, Ok(vec![address]));
        let other: SocketAddr = "192.0.2.8:443".parse().unwrap();
        assert_eq!(
            resolver.given().with_only("id.example.COM", other).of("id.example.com"),
            Some(&[other][..])
        );
    }
}
