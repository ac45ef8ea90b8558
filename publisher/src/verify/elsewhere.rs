//! Reads a key set that the discovery document places at another host, at each address of that host.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Url;

use super::Verifier;
use super::failure::{FailureKind, FetchError};
use super::fetch::{HostAddresses, Reader};
use super::jwks_host::{self, IssuerReach};

/// One way to read it.
#[derive(Clone, Debug)]
pub(super) struct JwksRoute {
    /// The address that is asked; `None` where there is only one way: an address in the URL, a proxy.
    pub address: Option<SocketAddr>,
    pub reader: Reader,
}

/// Why it is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// Nobody should: what leads there is an answer of somebody else.
    Refused(String),
    /// It cannot be found.
    Failed(FetchError),
}

/// Whether a URL is at another host than the issuer's.
pub(super) fn is_at_another_host(url: &str, issuer_host: &str) -> bool {
    !host_of(url).is_some_and(|host| host.eq_ignore_ascii_case(issuer_host))
}

fn host_of(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

impl Verifier {
    /// The ways to read a key set at `url`, at most one for each address of its host. Each goes to the very address that
    /// was judged.
    pub(super) async fn routes_elsewhere(
        &self,
        url: &str,
        issuer: &IssuerReach,
    ) -> Result<Vec<JwksRoute>, NoRoute> {
        let fail = |kind| NoRoute::Failed(FetchError { url: url.to_owned(), kind, elapsed: Duration::ZERO });
        let judge = |host: &str, addresses: &[SocketAddr]| {
            jwks_host::judge(host, addresses, issuer, &self.allowed).map_err(NoRoute::Refused)
        };
        let (host, addresses) = match self.reader.find(url).await {
            HostAddresses::OneWay { host, address } => {
                judge(&host, address.as_slice())?;
                return Ok(vec![JwksRoute { address: None, reader: self.reader.clone() }]);
            }
            HostAddresses::NotFound(reason) => {
                // A name that only a cluster knows is refused, whether or not this machine is in it.
                judge(&host_of(url).unwrap_or_default(), &[])?;
                return Err(fail(FailureKind::NameNotFound(reason)));
            }
            HostAddresses::Given { host, addresses } => (host, addresses),
            HostAddresses::Resolved { host, addresses } => {
                judge(&host, &addresses)?;
                (host, addresses)
            }
        };
        let mut routes = Vec::new();
        for address in addresses {
            let reader = self.reader.at(&host, address);
            let reader = reader.map_err(|error| fail(FailureKind::Other(error.to_string())))?;
            routes.push(JwksRoute { address: Some(address), reader });
        }
        Ok(routes)
    }
}
