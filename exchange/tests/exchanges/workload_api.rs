//! SPIFFE's Workload API, as an agent answers: whoever does not send its header, or names no audience, is refused, and
//! whom no entry fits.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use chancery_exchange::chain::Identity;
use chancery_exchange::provider::{Direct, Provider};
use chancery_exchange::subject::{Environment, WorkloadApi};
use chancery_exchange::{Chain, Class, CredentialKind, SubjectTokenSource};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::aws::runner;
use crate::fake::issuer::{SPIFFE_ID as APP, claims, token, typed, verify};

const AUDIENCE: &str = "https://as.example/";
const OTHER: &str = "spiffe://example.org/ns/team-a/sa/other";

/// `JWTSVIDRequest` of workload.proto.
#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(string, repeated, tag = "1")]
    audience: Vec<String>,
    #[prost(string, tag = "2")]
    spiffe_id: String,
}

/// `JWTSVIDResponse`, and what the Broker API answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Given {
    #[prost(message, repeated, tag = "1")]
    pub svids: Vec<Svid>,
}

/// `JWTSVID`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Svid {
    #[prost(string, tag = "1")]
    pub spiffe_id: String,
    #[prost(string, tag = "2")]
    pub svid: String,
    #[prost(string, tag = "3")]
    pub hint: String,
}

/// What makes a token of an identity for an audience.
type Mint = dyn Fn(&str, &str) -> String + Send + Sync;

/// An agent, and what it knows of whoever connects.
#[derive(Clone)]
struct Agent {
    /// How many calls it has no entry for yet.
    unknown: Arc<Mutex<usize>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    mint: Arc<Mint>,
}

pub struct Running {
    agent: Agent,
    socket: PathBuf,
    task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

fn svid(id: &str, audience: &str) -> String {
    let mut claims = claims(audience);
    claims["sub"] = id.into();
    typed("JWT", &claims)
}

impl Agent {
    fn answer(&self, request: &tonic::Request<Asked>) -> Result<Given, Status> {
        if request.metadata().get("workload.spiffe.io").is_none_or(|value| value != "true") {
            return Err(Status::invalid_argument("security header missing from request"));
        }
        let asked = request.get_ref().clone();
        self.asked.lock().unwrap().push(asked.clone());
        let [audience] = asked.audience.as_slice() else {
            return Err(Status::invalid_argument("audience must be specified"));
        };
        let mut unknown = self.unknown.lock().unwrap();
        if *unknown > 0 {
            *unknown -= 1;
            return Err(Status::permission_denied("no identity issued"));
        }
        let entries = [APP, OTHER].into_iter();
        let fit = entries.filter(|id| asked.spiffe_id.is_empty() || asked.spiffe_id == *id);
        let svids: Vec<Svid> = fit
            .map(|id| Svid {
                spiffe_id: id.to_owned(),
                svid: (self.mint)(id, audience),
                hint: "x".to_owned(),
            })
            .collect();
        if svids.is_empty() {
            Err(Status::permission_denied("no identity issued"))
        } else {
            Ok(Given { svids })
        }
    }
}

impl UnaryService<Asked> for Agent {
    type Response = Given;
    type Future = Ready<Result<tonic::Response<Given>, Status>>;

    fn call(&mut self, request: tonic::Request<Asked>) -> Self::Future {
        ready(self.answer(&request).map(tonic::Response::new))
    }
}

impl Running {
    pub fn start(mint: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let agent = Agent { unknown: Arc::default(), asked: Arc::default(), mint: Arc::new(mint) };
        let answering = agent.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let agent = answering.clone();
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let agent = agent.clone();
                    async move {
                        if request.uri().path() != "/SpiffeWorkloadAPI/FetchJWTSVID" {
                            return Ok(Status::new(Code::Unimplemented, "unknown call").into_http());
                        }
                        let mut grpc = Grpc::new(ProstCodec::<Given, Asked>::default());
                        Ok::<_, Infallible>(grpc.unary(agent, request).await)
                    }
                });
                let server = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { agent, socket, task, _folder: folder }
    }

    pub fn source(&self, wanted: Option<&str>) -> WorkloadApi {
        let socket = format!("unix://{}", self.socket.display());
        let environment = Environment::given([("SPIFFE_ENDPOINT_SOCKET", socket.as_str())]);
        WorkloadApi::new(&environment, wanted.map(|id| id.parse().unwrap())).unwrap()
    }

    fn chain(&self) -> Chain {
        let direct = Direct { audience: AUDIENCE.to_owned(), is_api_server: false };
        let identity = Identity { name: "app".to_owned(), service_account: None };
        Chain::new(Arc::new(self.source(None)), Provider::Direct(direct), identity)
    }

    fn asked(&self) -> Vec<Asked> {
        self.agent.asked.lock().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn w_16_a_08_an_agent_gives_a_token_for_one_audience_and_the_identity_that_is_wanted() {
    let agent = Running::start(svid);
    for (wanted, expected) in [(None, APP), (Some(OTHER), OTHER)] {
        let token = agent.source(wanted).token(AUDIENCE).await.unwrap();
        assert_eq!(verify(token.secret().expose(), AUDIENCE).unwrap()["sub"], expected);
    }
    let asked: Vec<(Vec<String>, String)> =
        agent.asked().into_iter().map(|asked| (asked.audience, asked.spiffe_id)).collect();
    let audience = vec![AUDIENCE.to_owned()];
    assert_eq!(asked, [(audience.clone(), String::new()), (audience, OTHER.to_owned())]);
    assert_eq!(agent.source(None).token("").await.unwrap_err().code(), "audience-missing");
}

#[tokio::test]
async fn each_exchange_has_a_token_of_its_own_and_waits_for_an_entry_that_is_on_its_way() {
    let agent = Running::start(svid);
    *agent.agent.unknown.lock().unwrap() = 2;
    let runner = runner();
    let credential = runner.run(&agent.chain()).await.unwrap();
    let CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    assert!(verify(bearer.token.expose(), AUDIENCE).is_ok());
    runner.run(&agent.chain()).await.unwrap();
    assert_eq!(agent.asked().len(), 4, "two in vain, and one for each exchange");
}

#[tokio::test]
async fn refusals_of_an_agent_say_what_to_do() {
    let agent = Running::start(svid);
    let error = agent.source(Some("spiffe://example.org/nobody")).token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Transient, "workload-api-no-identity"));
    assert!(error.to_string().contains("no identity issued"), "{error}");

    let liar = Running::start(|_, audience| svid("spiffe://example.org/somebody", audience));
    let error = liar.source(None).token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Permanent, "svid-of-another-identity"));

    let nowhere = Environment::given([("SPIFFE_ENDPOINT_SOCKET", "unix:///nowhere/agent.sock")]);
    let error = WorkloadApi::new(&nowhere, None).unwrap().token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Source, "workload-api-unreached"));
    let error = WorkloadApi::new(&Environment::given([]), None).unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Source, "workload-api-unknown"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_says_nothing_is_waited_for_no_longer_than_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let silent = UnixListener::bind(&socket).unwrap();
    let environment =
        Environment::given([("SPIFFE_ENDPOINT_SOCKET", &format!("unix://{}", socket.display()))]);
    let error = WorkloadApi::new(&environment, None).unwrap().token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Transient, "workload-api-unreached"));
    drop(silent);
}

/// A WIT says by which key its bearer proves itself (draft-ietf-wimse-workload-creds), and has no audience.
#[tokio::test]
async fn a_wit_is_no_bearer_token() {
    let wits: [fn(&str, &str) -> String; 2] = [
        |id, audience| {
            let mut claims = claims(audience);
            claims["sub"] = id.into();
            typed("wit+jwt", &claims)
        },
        |id, audience| {
            let mut claims = claims(audience);
            claims["sub"] = id.into();
            claims["cnf"] = serde_json::json!({ "jwk": { "kty": "EC" } });
            token(&claims)
        },
    ];
    for mint in wits {
        let agent = Running::start(mint);
        let error = runner().run(&agent.chain()).await.unwrap_err();
        assert_eq!((error.class(), error.code()), (Class::Permanent, "subject-token-unsuitable"), "{error}");
    }
}
