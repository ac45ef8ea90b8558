//! JWT-SVIDs of other workloads, by SPIFFE's Broker API
//! (<https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Broker_API.md>, incubating).
//!
//! A process that acts for many tenants names the ServiceAccount that it acts for, with its UID, so that one that was made
//! anew under the same name is not taken for it. Both sides prove themselves by X.509-SVIDs: the agent looks who may be a
//! broker, and we, that it is the agent that answers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use chancery_files::{Bounds, FileError, read_secret_blocking, within as within_time};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::{Code, Status};
use zeroize::Zeroizing;

use self::peer::Peer;
use super::{Call, JwtSvidResponse, SpiffeId, WorkloadSocket, failure, within, without_audience};
use crate::error::{Class, ExchangeError};
use crate::key::KeyBuilder;
use crate::limits;
use crate::service_account::ServiceAccount;
use crate::subject::{Environment, SubjectTokenSource, missing};
use crate::token::UnverifiedToken;

mod peer;

/// Where an agent listens for brokers (SPIFFE Broker Endpoint, section 4).
const VARIABLE: &str = "SPIFFE_BROKER_SOCKET";
/// The largest file of certificates, in bytes.
const CERTIFICATES: usize = 256 * 1024;
const REFERENCE: &str = "type.googleapis.com/spiffe.broker.KubernetesObjectReference";
const FETCH: Call = Call { path: "/spiffe.broker.API/FetchJWTSVID", header: "broker.spiffe.io" };

/// By which the broker proves itself, and knows the agent. The files are read for each call: SVIDs live an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerIdentity {
    /// The broker's own X.509-SVID, PEM, the leaf first.
    pub certificate: PathBuf,
    /// Its private key, PEM (PKCS#8).
    pub key: PathBuf,
    /// The authorities of the trust domain, PEM. Nobody else's are believed.
    pub bundle: PathBuf,
    /// The agent's SPIFFE id.
    pub agent: SpiffeId,
}

/// JWT-SVIDs of a ServiceAccount's workloads.
#[derive(Clone, Debug)]
pub struct BrokerApi {
    socket: WorkloadSocket,
    identity: BrokerIdentity,
    account: ServiceAccount,
    wanted: Option<SpiffeId>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct FetchJwtSvidRequest {
    #[prost(message, optional, tag = "1")]
    reference: Option<WorkloadReference>,
    #[prost(string, repeated, tag = "2")]
    audience: Vec<String>,
    #[prost(string, tag = "3")]
    spiffe_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct WorkloadReference {
    #[prost(message, optional, tag = "1")]
    reference: Option<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ObjectReference {
    #[prost(message, optional, tag = "1")]
    kind: Option<ObjectType>,
    #[prost(message, optional, tag = "2")]
    key: Option<ObjectKey>,
    #[prost(string, tag = "3")]
    uid: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ObjectType {
    #[prost(string, tag = "1")]
    plural: String,
    #[prost(string, tag = "2")]
    group: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ObjectKey {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    name: String,
}

impl BrokerApi {
    /// The agent that `SPIFFE_BROKER_SOCKET` names, for the workloads of a ServiceAccount as it was read.
    ///
    /// # Errors
    /// When the variable is not set or names another machine, or the ServiceAccount has no UID.
    pub fn new(
        environment: &Environment,
        identity: BrokerIdentity,
        account: ServiceAccount,
        wanted: Option<SpiffeId>,
    ) -> Result<Self, ExchangeError> {
        let socket = environment.text(VARIABLE).ok_or_else(|| {
            missing("workload-api-unknown")
                .came(&format!("the variable {VARIABLE} is not set"))
                .expected("unix:///PATH, where SPIFFE's agent listens for brokers")
                .remedy("mount the agent's broker socket into the pod, and name it in the variable")
        })?;
        if account.uid.is_empty() {
            return Err(ExchangeError::configuration("broker-reference")
                .came(&format!("{} without its UID", account.name))
                .expected("the UID as well: one of this name that is made anew is another"));
        }
        Ok(Self { socket: socket.parse()?, identity, account, wanted })
    }

    fn request(&self, audience: &str) -> FetchJwtSvidRequest {
        let name = &self.account.name;
        let reference = ObjectReference {
            kind: Some(ObjectType { plural: "serviceaccounts".to_owned(), group: "core".to_owned() }),
            key: Some(ObjectKey { namespace: name.namespace().to_owned(), name: name.name().to_owned() }),
            uid: self.account.uid.clone(),
        };
        let value = prost::Message::encode_to_vec(&reference);
        let reference = Any { type_url: REFERENCE.to_owned(), value };
        FetchJwtSvidRequest {
            reference: Some(WorkloadReference { reference: Some(reference) }),
            audience: vec![audience.to_owned()],
            spiffe_id: self.wanted.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }

    async fn fetch(&self, audience: &str) -> Result<JwtSvidResponse, ExchangeError> {
        let connector = TlsConnector::from(Arc::new(self.identity.config().await?));
        let request = self.request(audience);
        match &self.socket {
            WorkloadSocket::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.unreached(&error))?;
                self.ask(connector, stream, request).await
            }
            WorkloadSocket::Loopback(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.unreached(&error))?;
                self.ask(connector, stream, request).await
            }
        }
    }

    async fn ask<S>(
        &self,
        connector: TlsConnector,
        stream: S,
        request: FetchJwtSvidRequest,
    ) -> Result<JwtSvidResponse, ExchangeError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // Who answers is told by the id in its certificate; this name is neither sent nor looked at.
        let name = ServerName::try_from("agent").map_err(|error| unusable(&error))?;
        let stream = connector.connect(name, stream).await.map_err(|error| self.unproven(&error))?;
        FETCH.call(stream, request).await.map_err(|status| self.refused(&status))
    }

    fn unreached(&self, error: &std::io::Error) -> ExchangeError {
        failure(Class::Transient, "workload-api-unreached")
            .came(&format!("{}: {error}", self.socket))
            .expected("SPIFFE's agent listening there for brokers")
            .remedy("enable the Broker API in the agent, mount its socket, and let this user connect to it")
    }

    fn unproven(&self, error: &std::io::Error) -> ExchangeError {
        failure(Class::Source, "broker-unproven")
            .came(&format!("{}: {error}", self.socket))
            .expected(format!("mutual TLS with {}, by the authorities of the bundle", self.identity.agent))
            .remedy("check the id of the agent, the bundle, and that this broker's X.509-SVID has not ended")
    }

    /// What a refusal means (Broker API, section 6; Broker Endpoint, section 6).
    fn refused(&self, status: &Status) -> ExchangeError {
        let (class, code, remedy) = match status.code() {
            Code::InvalidArgument => (
                Class::Permanent,
                "broker-reference",
                "the agent resolves no ServiceAccounts: enable Kubernetes' references in it",
            ),
            Code::NotFound => (
                Class::Source,
                "broker-workload-gone",
                "the ServiceAccount is gone or was made anew: drop what was given for it",
            ),
            // An entry takes some seconds to reach the agent.
            Code::PermissionDenied => (
                Class::Transient,
                "workload-api-no-identity",
                "register the workload at its SPIFFE server, and this broker at the agent",
            ),
            Code::Unauthenticated => {
                (Class::Source, "broker-unproven", "have the X.509-SVID of this broker renewed")
            }
            Code::ResourceExhausted => (Class::Throttled, "throttled", "ask less often"),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => {
                (Class::Transient, "workload-api-unreached", "try again a little later")
            }
            _ => (Class::Source, "workload-api-refused", "look into the agent's log"),
        };
        failure(class, code)
            .came(&format!("the Broker API refused {}: {}", self.account.name, status.message()))
            .provider_code(Some(&format!("{:?}", status.code())))
            .remedy(remedy)
    }
}

impl BrokerIdentity {
    async fn config(&self) -> Result<ClientConfig, ExchangeError> {
        let this = self.clone();
        let read = tokio::task::spawn_blocking(move || this.read());
        let (chain, key, bundle) = read.await.map_err(|error| unusable(&error))??;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let peer = Peer::new(bundle, self.agent.as_str(), &provider).map_err(|error| unusable(&error))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(peer))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        config.enable_sni = false;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn read(&self) -> Result<Material, ExchangeError> {
        let certificates = |path: &PathBuf| {
            let bytes = self.file(path)?;
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
            found.map_err(|error| unusable(&format!("{}: {error}", path.display())))
        };
        let key = PrivateKeyDer::from_pem_slice(&self.file(&self.key)?);
        // What the parser says may repeat a part of the key.
        let key = key.map_err(|_| unusable(&format!("{} holds no private key", self.key.display())))?;
        Ok((certificates(&self.certificate)?, key, certificates(&self.bundle)?))
    }

    fn file(&self, path: &PathBuf) -> Result<Zeroizing<Vec<u8>>, ExchangeError> {
        let place = path.clone();
        let bounds = Bounds::regular(CERTIFICATES, limits::FILE);
        let read = within_time(limits::FILE, "read", path, move || read_secret_blocking(&place, bounds));
        let read = read.map_err(|error: FileError| unusable(&error))?;
        if *path == self.key && read.readable_by_others {
            return Err(unusable(&format!("{} can be read by others; chmod 600 it", path.display())));
        }
        Ok(read.bytes)
    }
}

type Material = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, Vec<CertificateDer<'static>>);

fn unusable(why: &dyn fmt::Display) -> ExchangeError {
    missing("broker-identity")
        .came(&why.to_string())
        .expected("an X.509-SVID, its key and the bundle of its trust domain, as PEM files")
        .remedy("have spiffe-helper or a CSI driver write them")
}

#[async_trait]
impl SubjectTokenSource for BrokerApi {
    fn origin(&self) -> String {
        format!("the Broker API at {} for {}", self.socket, self.account.name)
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        let name = &self.account.name;
        key.text("source", "spiffe-broker")
            .text("socket", &self.socket.to_string())
            .text("agent", self.identity.agent.as_str())
            .text("namespace", name.namespace())
            .text("service_account", name.name())
            .text("uid", &self.account.uid)
            .optional("spiffe_id", self.wanted.as_ref().map(SpiffeId::as_str));
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        if audience.is_empty() {
            return Err(without_audience());
        }
        let given = within(&self.socket.to_string(), self.fetch(audience)).await?;
        given.choose(self.wanted.as_ref(), &self.origin())
    }
}
