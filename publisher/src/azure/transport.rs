//! How requests are sent: one attempt and one more, each within its time, and signed at the last moment.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::http::headers::RETRY_AFTER;
use azure_core::http::policies::{RetryHeaders, RetryPolicy};
use azure_core::http::{
    AsyncRawResponse, ClientOptions, HttpClient, Request, RetryOptions, StatusCode, Transport,
};
use chancery_wire::{ClientError, ClientOptions as WireOptions, HttpClient as WireClient, Proxies};

use super::sas::Sas;
use crate::limits::API_ANSWER;

/// One retry of the SDK's; the executor above tries again with a fresh reading.
pub(crate) const ATTEMPTS: u32 = 2;
/// The longest pause between the two, whatever a server asks for: the executor has more patience than we.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);
const USUAL_PAUSE: Duration = Duration::from_millis(200);

/// Options of a client whose attempts take `attempt` at most.
///
/// # Errors
/// When this machine has no certificates to trust.
pub(crate) fn options(attempt: Duration, sas: Option<Sas>) -> Result<ClientOptions, ClientError> {
    let sender = Sender { client: client(attempt)?.for_sdk(), sas };
    Ok(ClientOptions {
        retry: RetryOptions::custom(Arc::new(OneRetry::default())),
        transport: Some(Transport::new(Arc::new(sender))),
        ..ClientOptions::default()
    })
}

/// An HTTP client that follows nobody elsewhere: a redirect would take the credentials along.
///
/// # Errors
/// As [`options`].
pub(crate) fn client(attempt: Duration) -> Result<WireClient, ClientError> {
    WireClient::new(&WireOptions {
        proxies: Proxies::Environment,
        http1_only: true,
        ..WireOptions::new(attempt, API_ANSWER)
    })
}

/// Adds the signature below everything that logs a URL.
#[derive(Debug)]
struct Sender {
    client: reqwest::Client,
    sas: Option<Sas>,
}

#[async_trait]
impl HttpClient for Sender {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let Some(sas) = &self.sas else { return self.client.execute_request(request).await };
        let mut request = request.clone();
        sas.sign(request.url_mut())?;
        self.client.execute_request(&request).await
    }
}

#[derive(Debug)]
struct OneRetry(RetryHeaders);

impl Default for OneRetry {
    fn default() -> Self {
        Self(RetryHeaders { retry_headers: vec![RETRY_AFTER] })
    }
}

#[async_trait]
impl RetryPolicy for OneRetry {
    fn is_expired(&self, _: azure_core::time::Duration, retries: u32) -> bool {
        retries + 1 >= ATTEMPTS
    }

    fn retry_headers(&self) -> Option<&RetryHeaders> {
        Some(&self.0)
    }

    fn retry_status_codes(&self) -> &[StatusCode] {
        &[]
    }

    fn sleep_duration(&self, _: u32) -> azure_core::time::Duration {
        azure_core::time::Duration::ZERO
    }

    async fn wait(&self, _: u32, asked: Option<azure_core::time::Duration>) {
        let asked = asked.and_then(|asked| Duration::try_from(asked).ok()).unwrap_or_default();
        tokio::time::sleep(asked.clamp(USUAL_PAUSE, PAUSE)).await;
    }
}
