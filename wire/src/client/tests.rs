use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::endpoint::EndpointRule;
use crate::secret::Secret;

const LIMIT: usize = 1000;

fn options() -> ClientOptions {
    ClientOptions::new(Duration::from_secs(5), LIMIT)
}

/// A server that gives this answer to each request, and the URL of it.
async fn serving(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    if stream.read_buf(&mut request).await.unwrap_or_default() == 0 {
                        return;
                    }
                }
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    url
}

async fn sent_to(url: &str) -> Result<HttpResponse, TransportError> {
    let endpoint = Endpoint::parse(url, &EndpointRule::any_host()).unwrap();
    let token = Secret::new("hunter2".to_owned()).bearer().unwrap();
    let request = HttpRequest::new(Method::GET, &endpoint).header(http::header::AUTHORIZATION, token);
    HttpClient::new(&options()).unwrap().send(request).await
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit_and_no_further() {
    let announced = |length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{}",
            "x".repeat(length)
        )
    };
    let endless =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", "1\r\nx\r\n".repeat(LIMIT + 1));
    let answer = sent_to(&serving(announced(LIMIT)).await).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, LIMIT));
    for too_large in [announced(LIMIT + 1), endless] {
        let error = sent_to(&serving(too_large).await).await.unwrap_err();
        assert_eq!(error, TransportError::TooLarge(LIMIT));
    }
    let cut = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nx".to_owned();
    assert_eq!(sent_to(&serving(cut).await).await.unwrap_err(), TransportError::CutOff);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_takes_no_secret_along() {
    let elsewhere = serving("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nelsewhere".to_owned()).await;
    let redirect =
        format!("HTTP/1.1 307 x\r\nLocation: {elsewhere}\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    let answer = sent_to(&serving(redirect).await).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("location")), (307, Some(elsewhere.as_str())));
    assert_eq!(answer.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn whoever_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let options = ClientOptions { timeout: Duration::from_millis(200), ..options() };
    let error = HttpClient::new(&options).unwrap().read_anonymously(&url).await.unwrap_err();
    assert_eq!(error, TransportError::Timeout);
    assert!(!error.is_before_request());
    drop(listener);
    let error = HttpClient::new(&options).unwrap().read_anonymously(&url).await.unwrap_err();
    assert_eq!((error.is_before_request(), error), (true, TransportError::Refused));
}

#[tokio::test]
async fn plain_http_can_be_ruled_out_for_everybody() {
    let url = serving("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let client = HttpClient::new(&ClientOptions { https_only: true, ..options() }).unwrap();
    assert!(client.read_anonymously(&url).await.is_err());
    assert!(client.read_anonymously("not a URL").await.is_err());
}

#[test]
fn what_cannot_be_used_is_said_without_a_password() {
    let failed = |proxy: &str| {
        let options = ClientOptions { proxies: Proxies::Named(proxy.to_owned()), ..options() };
        HttpClient::new(&options).unwrap_err().to_string()
    };
    for (proxy, said) in [
        ("proxy", "not a URL"),
        ("ftp://proxy", "neither http nor https"),
        ("http://me:hunter2@proxy", "user information"),
    ] {
        let error = failed(proxy);
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
    }
    let certificates = CertificateTrust::Only(b"no".to_vec());
    let error = HttpClient::new(&ClientOptions { certificates, ..options() }).unwrap_err();
    assert!(error.to_string().contains("holds no certificate"), "{error}");
}
