//! SPIFFE's Broker API, as an agent answers: by mutual TLS alone, to a broker that it knows, for a ServiceAccount whose
//! name and UID both fit.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use chancery_exchange::chain::Identity;
use chancery_exchange::provider::{Direct, Provider};
use chancery_exchange::service_account::ServiceAccount;
use chancery_exchange::subject::{BrokerApi, BrokerIdentity, Environment};
use chancery_exchange::{Chain, Class, SubjectTokenSource};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::aws::runner;
use crate::fake::issuer::{SPIFFE_ID, claims, typed, verify};
use crate::workload_api::{Given, Svid};

const AUDIENCE: &str = "https://as.example/";
const AGENT: &str = "spiffe://example.org/spire/agent";
const BROKER: &str = "spiffe://example.org/ns/tenants/sa/broker";

/// `FetchJWTSVIDRequest` of brokerapi.proto, and what is within.
#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(message, optional, tag = "1")]
    reference: Option<Reference>,
    #[prost(string, repeated, tag = "2")]
    audience: Vec<String>,
    #[prost(string, tag = "3")]
    spiffe_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Reference {
    #[prost(message, optional, tag = "1")]
    any: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Object {
    #[prost(message, optional, tag = "1")]
    kind: Option<Pair>,
    #[prost(message, optional, tag = "2")]
    key: Option<Pair>,
    #[prost(string, tag = "3")]
    uid: String,
}

/// `KubernetesObjectType` and `KubernetesObjectKey`.
#[derive(Clone, PartialEq, prost::Message)]
struct Pair {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
}

/// An agent, as it answers one connection.
#[derive(Clone)]
struct Agent {
    /// Who has proven itself on the connection.
    client: String,
    typ: &'static str,
    asked: Arc<Mutex<Vec<Object>>>,
}

impl Agent {
    fn answer(&self, request: &tonic::Request<Asked>) -> Result<Given, Status> {
        if request.metadata().get("broker.spiffe.io").is_none_or(|value| value != "true") {
            return Err(Status::invalid_argument("security header missing from request"));
        }
        if self.client != BROKER {
            return Err(Status::permission_denied("no broker of this agent"));
        }
        let asked = request.get_ref();
        let [audience] = asked.audience.as_slice() else {
            return Err(Status::invalid_argument("audience must be specified"));
        };
        let any = asked.reference.clone().and_then(|reference| reference.any).unwrap_or_default();
        if any.type_url != "type.googleapis.com/spiffe.broker.KubernetesObjectReference" {
            return Err(Status::invalid_argument("WORKLOAD_REFERENCE_INVALID"));
        }
        let object = Object::decode(any.value.as_slice())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.asked.lock().unwrap().push(object.clone());
        let pair =
            |first: &str, second: &str| Some(Pair { first: first.to_owned(), second: second.to_owned() });
        let known = Object {
            kind: pair("serviceaccounts", "core"),
            key: pair("team-a", "app"),
            uid: "u-1".to_owned(),
        };
        if object != known {
            return Err(Status::not_found("WORKLOAD_NOT_FOUND"));
        }
        let mut claims = claims(audience);
        claims["sub"] = SPIFFE_ID.into();
        let svid =
            Svid { spiffe_id: SPIFFE_ID.to_owned(), svid: typed(self.typ, &claims), ..Svid::default() };
        Ok(Given { svids: vec![svid] })
    }
}

impl UnaryService<Asked> for Agent {
    type Response = Given;
    type Future = Ready<Result<tonic::Response<Given>, Status>>;

    fn call(&mut self, request: tonic::Request<Asked>) -> Self::Future {
        ready(self.answer(&request).map(tonic::Response::new))
    }
}

/// A trust domain with the files of two of its X.509-SVIDs.
struct Domain {
    issuer: Issuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Domain {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bundle.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// The files of an X.509-SVID, as an agent's helper writes them.
    fn svid(&self, name: &str, ids: &[&str]) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = ids.iter().map(|id| SanType::URI((*id).try_into().unwrap())).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        std::fs::write(path("pem"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        std::fs::set_permissions(path("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        (path("pem"), path("key"))
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("bundle.pem")
    }

    fn identity(&self, name: &str, id: &str) -> BrokerIdentity {
        let (certificate, key) = self.svid(name, &[id]);
        BrokerIdentity { certificate, key, bundle: self.bundle(), agent: AGENT.parse().unwrap() }
    }
}

struct Running {
    socket: PathBuf,
    asked: Arc<Mutex<Vec<Object>>>,
    task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

fn acceptor(domain: &Domain, ids: &[&str]) -> TlsAcceptor {
    let certificates = |path: &Path| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
    };
    let (certificate, key) = domain.svid("agent", ids);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificates(&domain.bundle()).remove(0)).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(certificates(&certificate), PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

impl Running {
    /// An agent of these ids, whose tokens are of this type.
    fn start(domain: &Domain, ids: &[&str], typ: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("broker.sock");
        let (listener, acceptor) = (UnixListener::bind(&socket).unwrap(), acceptor(domain, ids));
        let asked = Arc::<Mutex<Vec<Object>>>::default();
        let recorded = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, asked) = (acceptor.clone(), recorded.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
                    let certificate = webpki::EndEntityCert::try_from(&certificate).unwrap();
                    let client = certificate.valid_uri_names().next().unwrap_or_default().to_owned();
                    let agent = Agent { client, typ, asked };
                    let service = service_fn(move |request: hyper::Request<Incoming>| {
                        let agent = agent.clone();
                        async move {
                            if request.uri().path() != "/spiffe.broker.API/FetchJWTSVID" {
                                return Ok(Status::new(Code::Unimplemented, "unknown call").into_http());
                            }
                            let mut grpc = Grpc::new(ProstCodec::<Given, Asked>::default());
                            Ok::<_, Infallible>(grpc.unary(agent, request).await)
                        }
                    });
                    let server = http2::Builder::new(TokioExecutor::new());
                    _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { socket, asked, task, _folder: folder }
    }

    fn source(&self, identity: BrokerIdentity, name: &str, uid: &str) -> BrokerApi {
        let socket = format!("unix://{}", self.socket.display());
        let environment = Environment::given([("SPIFFE_BROKER_SOCKET", socket.as_str())]);
        let account = ServiceAccount {
            name: name.parse().unwrap(),
            uid: uid.to_owned(),
            annotations: Default::default(),
        };
        BrokerApi::new(&environment, identity, account, None).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn n16_a_broker_has_a_token_for_a_service_account_by_its_name_and_uid() {
    let domain = Domain::new();
    let agent = Running::start(&domain, &[AGENT], "JWT");
    let identity = domain.identity("broker", BROKER);
    let token = agent.source(identity.clone(), "team-a/app", "u-1").token(AUDIENCE).await.unwrap();
    assert_eq!(verify(token.secret().expose(), AUDIENCE).unwrap()["sub"], SPIFFE_ID);
    for (name, uid) in [("team-a/app", "u-2"), ("team-b/app", "u-1")] {
        let error = agent.source(identity.clone(), name, uid).token(AUDIENCE).await.unwrap_err();
        assert_eq!((error.class(), error.code()), (Class::Source, "broker-workload-gone"), "{error}");
    }
    assert_eq!(agent.asked.lock().unwrap().len(), 3);
    let account = ServiceAccount {
        name: "team-a/app".parse().unwrap(),
        uid: String::new(),
        annotations: Default::default(),
    };
    let environment = Environment::given([("SPIFFE_BROKER_SOCKET", "unix:///run/broker.sock")]);
    let error = BrokerApi::new(&environment, identity.clone(), account.clone(), None).unwrap_err();
    assert_eq!(error.code(), "broker-reference", "a name alone is whoever has it now");
    let error = BrokerApi::new(&Environment::given([]), identity, account, None).unwrap_err();
    assert_eq!(error.code(), "workload-api-unknown");
}

#[tokio::test]
async fn n16_both_sides_prove_themselves_by_their_ids() {
    let (domain, stranger) = (Domain::new(), Domain::new());
    let identity = domain.identity("broker", BROKER);
    let impostor = "spiffe://example.org/ns/team-b/sa/app";
    for ids in [[impostor].as_slice(), &[AGENT, impostor], &[]] {
        let agent = Running::start(&domain, ids, "JWT");
        let error = agent.source(identity.clone(), "team-a/app", "u-1").token(AUDIENCE).await.unwrap_err();
        assert_eq!((error.class(), error.code()), (Class::Source, "broker-unproven"), "{ids:?}: {error}");
        assert!(agent.asked.lock().unwrap().is_empty(), "who does not prove itself is asked nothing");
    }
    let foreign = Running::start(&stranger, &[AGENT], "JWT");
    let error = foreign.source(identity.clone(), "team-a/app", "u-1").token(AUDIENCE).await.unwrap_err();
    assert_eq!(error.code(), "broker-unproven", "{error}");

    let agent = Running::start(&domain, &[AGENT], "JWT");
    let tenant = domain.identity("tenant", impostor);
    let error = agent.source(tenant, "team-a/app", "u-1").token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Transient, "workload-api-no-identity"));
    let other = BrokerIdentity { bundle: domain.bundle(), ..stranger.identity("broker", BROKER) };
    let error = agent.source(other, "team-a/app", "u-1").token(AUDIENCE).await.unwrap_err();
    assert_ne!(error.class(), Class::Permanent, "{error}");
    std::fs::set_permissions(&identity.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = agent.source(identity, "team-a/app", "u-1").token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Source, "broker-identity"));
    assert!(agent.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn n16_a_wit_of_a_broker_is_no_bearer_token() {
    let domain = Domain::new();
    let agent = Running::start(&domain, &[AGENT], "wit+jwt");
    let source = agent.source(domain.identity("broker", BROKER), "team-a/app", "u-1");
    let direct = Direct { audience: AUDIENCE.to_owned(), is_api_server: false };
    let identity = Identity { name: "app".to_owned(), service_account: None };
    let chain = Chain::new(Arc::new(source), Provider::Direct(direct), identity);
    let error = runner().run(&chain).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Permanent, "subject-token-unsuitable"), "{error}");
}
