//! The calls of both packages on one connection: which call a request is, and gRPC around its answer.
//!
//! Messages are bounded before they are read, and nothing is compressed.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::claims::LONGEST_CLAIMS;
use crate::messages::{FetchKeysRequest, MetadataRequest, SignJwtRequest};
use crate::service::SignerService;

/// The largest message that is read, in bytes: claims that are too long by a little are refused with words of ours.
const LARGEST_MESSAGE: usize = 2 * LONGEST_CLAIMS;

/// A call of `ExternalJWTSigner`, whatever its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Sign,
    FetchKeys,
    Metadata,
}

impl Call {
    fn of_path(path: &str) -> Option<Self> {
        let call = path.strip_prefix("/v1.").or_else(|| path.strip_prefix("/v1alpha1."))?;
        match call.strip_prefix("ExternalJWTSigner/")? {
            "Sign" => Some(Self::Sign),
            "FetchKeys" => Some(Self::FetchKeys),
            "Metadata" => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// Answers one request.
///
/// # Errors
/// Never: what fails is an answer too.
pub async fn answer(
    service: Arc<SignerService>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    Ok(match Call::of_path(request.uri().path()) {
        Some(Call::Sign) => {
            let sign = async |message: SignJwtRequest| service.sign(message).await;
            unary(request, sign).await
        }
        Some(Call::FetchKeys) => {
            let fetch = async |_: FetchKeysRequest| service.fetch_keys().map(|keys| (*keys).clone());
            unary(request, fetch).await
        }
        Some(Call::Metadata) => unary(request, async |_: MetadataRequest| Ok(service.metadata())).await,
        None => Status::new(Code::Unimplemented, "expected a call of v1.ExternalJWTSigner or v1alpha1")
            .into_http(),
    })
}

/// gRPC around a function from message to message.
async fn unary<M, R, F>(request: Request<Incoming>, answer: impl FnMut(M) -> F) -> Response<Body>
where
    M: Message + Default + Send + 'static,
    R: Message + Send + Sync + 'static,
    F: Future<Output = Result<R, Status>>,
{
    let mut grpc = Grpc::new(ProstCodec::<R, M>::default()).max_decoding_message_size(LARGEST_MESSAGE);
    grpc.unary(Unary(answer), request).await
}

struct Unary<F>(F);

impl<M, R, F, G> UnaryService<M> for Unary<F>
where
    F: FnMut(M) -> G,
    G: Future<Output = Result<R, Status>>,
{
    type Response = R;
    type Future = Wrapped<G>;

    fn call(&mut self, request: tonic::Request<M>) -> Self::Future {
        Wrapped(Box::pin((self.0)(request.into_inner())))
    }
}

/// An answer, to be put into what carries it.
struct Wrapped<G>(Pin<Box<G>>);

impl<R, G: Future<Output = Result<R, Status>>> Future for Wrapped<G> {
    type Output = Result<tonic::Response<R>, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context).map(|answer| answer.map(tonic::Response::new))
    }
}
