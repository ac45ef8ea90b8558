//! `chancery verify` as a user runs it, against an HTTPS server on this machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![cfg(all(feature = "publish", feature = "demo"))]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use chancery_core::{CachePolicy, DocumentKind, DocumentSet, Jwks, PublicKey};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData as _};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

const ISSUER: &str = "https://id.example.com/cluster-a";

/// An issuer that serves one P-256 key, and what a reader must know about it.
struct Served {
    scratch: tempfile::TempDir,
    address: SocketAddr,
    key: PublicKey,
}

impl Served {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        // A name of its own: an authority of the same name and another key is another fault.
        ca.distinguished_name.push(DnType::CommonName, format!("authority of {address}"));
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate().unwrap();
        fs::write(scratch.path().join("ca.pem"), ca.self_signed(&ca_key).unwrap().pem()).unwrap();
        let config = server_config(&Issuer::new(ca, ca_key));

        let key = KeyPair::generate().unwrap();
        let key = PublicKey::from_spki_der(&key.subject_public_key_info()).unwrap();
        fs::write(scratch.path().join("sa.pub"), key.to_pem()).unwrap();

        let answers = answers(&key);
        std::thread::spawn(move || serve(&listener, &config, &answers));
        Self { scratch, address, key }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn resolve(&self) -> String {
        format!("id.example.com:443:{}", self.address)
    }

    /// Runs `chancery verify` for kubernetes with what is needed to reach the server, and more.
    fn verify(&self, more: &[&str]) -> Output {
        let ca = self.file("ca.pem");
        let (ca, resolve) = (ca.to_str().unwrap(), self.resolve());
        let mut arguments = vec![ISSUER, "--ca", ca, "--resolve", &resolve, "--for", "kubernetes"];
        arguments.extend(more);
        chancery(&arguments)
    }
}

fn server_config(issuer: &Issuer<'_, KeyPair>) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["id.example.com".to_owned()]).unwrap();
    let chain = vec![leaf.signed_by(&key, issuer).unwrap().der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap())
}

/// The bytes to answer each path with.
fn answers(key: &PublicKey) -> BTreeMap<String, Vec<u8>> {
    let jwks = Jwks::new([key.clone()]).unwrap();
    let documents = DocumentSet::new(ISSUER.parse().unwrap(), jwks, CachePolicy::default());
    let answer = |kind: DocumentKind| {
        let document = documents.document(kind);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncache-control: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            kind.media_type(),
            document.cache.header(),
            document.bytes.len()
        );
        (format!("/cluster-a/{}", kind.path()), [head.into_bytes(), document.bytes].concat())
    };
    DocumentKind::ALL.map(answer).into()
}

fn serve(listener: &TcpListener, config: &Arc<ServerConfig>, answers: &BTreeMap<String, Vec<u8>>) {
    for socket in listener.incoming() {
        let mut socket = socket.unwrap();
        let mut connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = Stream::new(&mut connection, &mut socket);
        let (mut request, mut byte) = (Vec::new(), [0]);
        // A client that distrusts us hangs up.
        while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            request.extend(byte);
        }
        let request = String::from_utf8(request).unwrap();
        if let Some(path) = request.split(' ').nth(1) {
            let missing =
                b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec();
            let _ = stream.write_all(answers.get(path).unwrap_or(&missing));
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    }
}

fn chancery(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chancery"))
        .arg("verify")
        .args(arguments)
        // A proxy of the environment that would break every reading, were it used.
        .envs(
            ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, "http://127.0.0.1:1")),
        )
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_good_issuer_exits_0_and_its_facts_are_printed() {
    let served = Served::start();
    let key = served.file("sa.pub");
    let output = served.verify(&["--expect-key", key.to_str().unwrap()]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for fact in [
        "issuer     https://id.example.com/cluster-a\n",
        "discovery  https://id.example.com/cluster-a/.well-known/openid-configuration\n",
        "JWKS       https://id.example.com/cluster-a/openid/v1/jwks\n",
        "application/jwk-set+json | public, max-age=600",
        &format!("key        {} P-256 ES256\n", served.key.key_id()),
        "note tls-private-ca: ",
        "visible to kubernetes: 1 key\n",
    ] {
        assert!(out.contains(fact), "{fact} is not in\n{out}");
    }
    assert_eq!(err, "");
}

#[test]
fn a_finding_exits_3() {
    let served = Served::start();
    let other = "A".repeat(43);
    let output = served.verify(&["--expect-kid", served.key.key_id().as_str(), "--expect-kid", &other]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{out}");
    assert!(out.contains("error key-missing: ") && out.contains(&other), "{out}");
    assert!(out.ends_with("1 key visible, but not all is well\n"), "{out}");

    let output = chancery(&[ISSUER, "--resolve", &served.resolve(), "--ca", "/dev/null"]);
    assert_eq!(output.status.code(), Some(1), "an empty CA file is no CA file");
}

#[test]
fn an_unknown_authority_exits_3_with_the_remedy() {
    let (served, stranger) = (Served::start(), Served::start());
    let (ca, resolve) = (stranger.file("ca.pem"), served.resolve());
    let output = chancery(&[ISSUER, "--resolve", &resolve, "--ca", ca.to_str().unwrap()]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{out}");
    assert!(out.contains("error tls-untrusted: ") && out.contains("signed by an unknown authority"), "{out}");
    assert!(out.contains("breaks: aws, azure, gcp, common\n"), "{out}");
    assert!(out.contains("no answer: ") && out.ends_with("no key is visible\n"), "{out}");
}

#[test]
fn json_is_one_document() {
    let served = Served::start();
    let output = served.verify(&["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["good"], true);
    assert_eq!(report["issuer"], ISSUER);
    assert_eq!(report["visible"][0], served.key.key_id().as_str());
    assert_eq!(report["keys"][0]["alg"], "ES256");
    assert_eq!(report["jwks"]["answer"]["route"], "given");
}

#[test]
fn every_address_is_read_and_one_that_is_down_exits_3() {
    let served = Served::start();
    // This server does not know a path with a query, which takes nothing away.
    let output = served.verify(&["--every-address"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    let edge = format!(
        "edge       {}\n           1 key | discovery document 200 | JWKS 200 | may be kept for 600 s\n",
        served.address
    );
    assert!(out.contains(&edge), "{out}");
    assert!(out.contains(&format!("edge       {} past caches\n", served.address)), "{out}");
    assert!(out.ends_with("visible at its one address\n"), "{out}");

    // Held, so that nobody listens there meanwhile.
    let reserved = tokio::net::TcpSocket::new_v4().unwrap();
    reserved.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let closed = reserved.local_addr().unwrap();
    let second = format!("id.example.com:443:{closed}");
    let output = served.verify(&["--every-address", "--resolve", &second]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{out}");
    assert!(
        out.contains(&format!("edge       {closed}\n           no answer: connection refused\n")),
        "{out}"
    );
    assert!(out.contains(&format!("error unreachable: at {closed}: ")), "{out}");

    let output = served.verify(&["--every-address", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["good"], &report["leftOut"]), (&true.into(), &0.into()));
    assert_eq!(report["edges"][0]["edge"], served.address.to_string());
    assert_eq!(report["edges"][0]["report"]["visible"][0], served.key.key_id().as_str());
    assert_eq!(report["edges"][1]["report"]["discovery"]["answer"]["status"], 404);
}

#[test]
fn arguments_that_cannot_be_used_exit_1() {
    let scratch = tempfile::tempdir().unwrap();
    let empty = scratch.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    for (arguments, words) in [
        (&["http://id.example.com"][..], "https://"),
        (&[ISSUER, "--ca", "/nowhere/ca.pem"], "--ca: cannot read /nowhere/ca.pem"),
        (&[ISSUER, "--resolve", "id.example.com"], "HOST:PORT:ADDRESS"),
        (&[ISSUER, "--resolve", "id.example.com:8443:127.0.0.1"], "write 443"),
        (&[ISSUER, "--expect-kid", "short"], "is not a key id"),
        (&[ISSUER, "--expect-key", empty], "expected a PEM file with public keys"),
        (&[ISSUER, "--timeout", "0"], "--timeout 0"),
        (&[ISSUER, "--timeout=-1"], "--timeout -1"),
        (&[ISSUER, "--proxy", "http://me:secret@127.0.0.1:1"], "user information"),
    ] {
        let output = chancery(arguments);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.contains(words) && output.stdout.is_empty(), "{arguments:?}: {err}");
    }
    assert_eq!(chancery(&[ISSUER, "--for", "nobody"]).status.code(), Some(2));
}
