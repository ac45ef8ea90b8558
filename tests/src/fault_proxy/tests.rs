use std::convert::Infallible;
use std::time::Duration;

use tokio::net::TcpListener;

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
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
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
    let sent = tokio::spawn(crate::http::client(None).unwrap().put(format!("{}/gone", proxy.url())).send());
    hold.reached().await.unwrap();
    sent.abort();
    let _ = sent.await;
    // The proxy sees the end of that connection before another request can be asked and answered twice.
    put(&client, &proxy, "next").await.unwrap();
    hold.release();
    put(&client, &proxy, "next").await.unwrap();
    assert!(lock(&asked).iter().all(|asked| asked.starts_with("PUT /next")), "{:?}", lock(&asked));
}

/// What a client reads of one GET: the status and the body, or nothing.
async fn got(client: &reqwest::Client, proxy: &FaultProxy) -> reqwest::Result<(u16, String)> {
    let answer = client.get(format!("{}/a", proxy.url())).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

#[tokio::test]
async fn a_reset_or_truncated_answer_is_an_error_and_a_slow_one_is_not() {
    let (url, asked) = store().await;
    let proxy = FaultProxy::start(&url).await.unwrap();
    let client = crate::http::client(None).unwrap();
    for (fault, good, reached) in [
        (Fault::Reset, false, 0),
        (Fault::Truncate, false, 1),
        (Fault::Slow(Duration::from_millis(20)), true, 1),
        (Fault::Duplicate, true, 1),
    ] {
        lock(&asked).clear();
        proxy.heal();
        // Clients repeat a GET whose connection broke before an answer began.
        proxy.fail(On::get("").always(), fault.clone());
        assert_eq!(got(&client, &proxy).await.is_ok(), good, "{fault:?}");
        assert_eq!(lock(&asked).len(), reached, "{fault:?}");
    }
}

#[tokio::test]
async fn a_duplicated_answer_is_never_taken_for_that_of_the_next_request() {
    let (url, _) = store().await;
    let proxy = FaultProxy::start(&url).await.unwrap();
    let client = crate::http::client(None).unwrap();
    proxy.fail(On::get(""), Fault::Duplicate);
    proxy.fail(On::get("").nth(2), Fault::Answer(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(got(&client, &proxy).await.unwrap().0, 200);
    assert_eq!(got(&client, &proxy).await.unwrap().0, 503);
}

#[tokio::test]
async fn refused_connections_are_accepted_again() {
    let (url, _) = store().await;
    let proxy = FaultProxy::start(&url).await.unwrap();
    let client = crate::http::client(None).unwrap();
    proxy.refuse().await;
    assert!(got(&client, &proxy).await.is_err_and(|error| error.is_connect()));
    proxy.accept().await.unwrap();
    assert_eq!(got(&client, &proxy).await.unwrap().0, 200);
}

#[tokio::test]
async fn the_log_holds_what_was_asked_but_no_secret() {
    let (url, _) = store().await;
    let proxy = FaultProxy::start(&url).await.unwrap();
    let client = crate::http::client(None).unwrap();
    let put = client.put(format!("{}/a?b=c", proxy.url())).header("If-Match", "\"v\"").bearer_auth("hunter2");
    put.send().await.unwrap();
    let [record] = proxy.records().try_into().unwrap();
    assert_eq!(record.to_string(), "PUT /a?b=c if-match: \"v\" -> 200");
    assert_eq!(record.header("authorization"), Some(""));
    assert!(record.is_conditional() && record.succeeded());
    assert!(!format!("{record:?}").contains("hunter2"));
    proxy.forget();
    assert_eq!(proxy.records(), []);
}
