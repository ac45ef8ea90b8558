//! TLS: both versions of HTTP, and certificates that change under way.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use chancery_cluster::listener::Connections;
use chancery_issuer::metrics::Metrics;
use chancery_issuer::serve::{Documents, ListenError, ServeConfig, Server, ServerParts, TlsConfig};
use rcgen::{CertificateParams, KeyPair, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::served::{HOST, ISSUER, JWKS, PATIENCE, Served, ask, documents_of, eventually, no_documents};

/// A certificate for [`HOST`] with its key, as PEM.
#[derive(Clone)]
struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn new() -> Self {
        let made = generate_simple_self_signed([HOST.to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn of_another_host() -> Self {
        let made = generate_simple_self_signed(["other.example.com".to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn expired() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([HOST.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        Self { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    fn write(&self, folder: &Path) {
        replace(&folder.join("tls.crt"), &self.certificate);
        replace(&folder.join("tls.key"), &self.key);
    }
}

fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, file).unwrap();
}

fn files(folder: &Path) -> TlsConfig {
    TlsConfig { certificate: folder.join("tls.crt"), private_key: folder.join("tls.key") }
}

async fn bind(config: &ServeConfig, documents: Documents) -> Result<Server, ListenError> {
    let parts = ServerParts {
        documents,
        metrics: Arc::new(Metrics::new("test")),
        conditions: Arc::default(),
        connections: Connections::default(),
    };
    Server::bind(config, &parts).await
}

/// A handshake by a client that trusts `pairs`, without a session of an earlier one.
async fn handshake(server: &Served, pairs: &[&Pair]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    pairs.iter().for_each(|pair| roots.add(pair.der()).unwrap());
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(HOST).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    timeout(PATIENCE, connector.connect(name, server.connect().await)).await.expect("a handshake").unwrap()
}

/// The certificate that a new connection is shown.
async fn shown(server: &Served, pairs: &[&Pair]) -> CertificateDer<'static> {
    let stream = handshake(server, pairs).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

fn reloads(server: &Served, result: &str) -> bool {
    let line = format!("chancery_certificate_reload_total{{result=\"{result}\"}} 1");
    server.metrics.render(jiff::Timestamp::UNIX_EPOCH).unwrap().lines().any(|found| found == line)
}

/// Whether a changed pair was refused, however often.
fn refusals(server: &Served) -> bool {
    let text = server.metrics.render(jiff::Timestamp::UNIX_EPOCH).unwrap();
    text.contains("chancery_certificate_reload_total{result=\"refused\"}")
}

#[tokio::test]
async fn documents_are_answered_over_tls_in_http_1_and_http_2() {
    let (folder, pair) = (TempDir::new().unwrap(), Pair::new());
    pair.write(folder.path());
    let server = Served::start(Some(files(folder.path()))).await;

    let reply = ask(handshake(&server, &[&pair]).await, "GET", JWKS, &[("Host", HOST)]).await;
    assert_eq!((reply.status, reply.body.as_bytes()), (200, &*documents_of(ISSUER).jwks().to_json()));

    let client = |builder: reqwest::ClientBuilder| {
        let root = reqwest::Certificate::from_pem(pair.certificate.as_bytes()).unwrap();
        builder.tls_certs_only([root]).resolve(HOST, server.address).build().unwrap()
    };
    let url = format!("https://{HOST}:443{JWKS}");
    let second = client(reqwest::Client::builder()).get(&url).send().await.unwrap();
    assert_eq!((second.version(), second.status().as_u16()), (http::Version::HTTP_2, 200));
    assert_eq!(second.headers()["content-type"], "application/jwk-set+json");
    let tag = second.headers()["etag"].clone();
    assert_eq!(second.bytes().await.unwrap(), documents_of(ISSUER).jwks().to_json());
    let again =
        client(reqwest::Client::builder()).get(&url).header("if-none-match", tag).send().await.unwrap();
    assert_eq!((again.version(), again.status().as_u16()), (http::Version::HTTP_2, 304));
    for (path, status) in [(JWKS, 200), ("/elsewhere", 404)] {
        let url = format!("https://{HOST}:443{path}");
        let head = client(reqwest::Client::builder()).head(&url).send().await.unwrap();
        assert_eq!((head.version(), head.status().as_u16()), (http::Version::HTTP_2, status));
        assert!(head.headers()["content-length"] != "0");
        assert_eq!(head.bytes().await.unwrap().len(), 0);
    }
    let first = client(reqwest::Client::builder().http1_only()).get(&url).send().await.unwrap();
    assert_eq!((first.version(), first.status().as_u16()), (http::Version::HTTP_11, 200));
}

#[tokio::test]
async fn new_connections_get_a_new_certificate_and_old_ones_live_on() {
    let (folder, old, new) = (TempDir::new().unwrap(), Pair::new(), Pair::new());
    old.write(folder.path());
    let server = Served::start(Some(files(folder.path()))).await;
    assert_eq!(shown(&server, &[&old]).await, old.der());
    let kept = handshake(&server, &[&old]).await;
    assert_eq!(shown(&server, &[&old]).await, old.der(), "nothing changed yet");

    new.write(folder.path());
    eventually(async || (shown(&server, &[&old, &new]).await == new.der()).then_some(())).await;
    assert!(reloads(&server, "replaced"));
    assert_eq!(ask(kept, "GET", JWKS, &[("Host", HOST)]).await.status, 200);
}

#[tokio::test]
async fn the_swap_of_a_mounted_secret_is_noticed() {
    let (folder, old, new) = (TempDir::new().unwrap(), Pair::new(), Pair::new());
    let at = |name: &str| folder.path().join(name);
    for (version, pair) in [("..v1", &old), ("..v2", &new)] {
        fs::create_dir(at(version)).unwrap();
        pair.write(&at(version));
    }
    symlink("..v1", at("..data")).unwrap();
    symlink("..data/tls.crt", at("tls.crt")).unwrap();
    symlink("..data/tls.key", at("tls.key")).unwrap();
    let server = Served::start(Some(files(folder.path()))).await;
    assert_eq!(shown(&server, &[&old]).await, old.der());

    symlink("..v2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    eventually(async || (shown(&server, &[&old, &new]).await == new.der()).then_some(())).await;
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_never_replaces_one_that_can() {
    let (folder, old, new) = (TempDir::new().unwrap(), Pair::new(), Pair::new());
    old.write(folder.path());
    let server = Served::start(Some(files(folder.path()))).await;
    assert_eq!(shown(&server, &[&old]).await, old.der());

    replace(&folder.path().join("tls.crt"), &new.certificate);
    eventually(async || reloads(&server, "refused").then_some(())).await;
    assert_eq!(shown(&server, &[&old, &new]).await, old.der());

    replace(&folder.path().join("tls.key"), &new.key);
    eventually(async || (shown(&server, &[&old, &new]).await == new.der()).then_some(())).await;
}

#[tokio::test]
async fn a_pair_that_clients_would_refuse_never_replaces_one_that_they_take() {
    for worse in [Pair::expired(), Pair::of_another_host()] {
        let (folder, old, new) = (TempDir::new().unwrap(), Pair::new(), Pair::new());
        old.write(folder.path());
        let server = Served::start(Some(files(folder.path()))).await;
        worse.write(folder.path());
        // The moment between the two files counts as well: then the key is not the certificate's.
        eventually(async || refusals(&server).then_some(())).await;
        eventually(async || (server.certificate_reason() == "ReplacementRefused").then_some(())).await;
        assert_eq!(shown(&server, &[&old]).await, old.der());
        new.write(folder.path());
        eventually(async || (shown(&server, &[&old, &new]).await == new.der()).then_some(())).await;
    }
}

#[tokio::test]
async fn an_expired_pair_gives_way_to_a_fresh_one() {
    let (folder, expired, fresh) = (TempDir::new().unwrap(), Pair::expired(), Pair::new());
    expired.write(folder.path());
    let server = Served::start(Some(files(folder.path()))).await;
    fresh.write(folder.path());
    eventually(async || reloads(&server, "replaced").then_some(())).await;
    assert_eq!(shown(&server, &[&fresh]).await, fresh.der());
    assert_eq!(server.certificate_reason(), "InUse");
}

#[tokio::test]
async fn a_client_that_does_not_shake_hands_holds_nobody_up() {
    let (folder, pair) = (TempDir::new().unwrap(), Pair::new());
    pair.write(folder.path());
    let server = Served::start(Some(files(folder.path()))).await;
    let silent = [server.connect().await, server.connect().await, server.connect().await];
    let reply = ask(handshake(&server, &[&pair]).await, "GET", JWKS, &[("Host", HOST)]).await;
    assert_eq!(reply.status, 200);
    drop(silent);
}

#[tokio::test]
async fn an_expired_certificate_is_served_all_the_same() {
    let (folder, expired) = (TempDir::new().unwrap(), Pair::expired());
    expired.write(folder.path());
    let server = Served::start(Some(files(folder.path()))).await;
    let text = server.metrics.render(jiff::Timestamp::UNIX_EPOCH).unwrap();
    assert!(text.contains("tls.crt\"} 1009843200"), "{text}");
    assert_eq!(server.certificate_reason(), "Unacceptable");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_at_start_with_the_file_and_the_remedy() {
    let (one, other) = (Pair::new(), Pair::new());
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (certificate, key, expected) in [
        (None, Some(one.key.as_str()), ["tls.crt", "Check the path"]),
        (Some(one.certificate.as_str()), None, ["tls.key", "Check the path"]),
        (Some("no PEM"), Some(&one.key), ["tls.crt", "no CERTIFICATE block"]),
        (Some(&one.key), Some(&one.key), ["tls.crt", "no CERTIFICATE block"]),
        (Some(broken), Some(&one.key), ["tls.crt", "Issue it again"]),
        (Some("-----BEGIN CERTIFICATE-----\nAAAA\n"), Some(&one.key), ["tls.crt", "not a whole PEM file"]),
        (Some(&one.certificate), Some(&one.certificate), ["tls.key", "no private key"]),
        (Some(&one.certificate), Some(encrypted), ["tls.key", "openssl pkey"]),
        (Some(&one.certificate), Some(&other.key), ["tls.key", "expected a pair"]),
    ] {
        let folder = TempDir::new().unwrap();
        for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
            text.into_iter().for_each(|text| fs::write(folder.path().join(name), text).unwrap());
        }
        let listen = "127.0.0.1:0".parse().unwrap();
        let config = ServeConfig { listen, tls: Some(files(folder.path())), extra_hosts: Vec::new() };
        let bound = bind(&config, no_documents(&[ISSUER])).await;
        let error = bound.unwrap_err();
        assert!(matches!(error, ListenError::Certificate(_)), "{error:?}");
        let text = error.to_string();
        expected.iter().for_each(|part| assert!(text.contains(part), "{part} is not in: {text}"));
        assert!(!text.contains(&one.key) && !text.contains("AAAA"), "{text}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let server = Served::start(None).await;
    let config = ServeConfig { listen: server.address, tls: None, extra_hosts: Vec::new() };
    let bound = bind(&config, server.documents.clone()).await;
    let text = bound.unwrap_err().to_string();
    assert!(text.contains(&server.address.to_string()) && text.contains("Change `listen`"), "{text}");
}
