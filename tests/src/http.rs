//! The HTTP client of the suites.

use std::time::Duration;

use anyhow::Result;

/// A client that trusts `ca_pem` alone, or no one where it is none (for plain HTTP). It takes no proxy from the
/// environment and follows no redirect, so that a test sees what the server said.
pub fn client(ca_pem: Option<&str>) -> Result<reqwest::Client> {
    let roots = match ca_pem {
        Some(pem) => reqwest::Certificate::from_pem_bundle(pem.as_bytes())?,
        None => Vec::new(),
    };
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(20))
        .tls_certs_only(roots)
        .build()?;
    Ok(client)
}
