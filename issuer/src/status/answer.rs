//! Answers requests for the pages, one at a time, away from the threads that answer everything else.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{RawQuery, State as Shared};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::html::{STYLE, issuer_html, overview_html};
use super::issuer_page::issuer_page;
use super::model::{IssuerPage, Overview};
use super::overview::overview;
use super::query::{asked, asked_issuer};
use super::reading::Knowledge;

/// What a browser may do with a page: show it, in its own style. The form of the page may ask this server alone.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// What the handlers share.
#[derive(Clone, Debug)]
struct Pages {
    knowledge: Knowledge,
    /// Of ten thousand issuers a page takes milliseconds of a processor, so that no number of readers costs more than one.
    turn: Arc<Semaphore>,
}

/// The pages of what is known.
pub fn routes(knowledge: Knowledge) -> Router {
    Router::new()
        .route("/status", get(overview_page))
        .route("/status.json", get(overview_json))
        .route("/status/issuer", get(one_issuer_page))
        .route("/status/issuer.json", get(one_issuer_json))
        .with_state(Pages { knowledge, turn: Arc::new(Semaphore::new(1)) })
}

async fn overview_page(Shared(pages): Shared<Pages>, RawQuery(query): RawQuery) -> Response {
    pages.answer(query, |knowledge, query| as_html(overview_html(&find_all(knowledge, query)?))).await
}

async fn overview_json(Shared(pages): Shared<Pages>, RawQuery(query): RawQuery) -> Response {
    pages.answer(query, |knowledge, query| as_json(&find_all(knowledge, query)?)).await
}

async fn one_issuer_page(Shared(pages): Shared<Pages>, RawQuery(query): RawQuery) -> Response {
    pages.answer(query, |knowledge, query| as_html(issuer_html(&find_one(knowledge, query)?))).await
}

async fn one_issuer_json(Shared(pages): Shared<Pages>, RawQuery(query): RawQuery) -> Response {
    pages.answer(query, |knowledge, query| as_json(&find_one(knowledge, query)?)).await
}

/// A body and its media type, or why there is none.
type Answer = Result<(&'static str, String), Refusal>;

/// Why there is no page, in words.
struct Refusal(StatusCode, String);

impl Pages {
    async fn answer(&self, query: Option<String>, make: fn(&Knowledge, &str) -> Answer) -> Response {
        // The semaphore is never closed. Whoever leaves while a page is made does not end it.
        let turn = self.turn.clone().acquire_owned().await;
        let knowledge = self.knowledge.clone();
        let made = spawn_blocking(move || {
            let answer = make(&knowledge, query.as_deref().unwrap_or_default());
            drop(turn);
            answer
        });
        let unmade = || Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made".to_owned());
        match made.await.unwrap_or_else(|_| Err(unmade())) {
            Ok((media_type, body)) => guarded(StatusCode::OK, media_type, body),
            Err(Refusal(status, words)) => guarded(status, "text/plain; charset=utf-8", words + "\n"),
        }
    }
}

fn find_all(knowledge: &Knowledge, query: &str) -> Result<Overview, Refusal> {
    let asked = asked(query).map_err(|problem| Refusal(StatusCode::BAD_REQUEST, problem))?;
    let page = asked.page;
    let found = overview(&knowledge.replica(Timestamp::now()), knowledge.issuers(), asked);
    found.ok_or_else(|| {
        Refusal(StatusCode::NOT_FOUND, format!("there is no page {page}; `/status` is the first"))
    })
}

fn find_one(knowledge: &Knowledge, query: &str) -> Result<IssuerPage, Refusal> {
    let url = asked_issuer(query).map_err(|problem| Refusal(StatusCode::BAD_REQUEST, problem))?;
    let details = knowledge.issuer(&url).ok_or_else(|| {
        Refusal(
            StatusCode::NOT_FOUND,
            format!("there is no issuer {url} here; `/status` lists those that are"),
        )
    })?;
    Ok(issuer_page(&knowledge.replica(Timestamp::now()), &details))
}

fn as_html(rendered: Result<String, askama::Error>) -> Answer {
    let refuse = |_| Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made".to_owned());
    Ok(("text/html; charset=utf-8", rendered.map_err(refuse)?))
}

fn as_json(page: &impl Serialize) -> Answer {
    let refuse = |_| Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made".to_owned());
    let text = serde_json::to_string_pretty(page).map_err(refuse)?;
    Ok(("application/json", text + "\n"))
}

/// What every answer says of itself, refusals too: they repeat what was asked.
fn guarded(status: StatusCode, media_type: &'static str, body: String) -> Response {
    const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (CROSS_ORIGIN, HeaderValue::from_static("same-origin")),
    ];
    (status, headers, body).into_response()
}
