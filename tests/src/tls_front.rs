//! TLS in front of a server that speaks none.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::authority::ServerCertificate;
use crate::listening::Listening;

/// A running front. Its connections end when it is dropped.
#[derive(Debug)]
pub struct TlsFront {
    url: String,
    _listening: Listening,
}

impl TlsFront {
    /// A front of `upstream`, `http://HOST:PORT`, on a free port of 127.0.0.1.
    pub async fn start(upstream: &str, certificate: &ServerCertificate) -> Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), upstream, certificate).await
    }

    /// The same at an address of this machine.
    pub async fn start_at(
        address: SocketAddr,
        upstream: &str,
        certificate: &ServerCertificate,
    ) -> Result<Self> {
        let acceptor = certificate.acceptor()?;
        let upstream = upstream.strip_prefix("http://").context("a front of http:// alone")?.to_owned();
        let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
        let url = format!("https://{}", listener.local_addr()?);
        let listening = Listening::on(listener, move |stream| {
            let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
            async move {
                // An error is a client that does not believe the certificate, or an end that has gone.
                let _ = pass(acceptor, stream, &upstream).await;
            }
        });
        Ok(Self { url, _listening: listening })
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn pass(acceptor: TlsAcceptor, stream: TcpStream, upstream: &str) -> Result<()> {
    let mut client = acceptor.accept(stream).await?;
    let mut server = TcpStream::connect(upstream).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
