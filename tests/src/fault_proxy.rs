//! A proxy in front of an object store that fails as networks and stores fail, where and when a test says.
//!
//! It passes on every header as it came, `Host` too, so that the signature of a request still holds (SigV4 signs
//! the host that the client knows, and the server compares it with the header it got).

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{IF_NONE_MATCH, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::wait;

type Answer = Response<Content>;

/// The content of an answer; an error cuts the connection after what was sent of it.
#[derive(Debug)]
struct Content {
    bytes: Option<Bytes>,
    announced: u64,
    /// How often it is asked for more before it breaks off; what was sent must have left before.
    breaks_off_after: Option<u32>,
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self { announced: bytes.len() as u64, bytes: Some(bytes), breaks_off_after: None }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = anyhow::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, anyhow::Error>>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match &mut self.breaks_off_after {
            None => Poll::Ready(None),
            Some(0) => Poll::Ready(Some(Err(anyhow!("truncated")))),
            Some(times) => {
                *times -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}

/// Which requests a fault meets: those of one method whose path or query ends so, counted from when the fault was set.
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

    /// The first read of such an object.
    pub fn get(path_suffix: &str) -> Self {
        Self { method: Method::GET, ..Self::put(path_suffix) }
    }

    /// The first upload to Google Cloud Storage of an object whose key ends with `key_suffix`, which stands in the query.
    pub fn upload(key_suffix: &str) -> Self {
        Self { method: Method::POST, ..Self::put(key_suffix) }
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

    fn meets(&self, record: &Record) -> bool {
        record.method == self.method && record.key().ends_with(&self.path_suffix)
    }
}

/// What happens to a request instead of being forwarded and answered.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The proxy answers with this status itself; the store never sees the request.
    Answer(StatusCode),
    /// 429 with `Retry-After` in whole seconds.
    TooManyRequests(u64),
    /// The store carries the request out, but its answer ends before its last byte.
    Truncate,
    /// The connection is closed without an answer; the store never sees the request.
    HangUp,
    /// The store carries the request out, but the connection is closed without the answer.
    LoseAnswer,
    /// Nothing happens until the client gives up; the store never sees the request.
    Stall,
    /// The store carries the request out, but nothing is answered until the client gives up.
    StallAnswer,
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

/// A request as the proxy saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query as it was sent; empty if there was none.
    pub query: String,
    /// `If-None-Match`, where it was sent.
    pub if_none_match: Option<String>,
    /// What was answered, by the store or by a fault; none if nothing was (yet).
    pub status: Option<u16>,
}

impl Record {
    fn of<B>(request: &Request<B>) -> Self {
        let condition = request.headers().get(IF_NONE_MATCH);
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            if_none_match: condition.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            status: None,
        }
    }

    /// The key of the object that it is about: the parameter `name` of an upload to Google Cloud Storage, otherwise
    /// the end of the path.
    fn key(&self) -> String {
        let name = self.query.split('&').find_map(|parameter| parameter.strip_prefix("name="));
        name.unwrap_or(&self.path).replace("%2F", "/")
    }
}

/// A running proxy. Its connections end when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    rules: Mutex<Vec<Rule>>,
    records: Mutex<Vec<Record>>,
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
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let upstream = upstream.strip_prefix("http://").context("a proxy before http:// alone")?.to_owned();
        let shared = Arc::new(Shared { upstream, rules: Mutex::default(), records: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { url, shared, accepting })
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
        lock(&self.shared.records).clone()
    }

    /// The paths of the requests of `method` that were answered with success, in their order.
    pub fn succeeded(&self, method: &Method) -> Vec<String> {
        let success = |record: &Record| record.status.is_some_and(|status| (200..300).contains(&status));
        let records = self.records().into_iter();
        records
            .filter(|record| record.method == *method && success(record))
            .map(|record| record.path)
            .collect()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Ends the connections with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = hyper::service::service_fn(|request| shared.handle(request));
            let server = hyper::server::conn::http1::Builder::new();
            // An error is a connection that we cut, or a client that has gone.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Shared {
    /// An error cuts the connection.
    async fn handle(&self, request: Request<Incoming>) -> Result<Answer> {
        let record = Record::of(&request);
        let action = self.action(&record);
        let number = {
            let mut records = lock(&self.records);
            records.push(record);
            records.len() - 1
        };
        let answer = self.perform(action, request).await?;
        if let Some(record) = lock(&self.records).get_mut(number) {
            record.status = Some(answer.status().as_u16());
        }
        Ok(answer)
    }

    /// The action of the first rule that meets the request. Every rule that it meets counts it.
    fn action(&self, record: &Record) -> Option<Action> {
        let mut chosen = None;
        for rule in lock(&self.rules).iter_mut().filter(|rule| rule.on.meets(record)) {
            rule.seen += 1;
            if (rule.on.first..=rule.on.last).contains(&rule.seen) && chosen.is_none() {
                chosen = Some(rule.action.clone());
            }
        }
        chosen
    }

    async fn perform(&self, action: Option<Action>, request: Request<Incoming>) -> Result<Answer> {
        match action {
            None => self.forward(request).await,
            Some(Action::Hold(hold)) => {
                hold.pass(Moment::BeforeForwarding).await;
                let answer = self.forward(request).await;
                hold.pass(Moment::AfterForwarding).await;
                answer
            }
            Some(Action::Fail(fault)) => match fault {
                Fault::Answer(status) => refuse(request, status, None).await,
                Fault::TooManyRequests(seconds) => {
                    refuse(request, StatusCode::TOO_MANY_REQUESTS, Some(seconds)).await
                }
                Fault::Truncate => Ok(truncated(self.forward(request).await?)),
                Fault::HangUp => Err(anyhow!("hung up")),
                Fault::LoseAnswer => {
                    self.forward(request).await?;
                    Err(anyhow!("lost the answer"))
                }
                Fault::Stall => std::future::pending().await,
                Fault::StallAnswer => {
                    self.forward(request).await?;
                    std::future::pending().await
                }
            },
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Answer> {
        let (head, body) = request.into_parts();
        let body = Full::new(body.collect().await?.to_bytes());
        let stream = TcpStream::connect(&self.upstream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (head, body) = sender.send_request(Request::from_parts(head, body)).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes().into()))
    }
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
    Ok(answer.body(Bytes::from(body).into())?)
}

/// The answer without the last byte of its content.
fn truncated(answer: Answer) -> Answer {
    answer.map(|content| {
        let bytes = content.bytes.map(|bytes| bytes.slice(..bytes.len().saturating_sub(1)));
        Content { bytes, breaks_off_after: Some(2), ..content }
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;

    /// A store that answers every request with the `Host` it was sent, and keeps what it was asked.
    async fn store() -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keeps = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = hyper::service::service_fn(|request: Request<Incoming>| {
                    let keeps = keeps.clone();
                    async move {
                        let host = request.headers()["host"].to_str().unwrap().to_owned();
                        let asked = format!("{} {}", request.method(), request.uri());
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        lock(&keeps).push(format!("{asked} {}", String::from_utf8_lossy(&body)));
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(host))))
                    }
                });
                let server = hyper::server::conn::http1::Builder::new();
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            }
        });
        (url, asked)
    }

    async fn put(client: &reqwest::Client, proxy: &FaultProxy, path: &str) -> reqwest::Result<u16> {
        let sent = client.put(format!("{}/{path}", proxy.url())).body("content").send().await?;
        Ok(sent.status().as_u16())
    }

    #[tokio::test]
    async fn what_meets_no_fault_is_passed_on_as_it_came() {
        let (url, asked) = store().await;
        let proxy = FaultProxy::start(&url).await.unwrap();
        let client = crate::http::client(None).unwrap();
        let sent = client.put(format!("{}/b/jwks?x-id=PutObject", proxy.url())).body("content");
        let host = sent.send().await.unwrap().text().await.unwrap();
        assert_eq!(format!("http://{host}"), proxy.url());
        assert_eq!(*lock(&asked), ["PUT /b/jwks?x-id=PutObject content"]);
        assert_eq!(proxy.succeeded(&Method::PUT), ["/b/jwks"]);
        assert_eq!(proxy.succeeded(&Method::GET), [""; 0]);
    }

    #[tokio::test]
    async fn faults_meet_the_requests_they_were_set_for_and_no_others() {
        let (url, asked) = store().await;
        let proxy = FaultProxy::start(&url).await.unwrap();
        let client = crate::http::client(None).unwrap();
        proxy.fail(On::put("jwks").nth(2), Fault::Answer(StatusCode::SERVICE_UNAVAILABLE));
        proxy.fail(On::get(""), Fault::TooManyRequests(1));
        let mut statuses = Vec::new();
        for path in ["jwks", "other", "jwks", "jwks"] {
            statuses.push(put(&client, &proxy, path).await.unwrap());
        }
        assert_eq!(statuses, [200, 200, 503, 200]);
        assert_eq!(lock(&asked).len(), 3);
        let refused = client.get(proxy.url()).send().await.unwrap();
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()["retry-after"]),
            (429, &"1".parse().unwrap())
        );
        assert_eq!(client.get(proxy.url()).send().await.unwrap().status(), 200);
        let statuses: Vec<_> = proxy.records().into_iter().map(|record| record.status).collect();
        assert_eq!(statuses, [200, 200, 503, 200, 429, 200].map(Some));
    }

    #[tokio::test]
    async fn a_cut_connection_is_an_error_whether_the_store_was_asked_or_not() {
        let (url, asked) = store().await;
        let proxy = FaultProxy::start(&url).await.unwrap();
        let client = crate::http::client(None).unwrap();
        proxy.fail(On::put("").always(), Fault::HangUp);
        assert!(put(&client, &proxy, "a").await.is_err());
        assert_eq!(lock(&asked).len(), 0);
        proxy.heal();
        proxy.fail(On::put("").always(), Fault::LoseAnswer);
        assert!(put(&client, &proxy, "a").await.is_err());
        assert_eq!(lock(&asked).iter().filter(|asked| asked.starts_with("PUT")).count(), 1);
        assert!(proxy.records().iter().all(|record| record.status.is_none()));
    }

    #[tokio::test]
    async fn a_truncated_answer_is_announced_whole() {
        let (url, asked) = store().await;
        let proxy = FaultProxy::start(&url).await.unwrap();
        let client = crate::http::client(None).unwrap();
        proxy.fail(On::upload("a/jwks"), Fault::Truncate);
        let sent = client.post(format!("{}/o?name=a%2Fjwks&x=y", proxy.url())).send().await.unwrap();
        assert_eq!(sent.status(), 200);
        assert!(sent.bytes().await.is_err());
        assert_eq!(*lock(&asked), ["POST /o?name=a%2Fjwks&x=y "]);
        assert_eq!(proxy.records()[0].query, "name=a%2Fjwks&x=y");
    }

    #[tokio::test]
    async fn a_stalled_request_is_not_answered() {
        let (url, asked) = store().await;
        let proxy = FaultProxy::start(&url).await.unwrap();
        let client = crate::http::client(None).unwrap();
        for (fault, reached) in [(Fault::Stall, 0), (Fault::StallAnswer, 1)] {
            proxy.heal();
            proxy.fail(On::put(""), fault);
            let sent = client.put(proxy.url()).timeout(Duration::from_millis(300)).send().await;
            assert!(sent.is_err_and(|error| error.is_timeout()));
            assert_eq!(lock(&asked).len(), reached);
        }
    }

    #[tokio::test]
    async fn a_held_request_waits_and_one_whose_client_goes_away_is_never_made() {
        let (url, asked) = store().await;
        let proxy = FaultProxy::start(&url).await.unwrap();
        let client = crate::http::client(None).unwrap();
        for (moment, reached) in [(Moment::BeforeForwarding, 0), (Moment::AfterForwarding, 1)] {
            lock(&asked).clear();
            let hold = proxy.hold(On::put("a"), moment);
            let sent = tokio::spawn(client.put(format!("{}/a", proxy.url())).send());
            hold.reached().await.unwrap();
            assert_eq!(lock(&asked).len(), reached);
            hold.release();
            assert_eq!(sent.await.unwrap().unwrap().status(), 200);
            assert_eq!(lock(&asked).len(), 1);
        }
        lock(&asked).clear();
        let hold = proxy.hold(On::put("gone"), Moment::BeforeForwarding);
        let sent =
            tokio::spawn(crate::http::client(None).unwrap().put(format!("{}/gone", proxy.url())).send());
        hold.reached().await.unwrap();
        sent.abort();
        let _ = sent.await;
        // The proxy sees the end of that connection before another request can be asked and answered twice.
        put(&client, &proxy, "next").await.unwrap();
        hold.release();
        put(&client, &proxy, "next").await.unwrap();
        assert!(lock(&asked).iter().all(|asked| asked.starts_with("PUT /next")), "{:?}", lock(&asked));
    }
}
