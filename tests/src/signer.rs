//! `chancery signer` as a separate process, and a client of it that is not kube-apiserver.
//!
//! The client's messages are written down here a second time, from the specification (KEP-740): what both sides of ours
//! understood alike and wrongly, a real kube-apiserver would tell.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::binary;
use crate::process::{Process, READY, mortal};
use crate::scratch::Scratch;

/// How long a draining signer may take.
const DRAIN: Duration = Duration::from_secs(30);

/// A running `chancery signer`. Killed on drop, as every [`Process`].
#[derive(Debug)]
pub struct SignerProcess {
    process: Process,
    socket: PathBuf,
}

impl SignerProcess {
    /// Starts `chancery signer --socket DIR/signer.sock --issuer ISSUER` with further arguments, and its log in `dir`.
    /// Returns when it answers.
    pub async fn start(dir: &Scratch, issuer: &str, arguments: &[&str]) -> Result<Self> {
        let mut signer = Self::spawn(dir, issuer, arguments)?;
        let socket = signer.socket.clone();
        signer.process.ready(READY, async || UnixStream::connect(&socket).await.is_ok()).await?;
        Ok(signer)
    }

    /// The same without waiting for it.
    pub fn spawn(dir: &Scratch, issuer: &str, arguments: &[&str]) -> Result<Self> {
        let socket = dir.join("signer.sock");
        let mut command = mortal(&binary::chancery()?);
        command.arg("signer").arg("--socket").arg(&socket).args(["--issuer", issuer]).args(arguments);
        let process = Process::start("chancery signer", command, &dir.join("signer.log"))?;
        Ok(Self { process, socket })
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The running program.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// A new connection to it.
    pub async fn client(&self, package: &'static str) -> Result<SignerClient> {
        SignerClient::connect(&self.socket, package).await
    }

    /// SIGTERM, and the exit code after it has drained.
    pub async fn terminate(&mut self) -> Result<Option<i32>> {
        self.process.signal(Signal::TERM)?;
        Ok(self.process.exit(DRAIN).await?.code())
    }

    /// SIGKILL: the end of a node.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }
}

/// `SignJWTRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignRequest {
    /// Encoded claims.
    #[prost(string, tag = "1")]
    pub claims: String,
}

/// `SignJWTResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignResponse {
    /// Encoded header.
    #[prost(string, tag = "1")]
    pub header: String,
    /// Encoded signature.
    #[prost(string, tag = "2")]
    pub signature: String,
}

/// `FetchKeysResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FetchedKeys {
    /// Its keys.
    #[prost(message, repeated, tag = "1")]
    pub keys: Vec<FetchedKey>,
    /// When they were confirmed.
    #[prost(message, optional, tag = "2")]
    pub data_timestamp: Option<FetchedTime>,
    /// After how long to ask again.
    #[prost(int64, tag = "3")]
    pub refresh_hint_seconds: i64,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FetchedKey {
    /// Its id.
    #[prost(string, tag = "1")]
    pub key_id: String,
    /// PKIX DER.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    /// Whether the JWKS leaves it out.
    #[prost(bool, tag = "3")]
    pub exclude_from_oidc_discovery: bool,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FetchedTime {
    /// Since 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Of the second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// `FetchKeysRequest` and `MetadataRequest`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Nothing {}

/// `MetadataResponse`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MetadataAnswer {
    /// The longest lifetime.
    #[prost(int64, tag = "1")]
    pub max_token_expiration_seconds: i64,
}

/// A gRPC client of a signer, for one of the packages `v1` and `v1alpha1`. Clones share a connection.
#[derive(Clone, Debug)]
pub struct SignerClient {
    channel: Channel,
    package: &'static str,
}

impl SignerClient {
    /// Connects to a socket.
    pub async fn connect(socket: &Path, package: &'static str) -> Result<Self> {
        let socket = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await;
        Ok(Self { channel: channel.context("connect to a signer")?, package })
    }

    /// `Sign`.
    pub async fn sign(&self, claims: &str) -> Result<SignResponse, Status> {
        self.call("Sign", SignRequest { claims: claims.to_owned() }).await
    }

    /// `FetchKeys`.
    pub async fn fetch_keys(&self) -> Result<FetchedKeys, Status> {
        self.call("FetchKeys", Nothing {}).await
    }

    /// `Metadata`.
    pub async fn metadata(&self) -> Result<i64, Status> {
        let answer: MetadataAnswer = self.call("Metadata", Nothing {}).await?;
        Ok(answer.max_token_expiration_seconds)
    }

    /// Any method, existing or not.
    pub async fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let path = format!("/{}.ExternalJWTSigner/{method}", self.package);
        let path = path.parse().map_err(|_| Status::internal("no path"))?;
        let mut client = Grpc::new(self.channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let answer = client.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }
}
