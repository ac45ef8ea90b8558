//! The operators' port: whether this process lives, whether it is ready, and what it counts.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 as long as requests are answered at all |
//! | `/readyz` | whether this replica may be sent requests, by the rule below; a line for each issuer without documents, and with `?verbose` for the others as well |
//! | `/metrics` | every metric of [`crate::metrics`] as OpenMetrics text |
//! | `/visibility` | what is seen of every issuer from outside, as JSON; `?kid=KID&for=24h` asks whether a key may sign |
//! | `/conditions` | every condition of [`crate::conditions`], as JSON |
//! | `/status` | how every issuer stands and what to do, as a page and as JSON, see [`crate::status`] |
//!
//! Ready (200) is a replica that has documents of an issuer and has waited for those of every other: until they came, or
//! for [`READINESS_WAIT`](crate::roster::READINESS_WAIT) since the issuer was added. So one broken issuer of many does not take the others' replica away,
//! and an issuer that was ready once never makes it unready again; what is wrong with it says its condition `Ready`.
//!
//! It is a port of its own so that it need not be reachable from where relying parties are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chancery_cluster::listener::{Connections, ListenError, Listener};
use chancery_core::IssuerUrl;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::conditions::ConditionStore;
use crate::metrics::{MEDIA_TYPE, Metrics, MetricsPage};
use crate::roster::{Progress, Roster};
use crate::status::{self, Knowledge};
use crate::visibility::{VisibilityQuestion, answer};

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
    listener: Listener,
    watched: Watched,
}

/// What was found out about the world.
#[derive(Clone, Debug)]
pub struct Observations {
    /// The issuers, and what is seen of each.
    pub issuers: Roster,
    /// The conditions.
    pub conditions: Arc<ConditionStore>,
}

#[derive(Clone, Debug)]
struct Watched {
    metrics: Arc<MetricsPage>,
    status: Knowledge,
    observations: Observations,
}

impl Admin {
    /// Takes the address. Its connections count among all of the process, and have the public port's limits.
    ///
    /// # Errors
    /// Names an address that cannot be used.
    pub async fn bind(
        config: &AdminConfig,
        metrics: Arc<Metrics>,
        observations: Observations,
        connections: &Connections,
    ) -> Result<Self, ListenError> {
        let listener = Listener::plain(config.listen, connections).await?;
        let (issuers, conditions) = (observations.issuers.clone(), observations.conditions.clone());
        let status = Knowledge { issuers, conditions, metrics: metrics.clone() };
        let metrics = Arc::new(MetricsPage::new(metrics));
        Ok(Self { listener, watched: Watched { metrics, status, observations } })
    }

    /// The address that was taken, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Answers until `shutdown` turns true or its sender is gone.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        let status = status::routes(self.watched.status.clone());
        let routes = Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/visibility", get(visibility))
            .route("/conditions", get(conditions))
            .with_state(self.watched)
            .merge(status);
        self.listener.run(TowerToHyperService::new(routes), shutdown).await;
    }
}

async fn readyz(State(watched): State<Watched>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let verbose =
        query.is_some_and(|query| query.split('&').any(|name| name.split('=').next() == Some("verbose")));
    if watched.observations.issuers.is_waiting_for_objects() {
        let text = "[-]the Issuer objects of the cluster have not been listed yet\nnot ready\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
    }
    let unread = watched.observations.conditions.incomplete_sources();
    readiness(&watched.observations.issuers.progress(), &unread, verbose)
}

/// One line for each issuer in the manner of kube-apiserver's `/readyz`. `incomplete` are issuers of which a part of a
/// source was never read, with the names of the sources.
fn readiness(
    issuers: &[Progress],
    incomplete: &BTreeMap<IssuerUrl, String>,
    verbose: bool,
) -> (StatusCode, String) {
    let lines = issuers.iter().filter_map(|progress| {
        let issuer = &progress.issuer;
        match (&progress.problem, incomplete.get(issuer)) {
            (Some(problem), _) => Some(format!("[-]{issuer} not accepted: {problem}\n")),
            (None, Some(sources)) if progress.has_documents => {
                Some(format!("[+]{issuer} ok, but a part was never read of {sources}\n"))
            }
            (None, Some(sources)) => Some(format!("[-]{issuer} a part was never read of {sources}\n")),
            (None, None) if !progress.has_documents => {
                Some(format!("[-]{issuer} no key has been seen yet\n"))
            }
            (None, None) => verbose.then(|| format!("[+]{issuer} ok\n")),
        }
    });
    let lines: String = lines.collect();
    let nobody = issuers.iter().all(|progress| !progress.has_documents);
    let waits = issuers.iter().any(|progress| !progress.has_documents && !progress.waited_for);
    if waits || (nobody && !issuers.is_empty()) {
        return (StatusCode::SERVICE_UNAVAILABLE, lines + "not ready\n");
    }
    (StatusCode::OK, lines + "ready\n")
}

async fn metrics(State(watched): State<Watched>) -> Response {
    match watched.metrics.read().await {
        Some(text) => ([(CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn visibility(State(watched): State<Watched>, RawQuery(query): RawQuery) -> Response {
    let question = match VisibilityQuestion::parse(query.as_deref().unwrap_or_default()) {
        Ok(question) => question,
        Err(problem) => return (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    };
    let issuers = watched.observations.issuers.visibility();
    let answers = issuers.iter().map(|(issuer, shown)| answer(issuer, &shown.borrow(), &question));
    as_json(&json!({ "issuers": answers.collect::<Vec<_>>() }))
}

async fn conditions(State(watched): State<Watched>) -> Response {
    as_json(&json!({ "conditions": watched.observations.conditions.conditions() }))
}

fn as_json(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_when_one_issuer_is_and_every_other_was_waited_for() {
        let progress = |issuer: &str, has_documents: bool, waited_for: bool| Progress {
            issuer: issuer.parse().unwrap(),
            has_documents,
            waited_for,
            problem: None,
        };
        let (a, b) = ("https://a.example", "https://b.example");
        let missing = "[-]https://b.example no key has been seen yet\n";
        for (issuers, verbose, status, text) in [
            (vec![progress(a, true, false)], false, 200, "ready\n".to_owned()),
            (vec![progress(a, true, false)], true, 200, "[+]https://a.example ok\nready\n".to_owned()),
            (
                vec![progress(a, true, true), progress(b, false, false)],
                false,
                503,
                format!("{missing}not ready\n"),
            ),
            (
                vec![progress(a, true, true), progress(b, false, true)],
                false,
                200,
                format!("{missing}ready\n"),
            ),
            (vec![progress(b, false, true)], false, 503, format!("{missing}not ready\n")),
            (vec![], false, 200, "ready\n".to_owned()),
        ] {
            let (found, said) = readiness(&issuers, &BTreeMap::new(), verbose);
            assert_eq!((found.as_u16(), said), (status, text));
        }
    }

    #[test]
    fn says_what_keeps_an_issuer_from_being_whole() {
        let issuer: IssuerUrl = "https://a.example".parse().unwrap();
        let mut progress =
            Progress { issuer: issuer.clone(), has_documents: true, waited_for: true, problem: None };
        let incomplete = BTreeMap::from([(issuer, "source files /keys".to_owned())]);
        let (status, text) = readiness(&[progress.clone()], &incomplete, false);
        assert_eq!(status, StatusCode::OK);
        assert!(
            text.contains("[+]https://a.example ok, but a part was never read of source files /keys"),
            "{text}"
        );
        progress.problem = Some("no such folder".to_owned());
        let (_, text) = readiness(&[progress], &incomplete, false);
        assert!(text.contains("[-]https://a.example not accepted: no such folder"), "{text}");
    }
}
