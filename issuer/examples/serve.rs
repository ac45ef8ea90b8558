//! The public server alone, with one key, to measure and to look at:
//! `serve ADDRESS ISSUER-URL PUBLIC-KEY.pem [CERTIFICATE.pem PRIVATE-KEY.pem]`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use chancery_core::{CachePolicy, DocumentSet, Jwks, pem};
use chancery_issuer::metrics::Metrics;
use chancery_issuer::serve::{Documents, HostPolicy, ServeConfig, Server, TlsConfig};
use tokio::sync::watch;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name: &str| arguments.next().ok_or(format!("{name} is missing"));
    let listen = next("ADDRESS")?.parse()?;
    let issuer: chancery_core::IssuerUrl = next("ISSUER-URL")?.parse()?;
    let keys = pem::read_public_keys(&std::fs::read_to_string(next("PUBLIC-KEY.pem")?)?).keys;
    let jwks = Jwks::new(keys).ok_or("the file holds no public key")?;
    let tls = match (next("CERTIFICATE.pem"), next("PRIVATE-KEY.pem")) {
        (Ok(certificate), Ok(private_key)) => Some(TlsConfig {
            certificate: PathBuf::from(certificate),
            private_key: PathBuf::from(private_key),
        }),
        _ => None,
    };
    let documents = Documents::new(HostPolicy::new(std::slice::from_ref(&issuer), &[])?)?;
    documents.replace(&[DocumentSet::new(issuer, jwks, CachePolicy::default())])?;
    let config = ServeConfig { listen, tls, extra_hosts: Vec::new() };
    let server = Server::bind(&config, documents, Arc::new(Metrics::new("example"))).await?;
    eprintln!("listening on {}", server.address());
    // Held, so that it runs until it is killed.
    let (_shutdown, never) = watch::channel(false);
    server.run(never).await;
    Ok(())
}
