//! The outside view, against a real HTTPS server on this machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod probe;
mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use chancery_core::profile::RelyingParty;
use chancery_core::{CachePolicy, DocumentKind, DocumentSet, IssuerUrl, Jwks, PublicKey};
use chancery_publisher::verify::failure::{CertificateFault, FailureKind};
use chancery_publisher::verify::fetch::Route;
use chancery_publisher::verify::report::VerifyReport;
use chancery_publisher::verify::{Expectation, Trust, Verifier, VerifierError, VerifyOptions, rule};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use self::server::{Answer, Authority, Certificate, Manner, Server};

const ISSUER: &str = "https://id.example.com/cluster-a";
const DISCOVERY: &str = "/cluster-a/.well-known/openid-configuration";
const JWKS: &str = "/cluster-a/openid/v1/jwks";

fn issuer() -> IssuerUrl {
    ISSUER.parse().unwrap()
}

/// The documents of a fresh key.
fn documents() -> DocumentSet {
    let key = rcgen::KeyPair::generate().unwrap();
    let key = PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&key)).unwrap();
    DocumentSet::new(issuer(), Jwks::new([key]).unwrap(), CachePolicy::default())
}

/// What a well-run issuer answers.
fn answers(documents: &DocumentSet) -> BTreeMap<String, Answer> {
    let paths = [(DocumentKind::Discovery, DISCOVERY), (DocumentKind::Jwks, JWKS)];
    let answer = |kind: DocumentKind| Answer {
        status: 200,
        headers: vec![
            ("content-type", kind.media_type().to_owned()),
            ("cache-control", documents.cache().header()),
            ("etag", "\"1\"".to_owned()),
            ("set-cookie", "session=1".to_owned()),
        ],
        body: documents.document(kind).bytes,
        manner: Manner::Whole,
    };
    paths.map(|(kind, path)| (path.to_owned(), answer(kind))).into()
}

/// Whose P-256 keys and private addresses are everyday life.
fn options(authority: &Authority, address: SocketAddr) -> VerifyOptions {
    VerifyOptions {
        trust: Trust::Only(authority.pem()),
        addresses: [("id.example.com".to_owned(), address)].into(),
        parties: vec![RelyingParty::Kubernetes],
        ..VerifyOptions::default()
    }
}

async fn verify(options: VerifyOptions) -> VerifyReport {
    Verifier::new(options).unwrap().verify(&issuer(), &Expectation::none()).await
}

/// The report on an issuer whose answers were changed.
async fn verify_changed(change: impl FnOnce(&mut BTreeMap<String, Answer>)) -> VerifyReport {
    let authority = Authority::new();
    let mut answers = answers(&documents());
    change(&mut answers);
    let server = Server::start(&authority, Certificate::default(), answers).await;
    verify(options(&authority, server.address)).await
}

fn rules(report: &VerifyReport) -> Vec<&'static str> {
    let worse = report.findings.iter().filter(|finding| finding.rule != rule::TLS_PRIVATE_CA);
    worse.map(|finding| finding.rule).collect()
}

fn failure(report: &VerifyReport, kind: DocumentKind) -> &FailureKind {
    &report.fetches.failure(kind).unwrap().kind
}

#[tokio::test]
async fn a_well_run_issuer_is_visible_over_http_1_and_2() {
    for (protocols, spoken) in
        [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"][..], "HTTP/1.1"), (&[][..], "HTTP/1.1")]
    {
        let (authority, documents) = (Authority::new(), documents());
        let certificate = Certificate { protocols, ..Certificate::default() };
        let server = Server::start(&authority, certificate, answers(&documents)).await;
        let verifier = Verifier::new(options(&authority, server.address)).unwrap();
        let report = verifier.verify(&issuer(), &Expectation::of_documents(&documents)).await;

        assert_eq!(rules(&report), [""; 0], "{:#?}", report.findings);
        assert!(report.is_good() && report.shows(documents.jwks().keys()[0].key_id()));
        for kind in DocumentKind::ALL {
            let fetched = report.fetches.fetched(kind).unwrap();
            assert_eq!(fetched.protocol, spoken);
            assert_eq!(fetched.body, documents.document(kind).bytes);
            assert_eq!((fetched.peer, fetched.route), (Some(server.address), Route::Given));
            assert_eq!(fetched.headers.etag.as_deref(), Some("\"1\""));
        }
    }
}

#[tokio::test]
async fn a_reader_is_anonymous_and_new_every_time() {
    let authority = Authority::new();
    let server = Server::start(&authority, Certificate::default(), answers(&documents())).await;
    let verifier = Verifier::new(options(&authority, server.address)).unwrap();
    for _ in 0..2 {
        assert!(verifier.verify(&issuer(), &Expectation::none()).await.is_good());
    }
    let seen = server.seen();
    let lines: Vec<_> = seen.requests.iter().map(|(line, _)| line.as_str()).collect();
    let both = [format!("GET {DISCOVERY}"), format!("GET {JWKS}")];
    assert_eq!(lines, [&both[0], &both[1], &both[0], &both[1]]);
    for (_, headers) in &seen.requests {
        for private in ["authorization", "proxy-authorization", "cookie", "referer"] {
            assert!(!headers.contains_key(private), "{headers:?}");
        }
    }
    // A resumed session would not look at the certificate again.
    assert!(seen.handshakes.iter().all(|kind| *kind != Some(rustls::HandshakeKind::Resumed)));
    assert_eq!(seen.handshakes.len(), 4);
}

#[tokio::test]
async fn a_certificate_is_told_apart_by_its_fault() {
    let named = |name| Certificate { name, ..Certificate::default() };
    let (stranger, namesake) = (Authority::named("stranger"), Authority::new());
    for (certificate, trusted, expected) in [
        (named("id.example.com"), Some(&stranger), CertificateFault::UnknownIssuer),
        (named("id.example.com"), Some(&namesake), CertificateFault::OtherAuthorityKey),
        (Certificate { expired: true, ..Certificate::default() }, None, CertificateFault::Expired),
        (named("www.example.com"), None, CertificateFault::NameMismatch(Vec::new())),
    ] {
        let authority = Authority::new();
        let server = Server::start(&authority, certificate, answers(&documents())).await;
        let report = verify(options(trusted.unwrap_or(&authority), server.address)).await;
        assert_eq!(rules(&report), [rule::TLS_UNTRUSTED]);
        match (failure(&report, DocumentKind::Discovery), expected) {
            (
                FailureKind::Certificate(CertificateFault::NameMismatch(names)),
                CertificateFault::NameMismatch(_),
            ) => {
                assert!(names.iter().any(|name| name.contains("www.example.com")), "{names:?}");
            }
            (FailureKind::Certificate(fault), expected) => assert_eq!(*fault, expected),
            (other, expected) => panic!("{other} instead of {expected}"),
        }
        assert!(server.seen().requests.is_empty());
    }
}

#[tokio::test]
async fn an_unreachable_server_is_told_apart_by_its_silence() {
    let authority = Authority::new();
    let kind_at = async |address| {
        let report = verify(options(&authority, address)).await;
        assert_eq!(rules(&report), [rule::UNREACHABLE]);
        failure(&report, DocumentKind::Discovery).clone()
    };

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(kind_at(nobody).await, FailureKind::Refused);

    let plain = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let kind = kind_at(plain).await;
    assert!(matches!(&kind, FailureKind::Handshake(reason) if reason.contains("plain HTTP")), "{kind}");

    let closing = answering(b"").await;
    let kind = kind_at(closing).await;
    assert_eq!(kind, FailureKind::ConnectionClosed);

    let unknown = "https://nowhere.invalid".parse().unwrap();
    let verifier = Verifier::new(options(&authority, nobody)).unwrap();
    let report = verifier.verify(&unknown, &Expectation::none()).await;
    let kind = failure(&report, DocumentKind::Discovery);
    // A machine without a name server waits for one until the time is up.
    assert!(matches!(kind, FailureKind::NameNotFound(_) | FailureKind::Timeout), "{kind}");
}

/// A listener that sends `bytes` to everybody and closes.
async fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 5];
            let _ = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut hello).await;
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    });
    address
}

#[tokio::test]
async fn a_silent_server_is_left_in_time() {
    let authority = Authority::new();
    for path in [DISCOVERY, JWKS] {
        let mut answers = answers(&documents());
        answers.get_mut(path).unwrap().manner = Manner::Hang;
        let server = Server::start(&authority, Certificate::default(), answers).await;
        let timeout = Duration::from_millis(300);
        let report = verify(VerifyOptions { timeout, ..options(&authority, server.address) }).await;
        assert_eq!(rules(&report), [rule::UNREACHABLE], "{path}");
        let kind = if path == JWKS { DocumentKind::Jwks } else { DocumentKind::Discovery };
        assert_eq!(*failure(&report, kind), FailureKind::Timeout);
        assert!(report.visible.is_empty());
    }
}

#[tokio::test]
async fn a_body_is_read_whole_or_not_at_all() {
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let (authority, mut answers) = (Authority::new(), answers(&documents()));
        answers.get_mut(JWKS).unwrap().manner = Manner::CutOff;
        let certificate = Certificate { protocols, ..Certificate::default() };
        let server = Server::start(&authority, certificate, answers).await;
        let report = verify(options(&authority, server.address)).await;
        assert_eq!(rules(&report), [rule::UNREACHABLE]);
        // HTTP/2 resets the stream, perhaps before the answer has begun.
        if protocols == ["http/1.1"] {
            assert_eq!(*failure(&report, DocumentKind::Jwks), FailureKind::CutOff);
        }
        assert!(report.visible.is_empty());
    }

    let report = verify_changed(|answers| answers.get_mut(JWKS).unwrap().body = vec![b' '; 2 << 20]).await;
    assert_eq!(rules(&report), [rule::TOO_LARGE]);
    assert_eq!(*failure(&report, DocumentKind::Jwks), FailureKind::TooLarge(1 << 20));
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let authority = Authority::new();
    let mut answers = answers(&documents());
    let there = answers.insert(
        DISCOVERY.to_owned(),
        Answer {
            status: 302,
            headers: vec![("location", "/elsewhere".to_owned())],
            body: Vec::new(),
            manner: Manner::Whole,
        },
    );
    answers.insert("/elsewhere".to_owned(), there.unwrap());
    let server = Server::start(&authority, Certificate::default(), answers).await;
    let report = verify(options(&authority, server.address)).await;
    assert_eq!(rules(&report), [rule::REDIRECTED]);
    assert_eq!(server.seen().requests.len(), 1);
}

#[tokio::test]
async fn a_refusal_of_an_object_store_is_explained() {
    let report = verify_changed(|answers| {
        let answer = answers.get_mut(JWKS).unwrap();
        (answer.status, answer.body) = (403, b"<Error><Code>AccessDenied</Code></Error>".to_vec());
    })
    .await;
    assert_eq!(rules(&report), [rule::STATUS_NOT_200]);
    let finding = report.findings.iter().find(|finding| finding.rule == rule::STATUS_NOT_200).unwrap();
    assert!(finding.message.contains("anonymous reading is not allowed"), "{}", finding.message);
}

#[tokio::test]
async fn another_issuer_hides_every_key() {
    let report = verify_changed(|answers| {
        let answer = answers.get_mut(DISCOVERY).unwrap();
        let text = String::from_utf8(answer.body.clone()).unwrap();
        answer.body = text.replace(&format!("{ISSUER}\""), &format!("{ISSUER}/\"")).into_bytes();
    })
    .await;
    assert_eq!(rules(&report), [rule::ISSUER_MISMATCH]);
    assert!(report.visible.is_empty() && report.keys.len() == 1);
}

#[tokio::test]
async fn the_advertised_jwks_is_read_wherever_it_is() {
    let (authority, documents) = (Authority::new(), documents());
    let mut here = answers(&documents);
    let jwks = here.remove(JWKS).unwrap();
    let answer = here.get_mut(DISCOVERY).unwrap();
    let text = String::from_utf8(answer.body.clone()).unwrap();
    answer.body = text.replace(&issuer().jwks_uri(), "https://keys.example.com/jwks").into_bytes();
    let issuer_server = Server::start(&authority, Certificate::default(), here).await;
    let keys = Certificate { name: "keys.example.com", ..Certificate::default() };
    let key_server = Server::start(&authority, keys, [("/jwks".to_owned(), jwks)].into()).await;

    let mut options = options(&authority, issuer_server.address);
    options.addresses.insert("Keys.example.com", key_server.address);
    let report = verify(options).await;
    assert_eq!(rules(&report), [rule::JWKS_URI_ELSEWHERE]);
    assert_eq!(report.visible.len(), 1);
    assert_eq!(key_server.seen().requests.len(), 1);
}

#[tokio::test]
async fn a_mirror_is_read_in_place_of_the_issuer() {
    let (authority, documents) = (Authority::new(), documents());
    let moved = |(path, answer): (String, Answer)| (path.replace("/cluster-a", "/mirror"), answer);
    let mirrored = answers(&documents).into_iter().map(moved).collect();
    let mirror = Certificate { name: "mirror.example.com", ..Certificate::default() };
    let server = Server::start(&authority, mirror, mirrored).await;
    let mut options = options(&authority, server.address);
    options.addresses = [("mirror.example.com".to_owned(), server.address)].into();
    let verifier = Verifier::new(options).unwrap();
    let expected = Expectation::of_documents(&documents);
    for base in ["https://mirror.example.com/mirror", "https://mirror.example.com/mirror/"] {
        let report = verifier.verify_mirror(base, &issuer(), &expected).await;
        assert_eq!(rules(&report), [""; 0], "{:#?}", report.findings);
        assert_eq!(report.visible.len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_is_used_when_it_is_named() {
    let authority = Authority::new();
    let server = Server::start(&authority, Certificate::default(), answers(&documents())).await;
    let (address, to) = (proxy_to(server.address).await, "198.51.100.1:443".parse().unwrap());
    // The address is nobody's, so that only the proxy finds the server.
    let options = VerifyOptions { proxy: Some(format!("http://{address}")), ..options(&authority, to) };
    let report = verify(options).await;
    assert_eq!(rules(&report), [""; 0], "{:#?}", report.findings);
    assert_eq!(report.fetches.fetched(DocumentKind::Jwks).unwrap().route, Route::Proxied);
}

/// A proxy that connects everybody to `server`.
async fn proxy_to(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut client = BufReader::new(client);
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    client.read_line(&mut line).await.unwrap();
                }
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

#[test]
fn options_that_cannot_be_used_are_refused() {
    let refused = |options| Verifier::new(options).unwrap_err();
    for (pem, words) in [
        ("", "holds no certificate"),
        ("no PEM at all", "holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be a root"),
    ] {
        let trust = Trust::Only(pem.as_bytes().to_vec());
        let error = refused(VerifyOptions { trust, ..VerifyOptions::default() });
        assert!(matches!(error, VerifierError::Certificates { .. }));
        assert!(error.to_string().contains(words), "{error}");
    }
    let authority = Authority::new();
    for (proxy, words) in [
        ("proxy", "not a URL"),
        ("socks5://127.0.0.1:1", "neither http nor https"),
        ("http://me:secret@127.0.0.1:1", "user information"),
    ] {
        let trust = Trust::Only(authority.pem());
        let error =
            refused(VerifyOptions { trust, proxy: Some(proxy.to_owned()), ..VerifyOptions::default() });
        assert!(error.to_string().contains(words) && !error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn every_rule_is_explained_to_users() {
    let page = include_str!("../../../docs/verify.md");
    let rows: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(rows, rule::ALL, "docs/verify.md lists the rules in their order");
}
