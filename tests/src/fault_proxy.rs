//! A proxy in front of an S3 server that fails as networks and stores fail, where and when a test says.
//!
//! It passes on every header as it came, `Host` too, so that the signature of a request still holds (SigV4 signs
//! the host that the client knows, and the server compares it with the header it got).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::connection::Ending;
use crate::listening::Listening;
use crate::request_log::{Record, RequestLog};
use crate::{ports, wait};

mod connection;

type Answer = Response<Bytes>;

/// Which requests a fault meets: those of one method whose path ends so, counted from when the fault was set.
#[derive(Clone, Debug)]
pub struct On {
    method: Method,
    path_suffix: String,
    first: usize,
    last: usize,
}

impl On {
    /// The first write of an object whose key ends with `path_suffix`; of any object if that is empty.
    pub fn put(path_suffix: &str) -> Self {
        Self { method: Method::PUT, path_suffix: path_suffix.to_owned(), first: 1, last: 1 }
    }

    /// The first upload to Google Cloud Storage of such an object, whose key stands in the query.
    pub fn upload(key_suffix: &str) -> Self {
        Self { method: Method::POST, ..Self::put(key_suffix) }
    }

    /// The first read of such an object.
    pub fn get(path_suffix: &str) -> Self {
        Self { method: Method::GET, ..Self::put(path_suffix) }
    }

    /// The first POST to a path that ends so.
    pub fn post(path_suffix: &str) -> Self {
        Self { method: Method::POST, ..Self::put(path_suffix) }
    }

    /// The `n`-th such request instead of the first.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        Self { first: n, last: n, ..self }
    }

    /// The first `n` such requests.
    #[must_use]
    pub fn times(self, n: usize) -> Self {
        Self { last: n, ..self }
    }

    /// All such requests, until the fault is [healed](FaultProxy::heal).
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// A HEAD is a read too.
    fn meets(&self, method: &Method, path: &str) -> bool {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        *method == self.method && path.ends_with(&self.path_suffix)
    }
}

/// What happens to a request instead of being forwarded and answered.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The proxy answers with this status itself; the store never sees the request.
    Answer(StatusCode),
    /// 429 with `Retry-After` in whole seconds.
    TooManyRequests(u64),
    /// The connection is closed without an answer; the store never sees the request.
    HangUp,
    /// The store carries the request out, but the connection is closed without the answer.
    LoseAnswer,
    /// The connection is reset without an answer; the store never sees the request.
    Reset,
    /// Nothing happens until the client gives up; the store never sees the request.
    Stall,
    /// The store carries the request out, but nothing is answered until the client gives up.
    StallAnswer,
    /// The store carries the request out, and its answer comes in ten pieces over this time.
    Slow(Duration),
    /// The store carries the request out, and the connection is closed in the middle of its answer.
    Truncate,
    /// The store carries the request out, and its answer comes twice on the same connection.
    Duplicate,
}

/// When a request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the store has seen it. A client that goes away meanwhile never made the request.
    BeforeForwarding,
    /// After the store has carried it out, before the client learns so.
    AfterForwarding,
}

/// A request that waits at the proxy, or will.
#[derive(Clone, Debug)]
pub struct Hold {
    moment: Moment,
    arrived: watch::Sender<bool>,
    released: watch::Sender<bool>,
}

impl Hold {
    /// Waits until the request is there.
    pub async fn reached(&self) -> Result<()> {
        let mut arrived = self.arrived.subscribe();
        let arrived = tokio::time::timeout(wait::SOON, arrived.wait_for(|arrived| *arrived)).await;
        arrived.with_context(|| format!("no request to hold came within {:?}", wait::SOON))??;
        Ok(())
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    async fn pass(&self, moment: Moment) {
        if moment == self.moment {
            self.arrived.send_replace(true);
            // Its sender is in `self`, so this cannot fail.
            let _ = self.released.subscribe().wait_for(|released| *released).await;
        }
    }
}

/// A running proxy. Its connections end when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    url: String,
    address: String,
    shared: Arc<Shared>,
    listening: Mutex<Option<Listening>>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    rules: Mutex<Vec<Rule>>,
    log: RequestLog,
}

#[derive(Debug)]
struct Rule {
    on: On,
    seen: usize,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Fail(Fault),
    Hold(Hold),
}

impl FaultProxy {
    /// A proxy before `upstream`, `http://HOST:PORT`, on a free port.
    pub async fn start(upstream: &str) -> Result<Self> {
        let address = ports::free_address()?;
        let upstream = upstream.strip_prefix("http://").context("a proxy before http:// alone")?.to_owned();
        let shared = Arc::new(Shared { upstream, rules: Mutex::default(), log: RequestLog::default() });
        let url = format!("http://{address}");
        let proxy = Self { url, address, shared, listening: Mutex::default() };
        proxy.accept().await?;
        Ok(proxy)
    }

    /// Refuses connections from now on, and cuts those there are.
    pub async fn refuse(&self) {
        let listening = lock(&self.listening).take();
        if let Some(listening) = listening {
            listening.close().await;
        }
    }

    /// Accepts connections again.
    pub async fn accept(&self) -> Result<()> {
        self.refuse().await;
        let listener = ports::listen_again(&self.address).await?;
        let shared = self.shared.clone();
        let listening = Listening::on(listener, move |stream| connection::converse(stream, shared.clone()));
        *lock(&self.listening) = Some(listening);
        Ok(())
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets a fault. Of several that meet a request, the one that was set first happens.
    pub fn fail(&self, on: On, fault: Fault) {
        lock(&self.shared.rules).push(Rule { on, seen: 0, action: Action::Fail(fault) });
    }

    /// Lets requests wait at `moment` until they are released; never, if that is never asked for.
    pub fn hold(&self, on: On, moment: Moment) -> Hold {
        let hold = Hold { moment, arrived: watch::Sender::new(false), released: watch::Sender::new(false) };
        lock(&self.shared.rules).push(Rule { on, seen: 0, action: Action::Hold(hold.clone()) });
        hold
    }

    /// Takes back every fault and hold for the requests to come.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
    }

    /// All requests so far, in the order in which they came.
    pub fn records(&self) -> Vec<Record> {
        self.shared.log.records()
    }

    /// Forgets them.
    pub fn forget(&self) {
        self.shared.log.forget();
    }

    /// The paths of the requests of `method` that were answered with success, in their order.
    pub fn succeeded(&self, method: &Method) -> Vec<String> {
        let records = self.records().into_iter();
        records
            .filter(|record| record.method == *method && record.succeeded())
            .map(|record| record.path)
            .collect()
    }
}

impl Shared {
    /// An error ends the connection as it says.
    async fn handle(&self, request: Request<Incoming>) -> Result<Answer, Ending> {
        let (method, key) = (request.method().clone(), key(request.uri()));
        let number = self.log.asked(&request);
        let action = self.action(&method, &key);
        let answer = self.perform(action, request).await?;
        self.log.answered(number, answer.status());
        Ok(answer)
    }

    /// The action of the first rule that meets the request. Every rule that it meets counts it.
    fn action(&self, method: &Method, key: &str) -> Option<Action> {
        let mut chosen = None;
        for rule in lock(&self.rules).iter_mut().filter(|rule| rule.on.meets(method, key)) {
            rule.seen += 1;
            if (rule.on.first..=rule.on.last).contains(&rule.seen) && chosen.is_none() {
                chosen = Some(rule.action.clone());
            }
        }
        chosen
    }

    async fn perform(&self, action: Option<Action>, request: Request<Incoming>) -> Result<Answer, Ending> {
        match action {
            None => Ok(self.forward(request).await?),
            Some(Action::Hold(hold)) => {
                hold.pass(Moment::BeforeForwarding).await;
                let answer = self.forward(request).await;
                hold.pass(Moment::AfterForwarding).await;
                Ok(answer?)
            }
            Some(Action::Fail(fault)) => self.fail(fault, request).await,
        }
    }

    async fn fail(&self, fault: Fault, request: Request<Incoming>) -> Result<Answer, Ending> {
        match fault {
            Fault::Answer(status) => Ok(refuse(request, status, None).await?),
            Fault::TooManyRequests(seconds) => {
                Ok(refuse(request, StatusCode::TOO_MANY_REQUESTS, Some(seconds)).await?)
            }
            Fault::HangUp => Err(Ending::Close),
            Fault::Reset => Err(Ending::Reset),
            Fault::LoseAnswer => {
                self.forward(request).await?;
                Err(Ending::Close)
            }
            Fault::Stall => std::future::pending().await,
            Fault::StallAnswer => {
                self.forward(request).await?;
                std::future::pending().await
            }
            Fault::Slow(time) => Err(Ending::slow(self.forward(request).await?, time)),
            Fault::Truncate => Err(Ending::truncated(self.forward(request).await?)),
            Fault::Duplicate => Err(Ending::duplicated(self.forward(request).await?)),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Answer> {
        let (head, body) = request.into_parts();
        let body = Full::new(body.collect().await?.to_bytes());
        let stream = TcpStream::connect(&self.upstream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (head, body) = sender.send_request(Request::from_parts(head, body)).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }
}

/// The key of the object that a request is about: the parameter `name` of an upload to Google Cloud Storage, otherwise
/// the end of the path.
fn key(uri: &Uri) -> String {
    let name =
        uri.query().unwrap_or_default().split('&').find_map(|parameter| parameter.strip_prefix("name="));
    name.unwrap_or(uri.path()).replace("%2F", "/")
}

/// An error as S3 words it.
async fn refuse(request: Request<Incoming>, status: StatusCode, retry_after: Option<u64>) -> Result<Answer> {
    // A body that is left unread would make the client see a broken pipe instead of the answer.
    request.into_body().collect().await?;
    let code = match status.as_u16() {
        429 => "TooManyRequests",
        503 => "SlowDown",
        _ => "InternalError",
    };
    let body = format!("<Error><Code>{code}</Code><Message>a fault of the test</Message></Error>");
    let mut answer = Response::builder().status(status).header("content-type", "application/xml");
    if let Some(seconds) = retry_after {
        answer = answer.header(RETRY_AFTER, seconds);
    }
    Ok(answer.body(body.into())?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
