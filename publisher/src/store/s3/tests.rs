use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use chancery_core::Marker;

use super::*;
use crate::store::LARGEST_OBJECT;

const MARKED: &str =
    "ETag: \"v1\"\r\nContent-Type: a/b\r\nCache-Control: no-store\r\nX-Amz-Meta-Chancery-Owner: us\r\n";

/// What the server does with one request.
#[derive(Clone)]
enum Reply {
    /// Status line, header lines and body.
    S3Refusal(&'static str, String, Vec<u8>),
    /// Closes the connection.
    Hangup,
    /// Says nothing.
    Silence,
}

fn answer(status: &'static str, headers: &str) -> Reply {
    Reply::S3Refusal(status, headers.to_owned(), Vec::new())
}

fn refusal(status: &'static str, code: &str, message: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    Reply::S3Refusal(status, "Content-Type: application/xml\r\n".to_owned(), body.into_bytes())
}

/// A server that gives these replies in turn, the last one again and again, and keeps what it was asked.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = request(&mut stream).await;
                log.lock().unwrap().push(request);
                match replies.get(number).or(replies.last()).unwrap() {
                    Reply::S3Refusal(status, headers, body) => {
                        let length = body.len();
                        let head = format!(
                            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                        );
                        // The client may have enough before the end.
                        let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
                    }
                    Reply::Hangup => {}
                    Reply::Silence => silent.push(stream),
                }
            }
        });
        Self { port, requests }
    }

    async fn store(&self) -> S3Store {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let target = S3Target { endpoint: Some(endpoint), path_style: true, ..target() };
        store_of(&target).await
    }

    /// The requests in lower case.
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.to_lowercase()).collect()
    }
}

async fn store_of(target: &S3Target) -> S3Store {
    S3Store::new(Arc::new(S3Connection::open(target).await.unwrap()), target)
}

fn target() -> S3Target {
    S3Target {
        region: Some("eu-central-1".to_owned()),
        prefix: "a".to_owned(),
        timeout_seconds: 1,
        credentials_file: Some("src/store/s3/credentials.test".into()),
        ..S3Target::of_bucket("bucket")
    }
}

async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_lowercase().lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return text;
        }
    }
}

async fn write(store: &S3Store, precondition: &Precondition) -> Result<Version, StoreError> {
    let marker = Marker::of("us".parse().unwrap());
    let put = Put {
        path: "openid/v1/jwks",
        bytes: b"{\"keys\":[]}",
        media_type: "application/jwk-set+json",
        cache_control: "public, max-age=600",
        marker: &marker,
        precondition,
    };
    store.write(put).await
}

#[tokio::test]
async fn a_write_carries_its_condition_and_everything_that_is_served() {
    let server = Server::start(vec![answer("200 OK", "ETag: \"v2\"\r\n")]).await;
    let store = server.store().await;
    let version = write(&store, &Precondition::Absent).await.unwrap();
    assert!(version.0.starts_with("\"v2\" "), "{version:?}");
    write(&store, &Precondition::Unchanged(version)).await.unwrap();
    let [create, replace] = server.requests().try_into().unwrap();
    for line in [
        "put /bucket/a/openid/v1/jwks",
        "\r\nif-none-match: *\r\n",
        "\r\ncontent-type: application/jwk-set+json\r\n",
        "\r\ncache-control: public, max-age=600\r\n",
        "\r\nx-amz-meta-chancery-owner: us\r\n",
        "\r\n\r\n{\"keys\":[]}",
    ] {
        assert!(create.contains(line), "{line:?} is not in {create}");
    }
    assert!(replace.contains("\r\nif-match: \"v2\"\r\n") && !replace.contains("if-none-match"), "{replace}");
    // Servers that are not Amazon's refuse what they do not know.
    assert!(!create.contains("aws-chunked") && !create.contains("x-amz-checksum"), "{create}");
}

#[tokio::test]
async fn a_read_brings_back_everything() {
    let server = Server::start(vec![Reply::S3Refusal("200 OK", MARKED.to_owned(), b"bytes".to_vec())]).await;
    let object = server.store().await.read("openid/v1/jwks").await.unwrap().unwrap();
    assert_eq!(object.bytes, b"bytes");
    assert!(object.version.0.starts_with("\"v1\" "), "{:?}", object.version);
    assert_eq!(object.marker.unwrap().owner.as_str(), "us");
    assert_eq!(
        (object.media_type.as_deref(), object.cache_control.as_deref()),
        (Some("a/b"), Some("no-store"))
    );
}

#[tokio::test]
async fn an_object_that_may_not_be_read_is_never_overwritten() {
    let hidden = refusal("403 Forbidden", "AccessDenied", "Access Denied");
    let there = refusal("412 Precondition Failed", "PreconditionFailed", "");
    let server = Server::start(vec![hidden.clone(), there, hidden]).await;
    let store = server.store().await;
    assert_eq!(store.read("openid/v1/jwks").await.unwrap(), None, "as S3 says of absent objects");
    let error = write(&store, &Precondition::Absent).await.unwrap_err();
    assert_eq!(
        error.kind,
        StoreErrorKind::Conflict,
        "as far as anybody knows, it was created in the meantime"
    );
    let error = store.read("openid/v1/jwks").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Denied, "nobody creates what reads as absent again");
    assert!(error.to_string().contains("grant s3:GetObject"), "{error}");
    assert!(server.requests()[1].contains("if-none-match: *"));
}

#[tokio::test]
async fn without_the_right_to_list_a_lost_race_is_a_conflict_each_time() {
    let hidden = refusal("403 Forbidden", "AccessDenied", "Access Denied");
    let lost = refusal("412 Precondition Failed", "PreconditionFailed", "");
    let there = answer("200 OK", MARKED);
    let server = Server::start(vec![hidden, lost.clone(), there, lost]).await;
    let store = server.store().await;
    assert_eq!(store.read("openid/v1/jwks").await.unwrap(), None);
    let error = write(&store, &Precondition::Absent).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
    let theirs = store.read("openid/v1/jwks").await.unwrap().unwrap();
    let error = write(&store, &Precondition::Unchanged(theirs.version)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn a_passing_refusal_of_what_was_read_is_no_absence() {
    let hidden = refusal("403 Forbidden", "AccessDenied", "Access Denied");
    let there = answer("200 OK", MARKED);
    let server = Server::start(vec![there.clone(), hidden.clone(), hidden, there]).await;
    let store = server.store().await;
    let known = store.read("openid/v1/jwks").await.unwrap().unwrap().version;
    let error = store.read_unless("openid/v1/jwks", Some(&known)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Denied, "{error}");
    let reading = store.read_unless("openid/v1/jwks", Some(&known)).await.unwrap();
    assert_eq!(reading, ConditionalRead::Unchanged);
    assert!(server.requests()[1].starts_with("head ") && server.requests()[2].starts_with("get "));
}

#[tokio::test]
async fn what_is_known_is_not_read_again_unless_its_headers_differ() {
    let other = "ETag: \"v1\"\r\nContent-Type: a/b\r\nCache-Control: max-age=31536000\r\nX-Amz-Meta-Chancery-Owner: us\r\n";
    let replies = [MARKED, MARKED, other, other].map(|headers| answer("200 OK", headers));
    let server = Server::start(replies.to_vec()).await;
    let store = server.store().await;
    let known = store.read("openid/v1/jwks").await.unwrap().unwrap().version;
    let reading = store.read_unless("openid/v1/jwks", Some(&known)).await.unwrap();
    assert_eq!(reading, ConditionalRead::Unchanged);
    let ConditionalRead::Found(object) = store.read_unless("openid/v1/jwks", Some(&known)).await.unwrap()
    else {
        panic!("a copy in place passed for what was known")
    };
    assert_eq!(object.cache_control.as_deref(), Some("max-age=31536000"));
    let methods: Vec<_> = server.requests().iter().map(|r| r.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["get", "head", "head", "get"]);
}

#[tokio::test]
async fn an_absent_object_that_may_not_be_listed_is_created() {
    let hidden = refusal("403 Forbidden", "AccessDenied", "Access Denied");
    let server = Server::start(vec![hidden, answer("200 OK", "ETag: \"v1\"\r\n")]).await;
    let store = server.store().await;
    assert_eq!(store.read("openid/v1/jwks").await.unwrap(), None);
    write(&store, &Precondition::Absent).await.unwrap();
}

#[tokio::test]
async fn what_a_server_says_becomes_a_kind() {
    let marked = "ETag: \"v\"\r\nx-amz-meta-chancery-owner: not one word\r\n";
    let large = Reply::S3Refusal("200 OK", "ETag: \"v\"\r\n".to_owned(), vec![b' '; LARGEST_OBJECT + 70_000]);
    for (reply, read, write_) in [
        (
            refusal("404 Not Found", "NoSuchBucket", ""),
            StoreErrorKind::NoSuchContainer,
            StoreErrorKind::NoSuchContainer,
        ),
        (
            refusal("501 Not Implemented", "NotImplemented", ""),
            StoreErrorKind::Misconfigured,
            StoreErrorKind::Misconfigured,
        ),
        (refusal("503 Slow Down", "SlowDown", ""), StoreErrorKind::Unavailable, StoreErrorKind::Unavailable),
        (answer("200 OK", ""), StoreErrorKind::Misconfigured, StoreErrorKind::Misconfigured),
        (Reply::Silence, StoreErrorKind::TimedOut, StoreErrorKind::TimedOut),
        (Reply::Hangup, StoreErrorKind::TimedOut, StoreErrorKind::TimedOut),
    ] {
        let server = Server::start(vec![reply]).await;
        let store = server.store().await;
        let error = store.read("openid/v1/jwks").await.unwrap_err();
        assert_eq!(error.kind, read, "{error}");
        let error = write(&store, &Precondition::Absent).await.unwrap_err();
        assert_eq!(error.kind, write_, "{error}");
        assert!(error.to_string().contains(&store.describe()), "{error}");
        assert!(server.requests().len() <= 4, "two attempts each at most");
    }
    let server = Server::start(vec![answer("200 OK", marked)]).await;
    let object = server.store().await.read("openid/v1/jwks").await.unwrap().unwrap();
    assert!(object.damage.unwrap().to_string().contains("\"not one word\""), "it must not pass for none");
    let server = Server::start(vec![large]).await;
    let beginning = server.store().await.read("openid/v1/jwks").await.unwrap().unwrap();
    assert_eq!(beginning.bytes.len(), LARGEST_OBJECT + 1, "and not to its end");
}

#[tokio::test]
async fn a_conflict_is_a_conflict_in_each_of_its_forms() {
    let stale = Precondition::Unchanged(Version("\"v\"".to_owned()));
    for (reply, precondition) in [
        (refusal("412 Precondition Failed", "PreconditionFailed", ""), Precondition::Absent),
        (refusal("409 Conflict", "ConditionalRequestConflict", ""), Precondition::Absent),
        (refusal("404 Not Found", "NoSuchKey", ""), stale.clone()),
        (refusal("412 Precondition Failed", "PreconditionFailed", ""), stale),
    ] {
        let server = Server::start(vec![reply]).await;
        let error = write(&server.store().await, &precondition).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
    }
}

#[tokio::test]
async fn the_bucket_is_named_in_the_host_or_in_the_path() {
    let own = Some("https://s3.example.com:9000");
    for (endpoint, path_style, url) in [
        (None, false, "https://bucket.s3.eu-central-1.amazonaws.com/a/openid/v1/jwks?"),
        (None, true, "https://s3.eu-central-1.amazonaws.com/bucket/a/openid/v1/jwks?"),
        (own, false, "https://bucket.s3.example.com:9000/a/openid/v1/jwks?"),
        (own, true, "https://s3.example.com:9000/bucket/a/openid/v1/jwks?"),
    ] {
        let target = S3Target { endpoint: endpoint.map(str::to_owned), path_style, ..target() };
        let store = store_of(&target).await;
        let request =
            store.connection.client.get_object().bucket(&store.bucket).key(store.key("openid/v1/jwks"));
        let minute = PresigningConfig::expires_in(Duration::from_secs(60)).unwrap();
        let request = request.presigned(minute).await.unwrap();
        assert!(request.uri().starts_with(url), "{} came, expected {url}", request.uri());
    }
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_is_told_from_a_lost_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let target = S3Target { endpoint: Some(endpoint), path_style: true, ..target() };
    let store = store_of(&target).await;
    let error = write(&store, &Precondition::Absent).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
}
