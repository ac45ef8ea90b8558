//! What a relying party, a cache and a browser read.

use chancery_core::DocumentKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::served::{DISCOVERY, HOST, ISSUER, JWKS, Served, documents_of, no_documents, read_to_end};

#[tokio::test]
async fn get_and_head_answer_with_the_documents_and_their_headers() {
    let server = Served::start(None).await;
    for (path, kind) in [(JWKS, DocumentKind::Jwks), (DISCOVERY, DocumentKind::Discovery)] {
        let expected = String::from_utf8(documents_of(ISSUER).document(kind).bytes).unwrap();
        let get = server.get(path).await;
        assert_eq!((get.status, get.body.as_str()), (200, expected.as_str()));
        assert_eq!(get.header("content-type"), Some(kind.media_type()));
        assert_eq!(get.header("content-length"), Some(expected.len().to_string().as_str()));
        assert_eq!(get.header("cache-control"), Some("public, max-age=600"));
        assert_eq!(get.header("access-control-allow-origin"), Some("*"));
        assert_eq!(get.header("x-content-type-options"), Some("nosniff"));
        assert!(get.header("date").is_some() && get.header("strict-transport-security").is_none());

        let head = server.ask("HEAD", path, &[]).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        assert_eq!(head.header("content-length"), get.header("content-length"));
        assert_eq!(head.header("etag"), get.header("etag"));
        assert_eq!(server.ask("HEAD", "/elsewhere", &[]).await.body, "");
    }
}

#[tokio::test]
async fn a_cache_that_knows_the_tag_is_told_so_until_the_bytes_change() {
    let documents = no_documents(&[ISSUER]);
    let server = Served::start_with(documents, None).await;
    server.documents.replace(&[documents_of(ISSUER)]).unwrap();
    let tag = server.get(JWKS).await.header("etag").unwrap().to_owned();
    let unchanged = server.ask("GET", JWKS, &[("If-None-Match", &tag)]).await;
    assert_eq!((unchanged.status, unchanged.body.as_str()), (304, ""));
    assert_eq!(unchanged.header("etag"), Some(tag.as_str()));
    assert_eq!(unchanged.header("cache-control"), Some("public, max-age=600"));
    assert_eq!(server.ask("GET", DISCOVERY, &[("If-None-Match", &tag)]).await.status, 200);
}

#[tokio::test]
async fn what_is_not_ours_is_refused_by_its_own_code_and_never_cached() {
    let server = Served::start(None).await;
    for (method, path, host, status) in [
        ("POST", JWKS, HOST, 405),
        ("OPTIONS", DISCOVERY, HOST, 405),
        ("GET", "/", HOST, 404),
        ("GET", "/openid/v1/jwks", HOST, 404),
        ("GET", "/cluster-a/openid/v1/jwks/", HOST, 404),
        ("GET", "/cluster-a/../cluster-a/openid/v1/jwks", HOST, 404),
        ("GET", JWKS, "other.example.com", 421),
        ("GET", "/", "other.example.com", 421),
        ("GET", JWKS, "id.example.com:8443", 421),
    ] {
        let reply = server.ask(method, path, &[("Host", host)]).await;
        assert_eq!(reply.status, status, "{method} {path} on {host}");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("allow"), (status == 405).then_some("GET, HEAD"));
        assert!(!reply.body.is_empty() && !reply.body.contains("cluster-a"), "{}", reply.body);
    }
}

#[tokio::test]
async fn before_the_first_key_a_client_is_asked_to_come_back() {
    let issuers = [ISSUER, "https://id.example.com/cluster-b"];
    let server = Served::start_with(no_documents(&issuers), None).await;
    let not_yet = server.get(JWKS).await;
    assert_eq!((not_yet.status, not_yet.header("retry-after")), (503, Some("5")));
    assert_eq!(server.get("/elsewhere").await.status, 404);

    server.documents.replace(&[documents_of(ISSUER)]).unwrap();
    assert_eq!(server.get(JWKS).await.status, 200);
    assert_eq!(server.get("/cluster-b/openid/v1/jwks").await.status, 503);
}

#[tokio::test]
async fn many_requests_share_a_connection_and_see_changes_in_between() {
    let server = Served::start_with(no_documents(&[ISSUER]), None).await;
    let mut stream = server.connect().await;
    let request = format!("GET {JWKS} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let mut answer = [0; 12];
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    server.documents.replace(&[documents_of(ISSUER)]).unwrap();
    let last = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all(last.as_bytes()).await.unwrap();
    assert!(read_to_end(&mut stream).await.contains("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn answers_are_counted_by_code() {
    let server = Served::start(None).await;
    server.get(JWKS).await;
    server.get(JWKS).await;
    server.get("/elsewhere").await;
    let text = server.metrics.render(jiff::Timestamp::UNIX_EPOCH).unwrap();
    for line in
        [r#"chancery_http_requests_total{code="200"} 2"#, r#"chancery_http_requests_total{code="404"} 1"#]
    {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_request_never_gets_complete_is_closed() {
    let server = Served::start(None).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /cluster-a/openid/v1/jwks HTTP/1.1\r\nHost: id.exam").await.unwrap();
    let mut nothing = Vec::new();
    // Time is paused and advances only while everybody waits, so this is no wait.
    stream.read_to_end(&mut nothing).await.unwrap();
    assert_eq!(nothing, b"");
}

#[tokio::test]
async fn a_request_head_without_end_is_refused() {
    let server = Served::start(None).await;
    let long = "a".repeat(20_000);
    let reply = server.ask("GET", JWKS, &[("X-Long", &long)]).await;
    assert_eq!(reply.status, 431);
}
