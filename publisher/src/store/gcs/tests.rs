use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use chancery_core::Marker;

use super::*;
use crate::store::LARGEST_OBJECT;

const PATH: &str = "openid/v1/jwks";
const OBJECT: &str = "/storage/v1/b/bucket/o/a%2Fopenid%2Fv1%2Fjwks?alt=media";
/// What a download of an object has that we wrote.
const OURS: &str = "X-Goog-Generation: 7\r\nX-Goog-Metageneration: 1\r\nETag: CAcQAQ==\r\nContent-Type: a/b\r\n\
     Cache-Control: private, max-age=0\r\nX-Goog-Meta-Chancery-Owner: us\r\nX-Goog-Meta-Chancery-Cache-Control: no-store\r\n";

/// What the server does with one request.
#[derive(Clone)]
enum Reply {
    /// Status line, header lines and body.
    GcsRefusal(&'static str, String, Vec<u8>),
    /// Announces one byte more than it sends.
    Truncated(&'static str, String, Vec<u8>),
    /// Closes the connection.
    Hangup,
    /// Says nothing.
    Silence,
}

fn answer(status: &'static str, headers: &str) -> Reply {
    Reply::GcsRefusal(status, headers.to_owned(), Vec::new())
}

fn refusal(status: &'static str, message: &str) -> Reply {
    let code: u16 = status.split(' ').next().unwrap().parse().unwrap();
    let body = serde_json::json!({ "error": { "code": code, "message": message, "errors": [] } });
    Reply::GcsRefusal(status, "Content-Type: application/json\r\n".to_owned(), body.to_string().into_bytes())
}

fn uploaded() -> Reply {
    let body = r#"{"name":"a/openid/v1/jwks","bucket":"bucket","generation":"8","metageneration":"1","etag":"CAgQAQ=="}"#;
    Reply::GcsRefusal("200 OK", "Content-Type: application/json\r\n".to_owned(), body.into())
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
                let asked = request(&mut stream).await;
                log.lock().unwrap().push(asked);
                let (status, headers, body, missing) = match replies.get(number).or(replies.last()).unwrap() {
                    Reply::GcsRefusal(status, headers, body) => (status, headers, body, 0),
                    Reply::Truncated(status, headers, body) => (status, headers, body, 1),
                    Reply::Hangup => continue,
                    Reply::Silence => {
                        silent.push(stream);
                        continue;
                    }
                };
                let length = body.len() + missing;
                let head = format!(
                    "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                // The client may have enough before the end.
                let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
            }
        });
        Self { port, requests }
    }

    async fn store(&self) -> GcsStore {
        let endpoint = Some(format!("http://127.0.0.1:{}", self.port));
        let prefix = "/a/".to_owned();
        let target = GcsTarget {
            endpoint,
            prefix,
            anonymous: true,
            timeout_seconds: 1,
            ..GcsTarget::of_bucket("bucket")
        };
        GcsStore::new(Arc::new(GcsConnection::open(&target).await.unwrap()), &target)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let whole = match length {
                Some(length) => body.len() >= length,
                None => !head.contains("transfer-encoding: chunked") || body.ends_with("\r\n0\r\n\r\n"),
            };
            if whole {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return text;
        }
    }
}

async fn write(store: &GcsStore, precondition: &Precondition) -> Result<Version, StoreError> {
    let marker = Marker { decision: 3, ..Marker::of("us".parse().unwrap()) };
    let put = Put {
        path: PATH,
        bytes: b"{\"keys\":[]}",
        media_type: "application/jwk-set+json",
        cache_control: "public, max-age=600",
        marker: &marker,
        precondition,
    };
    store.write(put).await
}

fn version(text: &str) -> Version {
    Version(text.to_owned())
}

#[tokio::test]
async fn a_write_is_one_request_with_its_condition_and_everything_that_is_served() {
    let server = Server::start(vec![uploaded()]).await;
    let store = server.store().await;
    let created = write(&store, &Precondition::Absent).await.unwrap();
    assert_eq!(created.0, "8/1/CAgQAQ==");
    write(&store, &Precondition::Unchanged(version("8/2/x"))).await.unwrap();
    let [create, replace] = server.requests().try_into().unwrap();
    let line = |request: &str| request.lines().next().unwrap().to_owned();
    assert_eq!(
        line(&create),
        "POST /upload/storage/v1/b/bucket/o?uploadType=multipart&name=a%2Fopenid%2Fv1%2Fjwks&ifGenerationMatch=0 HTTP/1.1"
    );
    for text in [
        "\"contentType\":\"application/jwk-set+json\"",
        "\"cacheControl\":\"public, max-age=600\"",
        "\"chancery-owner\":\"us\"",
        "\"chancery-decision\":\"3\"",
        "\"chancery-cache-control\":\"public, max-age=600\"",
        "{\"keys\":[]}",
    ] {
        assert!(create.contains(text), "{text} is not in {create}");
    }
    assert!(line(&replace).contains("&ifGenerationMatch=8&ifMetagenerationMatch=2 "), "{replace}");
}

#[tokio::test]
async fn a_read_brings_back_everything_and_a_changed_attribute_unsays_the_cache_header() {
    let patched = OURS.replace("Metageneration: 1", "Metageneration: 2");
    for (headers, version, cache_control) in
        [(OURS, "7/1/CAcQAQ==", Some("no-store")), (patched.as_str(), "7/2/CAcQAQ==", None)]
    {
        let reply = Reply::GcsRefusal("200 OK", headers.to_owned(), b"bytes".to_vec());
        let server = Server::start(vec![reply]).await;
        let object = server.store().await.read(PATH).await.unwrap().unwrap();
        assert_eq!(object.bytes, b"bytes");
        assert_eq!(object.version.0, version);
        assert_eq!(object.marker.unwrap().owner.as_str(), "us");
        assert_eq!(object.media_type.as_deref(), Some("a/b"));
        assert_eq!(object.cache_control.as_deref(), cache_control);
        let [request] = server.requests().try_into().unwrap();
        assert!(request.starts_with(&format!("GET {OBJECT} HTTP/1.1\r\n")), "{request}");
        assert!(!request.to_lowercase().contains("if-none-match"), "{request}");
    }
}

#[tokio::test]
async fn a_conditional_read_names_the_etag_and_understands_each_answer() {
    let again = |headers: &str| Reply::GcsRefusal("200 OK", headers.to_owned(), b"bytes".to_vec());
    let patched = OURS.replace("Metageneration: 1", "Metageneration: 2");
    for (reply, unchanged) in [
        (answer("304 Not Modified", "ETag: CAcQAQ==\r\n"), true),
        (again(OURS), true),
        (again(&patched), false),
        (again(&OURS.replace("Generation: 7", "Generation: 8")), false),
    ] {
        let server = Server::start(vec![reply]).await;
        let known = version("7/1/CAcQAQ==");
        let reading = server.store().await.read_unless(PATH, Some(&known)).await.unwrap();
        assert_eq!(reading == ConditionalRead::Unchanged, unchanged, "{reading:?}");
        let [request] = server.requests().try_into().unwrap();
        assert!(request.to_lowercase().contains("\r\nif-none-match: cacqaq==\r\n"), "{request}");
    }
    let server = Server::start(vec![answer("304 Not Modified", "")]).await;
    let error = server.store().await.read(PATH).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Misconfigured, "nothing was known: {error}");
}

#[tokio::test]
async fn two_reads_at_once_keep_their_conditions_apart() {
    let server = Server::start(vec![answer("304 Not Modified", "")]).await;
    let store = server.store().await;
    let (first, second) = (version("7/1/one"), version("7/1/two"));
    let (a, b) = tokio::join!(store.read_unless("a", Some(&first)), store.read_unless("b", Some(&second)));
    assert_eq!((a.unwrap(), b.unwrap()), (ConditionalRead::Unchanged, ConditionalRead::Unchanged));
    let requests = server.requests();
    for (path, etag) in [("a%2Fa?", "one"), ("a%2Fb?", "two")] {
        let request = requests.iter().find(|request| request.contains(path)).unwrap().to_lowercase();
        assert!(request.contains(&format!("\r\nif-none-match: {etag}\r\n")), "{request}");
    }
}

#[tokio::test]
async fn what_a_server_says_becomes_a_kind_after_one_request() {
    use StoreErrorKind as Kind;
    for (reply, read, write_) in [
        (
            refusal("404 Not Found", "The specified bucket does not exist."),
            Kind::NoSuchContainer,
            Kind::NoSuchContainer,
        ),
        (refusal("403 Forbidden", "us does not have storage.objects.get access"), Kind::Denied, Kind::Denied),
        (refusal("401 Unauthorized", "Invalid Credentials"), Kind::Denied, Kind::Denied),
        (refusal("429 Too Many Requests", "rateLimitExceeded"), Kind::Unavailable, Kind::Unavailable),
        (answer("503 Service Unavailable", ""), Kind::Unavailable, Kind::Unavailable),
        (answer("302 Found", "Location: https://example.com/\r\n"), Kind::Misconfigured, Kind::Misconfigured),
        (Reply::Silence, Kind::TimedOut, Kind::TimedOut),
        (Reply::Hangup, Kind::TimedOut, Kind::TimedOut),
    ] {
        let server = Server::start(vec![reply]).await;
        let store = server.store().await;
        let error = store.read(PATH).await.unwrap_err();
        assert_eq!(error.kind, read, "{error}");
        let error = write(&store, &Precondition::Absent).await.unwrap_err();
        assert_eq!(error.kind, write_, "{error}");
        assert!(error.to_string().contains(&store.describe()), "{error}");
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_broken_or_strange_download_is_never_taken_for_the_object() {
    use StoreErrorKind as Kind;
    let wrong = format!("{OURS}X-Goog-Hash: crc32c=AAAAAA==\r\n");
    for (reply, kind) in [
        (Reply::Truncated("200 OK", OURS.to_owned(), b"byte".to_vec()), Kind::Unavailable),
        (Reply::GcsRefusal("200 OK", wrong, b"bytes".to_vec()), Kind::Unavailable),
        (answer("200 OK", "ETag: x\r\n"), Kind::Misconfigured),
    ] {
        let server = Server::start(vec![reply]).await;
        let error = server.store().await.read(PATH).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[tokio::test]
async fn a_marker_that_cannot_be_read_does_not_pass_for_none() {
    let marked = answer("200 OK", &OURS.replace("Owner: us", "Owner: not one word"));
    let object = Server::start(vec![marked]).await.store().await.read(PATH).await.unwrap().unwrap();
    assert!(object.damage.unwrap().to_string().contains("\"not one word\""));
}

#[tokio::test]
async fn of_what_is_too_large_the_beginning_is_read() {
    let large = Reply::GcsRefusal("200 OK", OURS.to_owned(), vec![b' '; LARGEST_OBJECT + 70_000]);
    let object = Server::start(vec![large]).await.store().await.read(PATH).await.unwrap().unwrap();
    assert_eq!(object.bytes.len(), LARGEST_OBJECT + 1);
}

#[tokio::test]
async fn an_upload_without_a_whole_answer_may_have_taken_effect() {
    let cut = Reply::Truncated("200 OK", String::new(), b"{\"generation\":".to_vec());
    let no_json = Reply::GcsRefusal("200 OK", String::new(), b"<html>".to_vec());
    for reply in [cut, no_json] {
        let server = Server::start(vec![reply]).await;
        let error = write(&server.store().await, &Precondition::Absent).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::TimedOut, "{error}");
    }
    let nameless = Reply::GcsRefusal("200 OK", String::new(), b"{}".to_vec());
    let server = Server::start(vec![nameless]).await;
    let error = write(&server.store().await, &Precondition::Absent).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{error}");
}

#[tokio::test]
async fn an_absent_object_reads_as_absent_also_without_the_right_to_list() {
    let hidden = "us does not have storage.objects.list access to the Google Cloud Storage bucket.";
    for reply in [refusal("404 Not Found", "No such object: bucket/a"), refusal("403 Forbidden", hidden)] {
        let server = Server::start(vec![reply]).await;
        assert_eq!(server.store().await.read(PATH).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_version_of_another_kind_of_store_is_refused_before_anything_is_sent() {
    let server = Server::start(vec![uploaded()]).await;
    let store = server.store().await;
    let etag = version("\"d41d8cd98f00b204e9800998ecf8427e\"");
    assert!(store.read_unless(PATH, Some(&etag)).await.is_err());
    assert!(write(&store, &Precondition::Unchanged(etag)).await.is_err());
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_is_told_from_a_lost_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let store = Server { port, requests: Arc::default() }.store().await;
    let error = write(&store, &Precondition::Absent).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
}
