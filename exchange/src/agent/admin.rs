//! What an operator reads of an agent, beside what it answers to clients: health and counts, no credential.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;

use crate::metrics::{MEDIA_TYPE, Metrics};

/// Answers `/livez` and `/metrics`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    metrics: Arc<Metrics>,
}

impl Admin {
    /// What shows these counts.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let text = "text/plain; charset=utf-8";
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/livez") => response(StatusCode::OK, text, "ok\n".to_owned()),
            (&Method::GET, "/metrics") => match self.metrics.render() {
                Ok(page) => response(StatusCode::OK, MEDIA_TYPE, page),
                Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, text, error.to_string()),
            },
            (&Method::GET, _) => {
                response(StatusCode::NOT_FOUND, text, "/livez and /metrics are here\n".to_owned())
            }
            _ => response(StatusCode::METHOD_NOT_ALLOWED, text, "GET alone\n".to_owned()),
        }
    }
}

fn response(status: StatusCode, media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

impl Service<Request<Incoming>> for Admin {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let answer = self.answer(&request);
        Box::pin(async move { Ok(answer) })
    }
}
