//! JWT-SVIDs of SPIFFE's Workload API
//! (<https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Workload_API.md>): whoever may connect to the socket is
//! attested by the agent behind it, and given tokens of its own identity.
//!
//! ```text
//! service SpiffeWorkloadAPI { rpc FetchJWTSVID(JWTSVIDRequest) returns (JWTSVIDResponse); }
//! ```
//!
//! SPIRE's JWT-SVIDs live five minutes: each exchange fetches one of its own.

use std::time::Duration;

use async_trait::async_trait;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use zeroize::Zeroize as _;

use super::{Environment, SubjectTokenSource, missing};
use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::limits;
use crate::token::UnverifiedToken;

#[cfg(feature = "spiffe-broker")]
pub mod broker;
pub mod id;
pub mod socket;

#[cfg(feature = "spiffe-broker")]
pub use broker::{BrokerApi, BrokerIdentity};
pub use id::SpiffeId;
pub use socket::WorkloadSocket;

/// Where an agent listens (SPIFFE Workload Endpoint, section 4).
const VARIABLE: &str = "SPIFFE_ENDPOINT_SOCKET";

/// JWT-SVIDs of an agent on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadApi {
    socket: WorkloadSocket,
    wanted: Option<SpiffeId>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct JwtSvidRequest {
    #[prost(string, repeated, tag = "1")]
    audience: Vec<String>,
    #[prost(string, tag = "2")]
    spiffe_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
struct JwtSvidResponse {
    #[prost(message, repeated, tag = "1")]
    svids: Vec<JwtSvid>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
struct JwtSvid {
    #[prost(string, tag = "1")]
    spiffe_id: String,
    #[prost(string, tag = "2")]
    svid: String,
}

impl WorkloadApi {
    /// The agent that `SPIFFE_ENDPOINT_SOCKET` names. A workload that has several identities says which it wants;
    /// otherwise it is given the one that the agent puts first.
    ///
    /// # Errors
    /// When the variable is not set, or names what a token must not come from.
    pub fn new(environment: &Environment, wanted: Option<SpiffeId>) -> Result<Self, ExchangeError> {
        let socket = environment.text(VARIABLE).ok_or_else(|| {
            missing("workload-api-unknown")
                .came(&format!("the variable {VARIABLE} is not set"))
                .expected("unix:///PATH, where SPIFFE's agent listens")
                .remedy("mount the agent's socket into the pod, and name it in the variable")
        })?;
        Ok(Self { socket: socket.parse()?, wanted })
    }

    async fn fetch(&self, audience: &str) -> Result<JwtSvidResponse, ExchangeError> {
        let spiffe_id = self.wanted.as_ref().map(ToString::to_string).unwrap_or_default();
        let request = JwtSvidRequest { audience: vec![audience.to_owned()], spiffe_id };
        match &self.socket {
            WorkloadSocket::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.unreached(&error))?;
                FETCH.call(stream, request).await.map_err(|status| refused(&status))
            }
            WorkloadSocket::Loopback(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.unreached(&error))?;
                FETCH.call(stream, request).await.map_err(|status| refused(&status))
            }
        }
    }

    fn unreached(&self, error: &std::io::Error) -> ExchangeError {
        // An agent that restarts comes back; one that is not mounted does not.
        let class = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Class::Source,
            _ => Class::Transient,
        };
        failure(class, "workload-api-unreached")
            .came(&format!("{}: {error}", self.socket))
            .expected("SPIFFE's agent listening there")
            .remedy("start the agent on this machine, mount its socket, and let this user connect to it")
    }
}

impl JwtSvidResponse {
    /// The SVID that was wanted, or else the first.
    fn choose(mut self, wanted: Option<&SpiffeId>, origin: &str) -> Result<UnverifiedToken, ExchangeError> {
        let fits = |svid: &JwtSvid| wanted.is_none_or(|wanted| svid.spiffe_id == wanted.as_str());
        let parsed = self.svids.iter().find(|svid| fits(svid)).map(|svid| {
            let id: SpiffeId = svid.spiffe_id.parse()?;
            let token = UnverifiedToken::parse(&svid.svid).map_err(|error| error.at(origin))?;
            let subject = token.claims().sub.as_deref().unwrap_or_default();
            if subject != id.as_str() {
                return Err(failure(Class::Permanent, "svid-of-another-identity")
                    .came(&format!("a token whose `sub` is {subject:?}"))
                    .expected(format!("{id}, as the agent says"))
                    .remedy("the agent is not to be trusted: find out what answers there"));
            }
            Ok(token)
        });
        self.svids.iter_mut().for_each(|svid| svid.svid.zeroize());
        parsed.unwrap_or_else(|| {
            Err(failure(Class::Source, "workload-api-no-identity")
                .came("an answer without the identity")
                .expected(wanted.map_or_else(|| "at least one JWT-SVID".to_owned(), ToString::to_string))
                .remedy("register the workload at its SPIFFE server with this id"))
        })
    }
}

/// A call that is answered with JWT-SVIDs.
struct Call {
    path: &'static str,
    /// Without it nobody is answered: a request that a browser or a proxy was talked into has no such header.
    header: &'static str,
}

const FETCH: Call = Call { path: "/SpiffeWorkloadAPI/FetchJWTSVID", header: "workload.spiffe.io" };

impl Call {
    /// The answer, on a connection of its own.
    async fn call<S, R>(&self, stream: S, request: R) -> Result<JwtSvidResponse, Status>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        R: prost::Message + 'static,
    {
        let (sender, connection) = http2::handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        // It ends with the last sender.
        let connection = tokio::spawn(connection);
        let service = tower::service_fn(move |request| sender.clone().send_request(request));
        let origin = http::Uri::from_static("http://localhost");
        let mut client = Grpc::with_origin(service, origin).max_decoding_message_size(limits::ANSWER);
        let mut request = Request::new(request);
        request.metadata_mut().insert(self.header, MetadataValue::from_static("true"));
        let path = http::uri::PathAndQuery::from_static(self.path);
        let answer = client.unary(request, path, ProstCodec::<R, JwtSvidResponse>::default()).await;
        connection.abort();
        answer.map(tonic::Response::into_inner)
    }
}

/// An answer within its time.
async fn within<T>(
    place: &str,
    answer: impl Future<Output = Result<T, ExchangeError>>,
) -> Result<T, ExchangeError> {
    let limit: Duration = limits::WORKLOAD_API;
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
        Err(failure(Class::Transient, "workload-api-unreached")
            .came(&format!("no answer of {place} within {} s", limit.as_secs()))
            .remedy("look into the agent's log"))
    })
}

fn without_audience() -> ExchangeError {
    ExchangeError::configuration("audience-missing")
        .came("no audience")
        .expected("one, which a JWT-SVID must have")
        .remedy("name it, as --audience")
}

fn failure(class: Class, code: &'static str) -> ExchangeError {
    ExchangeError::new(class, Stage::Source, code)
}

/// What an agent's refusal means (SPIFFE Workload API, section 6).
fn refused(status: &Status) -> ExchangeError {
    let (class, code, remedy) = match status.code() {
        Code::PermissionDenied => (
            // A registration takes some seconds to reach the agent.
            Class::Transient,
            "workload-api-no-identity",
            "register the workload at its SPIFFE server: no entry fits this process",
        ),
        Code::ResourceExhausted => (Class::Throttled, "throttled", "ask less often"),
        Code::InvalidArgument => {
            (Class::Source, "workload-api-refused", "name another audience, or another SPIFFE id")
        }
        Code::Unimplemented => {
            (Class::Source, "workload-api-refused", "the agent has no JWT-SVIDs: enable them")
        }
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => {
            (Class::Transient, "workload-api-unreached", "try again a little later")
        }
        _ => (Class::Source, "workload-api-refused", "look into the agent's log"),
    };
    failure(class, code)
        .came(&format!("the Workload API refused: {}", status.message()))
        .provider_code(Some(&format!("{:?}", status.code())))
        .remedy(remedy)
}

#[async_trait]
impl SubjectTokenSource for WorkloadApi {
    fn origin(&self) -> String {
        format!("the Workload API at {}", self.socket)
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        let wanted = self.wanted.as_ref().map(SpiffeId::as_str);
        key.text("source", "spiffe").text("socket", &self.socket.to_string()).optional("spiffe_id", wanted);
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        if audience.is_empty() {
            return Err(without_audience());
        }
        let given = within(&self.socket.to_string(), self.fetch(audience)).await?;
        given.choose(self.wanted.as_ref(), &self.origin())
    }
}
