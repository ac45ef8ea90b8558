//! AWS's IAM and STS, as far as OIDC providers go: a strict stand-in that checks what the real one would see.
//!
//! It computes the signature of every request by itself ([`crate::sigv4::verify`]), holds its scope and date against the
//! service, refuses parameters that an action does not have, and allows what the caller's policy allows.
//! <https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateOpenIDConnectProvider.html> and its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::listening::{Listening, serve_http};

mod actions;
mod authentication;

/// The account of the only caller.
pub const ACCOUNT: &str = "123456789012";
/// A provider as IAM keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredProvider {
    /// `ClientIDList`
    pub audiences: BTreeSet<String>,
    /// `ThumbprintList`
    pub thumbprints: Vec<String>,
    /// `Tags`
    pub tags: BTreeMap<String, String>,
}

/// What the caller may, what is there, and what was asked.
#[derive(Debug, Default)]
struct State {
    policy: Value,
    providers: BTreeMap<String, StoredProvider>,
    calls: Vec<String>,
    throttled: usize,
    rival: Option<StoredProvider>,
}

/// A running IAM and STS on one port. Ends when it is dropped.
#[derive(Debug)]
pub struct AwsIam {
    address: String,
    state: Arc<Mutex<State>>,
    _listening: Listening,
}

/// A refusal: status, code, message.
#[derive(Debug)]
struct Refusal(u16, &'static str, String);

impl AwsIam {
    /// An account without providers, whose caller may what `policy` allows.
    pub async fn start(policy: Value) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let state = Arc::new(Mutex::new(State { policy, ..State::default() }));
        let (host, shared) = (address.clone(), state.clone());
        let listening = Listening::on(listener, move |stream| {
            let (state, host) = (shared.clone(), host.clone());
            async move { serve_http(stream, |request| answer(&state, &host, request)).await }
        });
        Ok(Self { address, state, _listening: listening })
    }

    /// `http://127.0.0.1:PORT/`
    pub fn endpoint(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// What the caller may from now on.
    pub fn allow(&self, policy: Value) {
        lock(&self.state).policy = policy;
    }

    /// Puts a provider there, by its URL without the scheme.
    pub fn place(&self, url: &str, provider: StoredProvider) {
        lock(&self.state).providers.insert(url.to_owned(), provider);
    }

    /// The provider of a URL without the scheme.
    pub fn provider(&self, url: &str) -> Option<StoredProvider> {
        lock(&self.state).providers.get(url).cloned()
    }

    /// Asks the next `calls` callers for patience.
    pub fn throttle(&self, calls: usize) {
        lock(&self.state).throttled = calls;
    }

    /// Lets somebody else make this provider right before the next creation.
    pub fn be_faster(&self, provider: StoredProvider) {
        lock(&self.state).rival = Some(provider);
    }

    /// The actions that were allowed since this was last asked, in their order.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).calls)
    }
}

async fn answer(
    state: &Mutex<State>,
    host: &str,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let (status, xml) = match authentication::check(&head, &body, host).and_then(|call| perform(state, &call))
    {
        Ok(xml) => (200, xml),
        Err(Refusal(status, code, message)) => {
            let message = message.replace('&', "&amp;").replace('<', "&lt;");
            let error =
                format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
            (status, format!("<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>"))
        }
    };
    Ok(Response::builder().status(status).header("content-type", "text/xml").body(Full::new(xml.into()))?)
}

fn perform(state: &Mutex<State>, call: &authentication::Authenticated) -> Result<String, Refusal> {
    let mut state = lock(state);
    if state.throttled > 0 {
        state.throttled -= 1;
        return Err(Refusal(400, "Throttling", "Rate exceeded".to_owned()));
    }
    actions::perform(&mut state, call)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
