//! The operators' port: whether this process lives, whether it is ready, and what it counts.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 as long as requests are answered at all |
//! | `/readyz` | 200 when this replica has documents of every issuer, else 503 with a line for each that is missing; `?verbose` lists the others as well |
//! | `/metrics` | every metric of [`crate::metrics`] as OpenMetrics text |
//! | `/visibility` | what is seen of every issuer from outside, as JSON; `?kid=KID&for=24h` asks whether a key may sign |
//! | `/conditions` | every condition of [`crate::conditions`], as JSON |
//!
//! It is a port of its own so that it need not be reachable from where relying parties are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chancery_core::IssuerUrl;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::conditions::Board;
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::serve::Documents;
use crate::visibility::{Question, Shown, answer};

/// The operators' listener: `admin`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AdminConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
}

/// A bound listener that does not answer yet.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
    watched: Watched,
}

/// What was found out about the world.
#[derive(Clone, Debug)]
pub struct Observations {
    /// What is seen of each issuer.
    pub visibility: Vec<(IssuerUrl, watch::Receiver<Shown>)>,
    /// The conditions.
    pub board: Arc<Board>,
}

#[derive(Clone, Debug)]
struct Watched {
    documents: Documents,
    metrics: Arc<Metrics>,
    observations: Observations,
}

impl Admin {
    /// Takes the address.
    ///
    /// # Errors
    /// Names an address that cannot be used.
    pub async fn bind(
        config: &AdminConfig,
        documents: Documents,
        metrics: Arc<Metrics>,
        observations: Observations,
    ) -> Result<Self, AdminError> {
        let unbound = |error| AdminError { address: config.listen, error };
        let listener = TcpListener::bind(config.listen).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        Ok(Self { listener, address, watched: Watched { documents, metrics, observations } })
    }

    /// The address that was taken, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` turns true or its sender is gone.
    pub async fn run(self, mut shutdown: watch::Receiver<bool>) {
        info!(address = %self.address, "answering operators");
        let routes = Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/visibility", get(visibility))
            .route("/conditions", get(conditions))
            .with_state(self.watched);
        let stop = async move {
            let _ = shutdown.wait_for(|stop| *stop).await;
        };
        if let Err(error) = axum::serve(self.listener, routes).with_graceful_shutdown(stop).await {
            warn!(%error, "the operators' port ended");
        }
    }
}

async fn readyz(State(watched): State<Watched>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let verbose =
        query.is_some_and(|query| query.split('&').any(|name| name.split('=').next() == Some("verbose")));
    readiness(watched.documents.issuers(), watched.documents.table().missing(), verbose)
}

/// One line for each issuer in the manner of kube-apiserver's `/readyz`.
fn readiness(issuers: &[IssuerUrl], missing: &[IssuerUrl], verbose: bool) -> (StatusCode, String) {
    let lines = issuers.iter().filter_map(|issuer| {
        if missing.contains(issuer) {
            return Some(format!("[-]{issuer} no key has been seen yet\n"));
        }
        verbose.then(|| format!("[+]{issuer} ok\n"))
    });
    let lines: String = lines.collect();
    if missing.is_empty() {
        return (StatusCode::OK, lines + "ready\n");
    }
    (StatusCode::SERVICE_UNAVAILABLE, lines + "not ready\n")
}

async fn metrics(State(watched): State<Watched>) -> Response {
    match watched.metrics.render(Timestamp::now()) {
        Ok(text) => ([(CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn visibility(State(watched): State<Watched>, RawQuery(query): RawQuery) -> Response {
    let question = match Question::parse(query.as_deref().unwrap_or_default()) {
        Ok(question) => question,
        Err(problem) => return (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    };
    let issuers = watched.observations.visibility.iter();
    let answers = issuers.map(|(issuer, shown)| answer(issuer, &shown.borrow().now(), &question));
    as_json(&json!({ "issuers": answers.collect::<Vec<_>>() }))
}

async fn conditions(State(watched): State<Watched>) -> Response {
    as_json(&json!({ "conditions": watched.observations.board.conditions() }))
}

fn as_json(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

/// Why the operators' port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}: {error}; expected a free address of this machine. Change `admin.listen`, or stop what already listens there"
)]
pub struct AdminError {
    address: SocketAddr,
    error: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_when_no_issuer_is_missing_and_names_those_that_are() {
        let issuers = ["https://a.example", "https://b.example"].map(|url| url.parse::<IssuerUrl>().unwrap());
        for (missing, verbose, status, text) in [
            (&issuers[..0], false, StatusCode::OK, "ready\n"),
            (
                &issuers[..0],
                true,
                StatusCode::OK,
                "[+]https://a.example ok\n[+]https://b.example ok\nready\n",
            ),
            (
                &issuers[1..],
                false,
                StatusCode::SERVICE_UNAVAILABLE,
                "[-]https://b.example no key has been seen yet\nnot ready\n",
            ),
            (
                &issuers[1..],
                true,
                StatusCode::SERVICE_UNAVAILABLE,
                "[+]https://a.example ok\n[-]https://b.example no key has been seen yet\nnot ready\n",
            ),
        ] {
            assert_eq!(readiness(&issuers, missing, verbose), (status, text.to_owned()));
        }
    }
}
