//! TLS in front of a server that speaks none.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::authority::ServerCertificate;

/// A running front. Its connections end when it is dropped.
#[derive(Debug)]
pub struct TlsFront {
    url: String,
    accepting: JoinHandle<()>,
}

impl TlsFront {
    /// A front of `upstream`, `http://HOST:PORT`, on a free port of 127.0.0.1.
    pub async fn start(upstream: &str, certificate: &ServerCertificate) -> Result<Self> {
        let acceptor = acceptor(&certificate.cert, &certificate.key)?;
        let upstream = upstream.strip_prefix("http://").context("a front of http:// alone")?.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}", listener.local_addr()?);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
                connections.spawn(async move {
                    // An error is a client that does not believe the certificate, or an end that has gone.
                    let _ = pass(acceptor, stream, &upstream).await;
                });
            }
        });
        Ok(Self { url, accepting })
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(acceptor: TlsAcceptor, stream: TcpStream, upstream: &str) -> Result<()> {
    let mut client = acceptor.accept(stream).await?;
    let mut server = TcpStream::connect(upstream).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
