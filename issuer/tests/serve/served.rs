//! A running server, and a client that writes and reads HTTP as text.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::listener::Connections;
use chancery_core::key::Curve;
use chancery_core::{CachePolicy, DocumentSet, IssuerUrl, Jwks, PublicKey};
use chancery_issuer::conditions::ConditionStore;
use chancery_issuer::metrics::Metrics;
use chancery_issuer::serve::{Documents, HostPolicy, ServeConfig, Server, ServerParts, TlsConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes; only a test that fails waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const ISSUER: &str = "https://id.example.com/cluster-a";
pub const HOST: &str = "id.example.com";
pub const JWKS: &str = "/cluster-a/openid/v1/jwks";
pub const DISCOVERY: &str = "/cluster-a/.well-known/openid-configuration";

/// The base point of P-256 (FIPS 186-4 appendix D.1.2.3), which is a public key like any other.
pub fn documents_of(issuer: &str) -> DocumentSet {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let x = bytes("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296");
    let y = bytes("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5");
    let key = PublicKey::from_ec(Curve::P256, &x, &y).unwrap();
    DocumentSet::new(issuer.parse().unwrap(), Jwks::new([key]).unwrap(), CachePolicy::default())
}

pub fn no_documents(issuers: &[&str]) -> Documents {
    let issuers: Vec<IssuerUrl> = issuers.iter().map(|issuer| issuer.parse().unwrap()).collect();
    Documents::new(HostPolicy::new(&issuers, &[]).unwrap())
}

/// A server that answers, until it is dropped.
pub struct Served {
    pub address: SocketAddr,
    pub documents: Documents,
    pub metrics: Arc<Metrics>,
    pub conditions: Arc<ConditionStore>,
    pub stop: watch::Sender<bool>,
    pub ended: JoinHandle<()>,
}

impl Served {
    /// The reason that is given for how its certificate stands.
    pub fn certificate_reason(&self) -> &'static str {
        let conditions = self.conditions.conditions();
        conditions.iter().find(|it| it.subject.part().ends_with("tls.crt")).map_or("none", |it| it.reason)
    }

    /// Serves [`ISSUER`].
    pub async fn start(tls: Option<TlsConfig>) -> Self {
        let documents = no_documents(&[ISSUER]);
        documents.replace(&[documents_of(ISSUER)]).unwrap();
        Self::start_with(documents, tls).await
    }

    pub async fn start_with(documents: Documents, tls: Option<TlsConfig>) -> Self {
        let config = ServeConfig { listen: "127.0.0.1:0".parse().unwrap(), tls, extra_hosts: Vec::new() };
        let parts = ServerParts {
            documents,
            metrics: Arc::new(Metrics::new("test")),
            conditions: Arc::default(),
            connections: Connections::default(),
        };
        let server = Server::bind(&config, &parts).await.unwrap();
        let address = server.address();
        let (stop, stopped) = watch::channel(false);
        let ended = tokio::spawn(server.run(stopped));
        let ServerParts { documents, metrics, conditions, .. } = parts;
        Self { address, documents, metrics, conditions, stop, ended }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The answer to a request on a connection of its own.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut all = vec![("Host", HOST)];
        if headers.iter().any(|(name, _)| *name == "Host") {
            all.clear();
        }
        all.extend(headers);
        ask(self.connect().await, method, path, &all).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[]).await
    }
}

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Reply {
    /// The first answer in `text`, whose body is what follows.
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not an answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Self { status, headers, body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// Sends one request and reads until the server closes.
pub async fn ask<IO>(mut stream: IO, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all((request + "\r\n").as_bytes()).await.unwrap();
    Reply::parse(&read_to_end(&mut stream).await)
}

pub async fn read_to_end<IO: AsyncRead + Unpin>(stream: &mut IO) -> String {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server to close").unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Tries until `look` finds something.
pub async fn eventually<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let search = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, search).await.expect("it to happen")
}
