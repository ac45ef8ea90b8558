use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use chancery_core::Marker;

use super::*;
use crate::target::AzureCredential;

/// What the server does with one request.
#[derive(Clone)]
enum Reply {
    /// Status line, header lines and body.
    AzureRefusal(&'static str, String, Vec<u8>),
    /// Half of the body that was announced.
    Half,
    /// Closes the connection.
    Hangup,
    /// Says nothing.
    Silence,
}

fn store_of(target: &AzureBlobTarget) -> Result<AzureBlobStore, TargetError> {
    AzureBlobStore::new(Arc::new(AzureBlobConnection::open(target)?), target)
}

fn answer(status: &'static str, headers: &str) -> Reply {
    Reply::AzureRefusal(status, headers.to_owned(), Vec::new())
}

fn refusal(status: &'static str, code: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>words\nRequestId:x</Message></Error>");
    Reply::AzureRefusal(status, format!("x-ms-error-code: {code}\r\n"), body.into_bytes())
}

/// A server that gives one reply again and again, and keeps what it was asked.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    _dir: tempfile::TempDir,
    sas: std::path::PathBuf,
}

impl Server {
    async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = head(&mut stream).await;
                log.lock().unwrap().push(request);
                let (status, headers, body, length) = match &reply {
                    Reply::AzureRefusal(status, headers, body) => {
                        (*status, headers.as_str(), body.as_slice(), body.len())
                    }
                    Reply::Half => ("200 OK", "ETag: \"v\"\r\n", b"half".as_slice(), 8),
                    Reply::Hangup => continue,
                    Reply::Silence => {
                        silent.push(stream);
                        continue;
                    }
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                // The client may have enough before the end.
                let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let sas = dir.path().join("sas");
        std::fs::write(&sas, "sv=2026-04-06&sp=rcw&sig=hunter2\n").unwrap();
        Self { port, requests, _dir: dir, sas }
    }

    fn store(&self) -> AzureBlobStore {
        let target = AzureBlobTarget {
            endpoint: Some(format!("http://127.0.0.1:{}/account", self.port)),
            prefix: "a".to_owned(),
            timeout_seconds: 1,
            sas_file: Some(self.sas.clone()),
            ..AzureBlobTarget::of_container("$web")
        };
        store_of(&target).unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A request with a body of less than its first packet, in lower case.
async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return text;
        }
    }
}

async fn write(store: &AzureBlobStore, precondition: &Precondition) -> Result<Version, StoreError> {
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
async fn a_write_is_one_request_with_everything_that_is_served() {
    let server = Server::start(answer("201 Created", "ETag: \"v2\"\r\n")).await;
    let store = server.store();
    let version = write(&store, &Precondition::Absent).await.unwrap();
    assert_eq!(version.0, "\"v2\"");
    write(&store, &Precondition::Unchanged(version)).await.unwrap();
    let [create, replace] = server.requests().try_into().unwrap();
    for line in [
        "put /account/$web/a/openid/v1/jwks?sv=2026-04-06&sp=rcw&sig=hunter2 http/1.1",
        "\r\nif-none-match: *\r\n",
        "\r\nx-ms-blob-type: blockblob\r\n",
        "\r\nx-ms-blob-content-type: application/jwk-set+json\r\n",
        "\r\nx-ms-blob-cache-control: public, max-age=600\r\n",
        "\r\nx-ms-meta-chancery_owner: us\r\n",
        "\r\n\r\n{\"keys\":[]}",
    ] {
        assert!(create.contains(line), "{line:?} is not in {create}");
    }
    assert!(replace.contains("\r\nif-match: \"v2\"\r\n") && !replace.contains("if-none-match"), "{replace}");
}

#[tokio::test]
async fn a_conditional_read_of_what_is_known_brings_nothing_back() {
    let server = Server::start(answer("304 Not Modified", "")).await;
    let (store, known) = (server.store(), Version("\"v\"".to_owned()));
    assert_eq!(store.read_unless("x", Some(&known)).await.unwrap(), ConditionalRead::Unchanged);
    let [request] = server.requests().try_into().unwrap();
    assert!(request.contains("\r\nif-none-match: \"v\"\r\n"), "{request}");
}

#[tokio::test]
async fn what_a_server_says_becomes_a_kind_and_never_repeats_the_signature() {
    use StoreErrorKind as Kind;
    for (reply, read, written) in [
        (refusal("404 Not Found", "ContainerNotFound"), Kind::NoSuchContainer, Some(Kind::NoSuchContainer)),
        (refusal("403 Forbidden", "AuthenticationFailed"), Kind::Denied, Some(Kind::Denied)),
        (refusal("503 Server Busy", "ServerBusy"), Kind::Unavailable, Some(Kind::Unavailable)),
        (answer("404 Not Found", ""), Kind::Misconfigured, Some(Kind::Misconfigured)),
        (answer("201 Created", ""), Kind::Misconfigured, Some(Kind::Misconfigured)),
        (answer("200 OK", ""), Kind::Misconfigured, None),
        (Reply::Half, Kind::Unavailable, None),
        (Reply::Silence, Kind::TimedOut, Some(Kind::TimedOut)),
        (Reply::Hangup, Kind::TimedOut, Some(Kind::TimedOut)),
    ] {
        let server = Server::start(reply).await;
        let store = server.store();
        let error = store.read("openid/v1/jwks").await.unwrap_err();
        assert_eq!(error.kind, read, "{error}");
        assert!(error.to_string().contains(&store.describe()), "{error}");
        assert!(!format!("{error} {error:?} {store:?}").contains("hunter2"), "{error:?}");
        assert!(server.requests().len() <= 2, "two attempts at most");
        let Some(kind) = written else { continue };
        let error = write(&store, &Precondition::Absent).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_marker_that_cannot_be_read_does_not_pass_for_none() {
    let marked = answer("200 OK", "ETag: \"v\"\r\nx-ms-meta-chancery_owner: not one word\r\n");
    let object = Server::start(marked).await.store().read("openid/v1/jwks").await.unwrap().unwrap();
    assert!(object.damage.unwrap().to_string().contains("\"not one word\""));
}

#[tokio::test]
async fn of_what_is_too_large_the_beginning_is_read() {
    let content = vec![b' '; LARGEST_OBJECT + 70_000];
    let large = Reply::AzureRefusal("200 OK", "ETag: \"v\"\r\n".to_owned(), content);
    let object = Server::start(large).await.store().read("openid/v1/jwks").await.unwrap().unwrap();
    assert_eq!(object.bytes.len(), LARGEST_OBJECT + 1);
}

#[tokio::test]
async fn a_server_that_asks_for_patience_is_asked_once_more() {
    let server = Server::start(answer("429 Too Many Requests", "Retry-After: 1\r\n")).await;
    let error = server.store().read("x").await.unwrap_err();
    assert_eq!((error.kind, server.requests().len()), (StoreErrorKind::Unavailable, 2), "{error}");
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_is_told_from_a_lost_answer() {
    let mut server = Server::start(Reply::Hangup).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = server.store().read("x").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn a_token_is_not_sent_without_tls() {
    let target = AzureBlobTarget {
        endpoint: Some("http://azure.example".to_owned()),
        credential: Some(AzureCredential::Cli),
        ..AzureBlobTarget::of_container("documents")
    };
    let error = store_of(&target).unwrap_err().to_string();
    assert!(error.contains("azureBlob.endpoint") && error.contains("https://"), "{error}");
    let elsewhere = client::base(&target, false).unwrap_err().to_string();
    assert!(elsewhere.contains("azureBlob.endpoint"), "a signature is as good as a token: {elsewhere}");
    let emulator = AzureBlobTarget { endpoint: Some("http://127.0.0.1:10000/account".to_owned()), ..target };
    assert_eq!(client::base(&emulator, false).unwrap().as_str(), "http://127.0.0.1:10000/account/documents");
}

#[test]
fn each_cloud_has_its_blob_endpoint() {
    let account = |account: &str| AzureBlobTarget {
        account: Some(account.to_owned()),
        prefix: "/a/b/".to_owned(),
        ..AzureBlobTarget::of_container("$web")
    };
    let china = AzureBlobTarget {
        account: None,
        endpoint: Some("https://oidc.blob.core.chinacloudapi.cn/".to_owned()),
        ..account("")
    };
    for (target, url) in [
        (account("oidc"), "https://oidc.blob.core.windows.net/$web/a/b"),
        (china, "https://oidc.blob.core.chinacloudapi.cn/$web/a/b"),
    ] {
        assert_eq!(client::base(&target, true).unwrap().as_str(), url);
        assert_eq!(target.to_string(), url);
    }
}
