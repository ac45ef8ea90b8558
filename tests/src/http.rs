//! The HTTP client of the suites.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Result;

/// A client that trusts `ca_pem` alone, or no one where it is none (for plain HTTP). It takes no proxy from the
/// environment and follows no redirect, so that a test sees what the server said.
pub fn client(ca_pem: Option<&str>) -> Result<reqwest::Client> {
    Ok(builder(ca_pem)?.build()?)
}

/// A client that trusts `ca_pem` alone, and that reaches `host` at `address`, whatever its name resolves to.
pub fn client_of(ca_pem: &str, host: &str, address: IpAddr) -> Result<reqwest::Client> {
    // The port is taken from the URL.
    Ok(builder(Some(ca_pem))?.resolve(host, SocketAddr::new(address, 0)).build()?)
}

/// The same as [`client`], to be configured further.
pub fn builder(ca_pem: Option<&str>) -> Result<reqwest::ClientBuilder> {
    let roots = match ca_pem {
        Some(pem) => reqwest::Certificate::from_pem_bundle(pem.as_bytes())?,
        None => Vec::new(),
    };
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(20))
        .tls_certs_only(roots);
    Ok(builder)
}
