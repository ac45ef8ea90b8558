use std::net::SocketAddr;

use chancery_core::jwks::ObservedJwks;
use chancery_core::lint::Severity;
use chancery_core::{CachePolicy, DocumentSet, Jwks, KeyId, PublicKey, key_file};

use super::*;
use crate::verify::failure::{CertificateFault, FailureKind, FetchError};
use crate::verify::fetch::{Headers, Route};

mod content;
mod transport;

const ISSUER: &str = "https://id.example.com/cluster-a";

const KEYS: &str = "\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAs/L5AcSbkNANHmYVISCt
ZfKpNgSOEMiEdPKOmK7Lj3tTT6lJbBUptA5XaAKjbc1pUBr7RAXDQ8tiO+is0LCY
OPJz4yYi77CUBf08u7NkZOINCP841jsRNv1E+EeytRNJnVtYhN/Si7T5O3FgdnUs
7jgodV7ZjQxm93d4i9bZByYdduHwRtnwVg1ZWORtRpe8S4bNiRzX9o7pfWUn1U/l
IiYITdeMqzGRdr9J9khweGyUxyGOcp95PosA8MRfKSBLK2uuQJGYIMdcqw3qCMNx
r2zXed4aYXZDYnMascTFdN/mkPb0pf/MDoRoIaLwxBDhhcoxKoG1Br149XMrrWex
cQIDAQAB
-----END PUBLIC KEY-----
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwb4sVsqOAK6EFPixo5Kv
KO+h0lvuiEEYrBsSTY0k1MnTFCbIdQz0ww3AEUhupFugzfdJwJbMU/0nUJWg+6Gz
HzjtDLlFuCzxWIU+OhMtTmzpwY99hZ5u+ZQCoj9Q7WU1bGOF6GlKdBhQFhf8rS4a
wSDs9hnnl7q7U6dY2hKwNlsFvGvyFfsXWk/KeErGzUOw2ZBumthCLr9bEJUrvxcZ
6R7JOIWOSv1fTqGDCiPJv18gZHdoDipQAyoWVIouygKoowyXXA086P6aCwz8qMt2
GV4Wgz8Fan99InIGmk+HzalDHALZM3HpuDbZ2QJV7VOufwWOggSE2SfdJhI1H9dl
3QIDAQAB
-----END PUBLIC KEY-----
";

/// Two keys of 2048 bits, whose private halves nobody has.
fn keys() -> [PublicKey; 2] {
    key_file::read_public_keys(KEYS).keys.try_into().unwrap()
}

fn documents() -> DocumentSet {
    let [published, _] = keys();
    DocumentSet::new(ISSUER.parse().unwrap(), Jwks::new([published]).unwrap(), CachePolicy::default())
}

/// What a reader gets of a well-run issuer.
fn good(kind: DocumentKind) -> FetchedDocument {
    let document = documents().document(kind);
    FetchedDocument {
        url: documents().issuer().url_of(kind.path()),
        status: 200,
        protocol: "HTTP/2.0".to_owned(),
        headers: Headers {
            content_type: Some(kind.media_type().to_owned()),
            cache_control: Some(document.cache.header()),
            ..Headers::default()
        },
        body: document.bytes,
        elapsed: Duration::from_millis(40),
        peer: Some("203.0.113.7:443".parse().unwrap()),
        route: Route::Resolved,
    }
}

fn good_fetches() -> DocumentFetches {
    DocumentFetches {
        discovery: Ok(good(DocumentKind::Discovery)),
        jwks: Some(Ok(good(DocumentKind::Jwks))),
        jwks_refused: None,
        private_trust: false,
    }
}

/// Good documents with something changed in one document.
fn with(kind: DocumentKind, change: impl FnOnce(&mut FetchedDocument)) -> DocumentFetches {
    let mut fetches = good_fetches();
    let fetched = match kind {
        DocumentKind::Discovery => fetches.discovery.as_mut().unwrap(),
        DocumentKind::Jwks => fetches.jwks.as_mut().unwrap().as_mut().unwrap(),
    };
    change(fetched);
    fetches
}

fn with_body(kind: DocumentKind, replace: (&str, &str)) -> DocumentFetches {
    with(kind, |fetched| {
        let text = String::from_utf8(fetched.body.clone()).unwrap();
        assert!(text.contains(replace.0), "{text}");
        fetched.body = text.replace(replace.0, replace.1).into_bytes();
    })
}

fn judged(fetches: DocumentFetches) -> VerifyReport {
    judged_for(fetches, &Expectation::none(), &RelyingParty::USUAL)
}

fn judged_for(fetches: DocumentFetches, expected: &Expectation, parties: &[RelyingParty]) -> VerifyReport {
    let issuer = ISSUER.parse().unwrap();
    judge(Standard { issuer: &issuer, expected, parties }, fetches)
}

/// The one finding of a rule.
fn only<'a>(report: &'a VerifyReport, rule: &str) -> &'a Finding {
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [rule], "{:#?}", report.findings);
    &report.findings[0]
}

fn failed(kind: FailureKind) -> DocumentFetches {
    let url = good(DocumentKind::Discovery).url;
    let error = FetchError { url, kind, elapsed: Duration::from_secs(5) };
    DocumentFetches { discovery: Err(error), jwks: None, jwks_refused: None, private_trust: false }
}

const CLOUDS: [RelyingParty; 4] =
    [RelyingParty::Aws, RelyingParty::Azure, RelyingParty::Gcp, RelyingParty::Common];

#[test]
fn a_well_run_issuer_is_visible_to_all() {
    let expected = Expectation::of_documents(&documents());
    let report = judged_for(good_fetches(), &expected, &RelyingParty::USUAL);
    assert_eq!(report.findings, []);
    let [published, other] = keys();
    assert!(report.shows(published.key_id()) && !report.shows(other.key_id()));
    assert!(report.is_good());
    assert_eq!(report.max_age, Some(Duration::from_secs(600)));
    assert_eq!(report.latency(DocumentKind::Jwks), Some(Duration::from_millis(40)));
    assert_eq!(report.keys[0].description, "RSA-2048");
}

#[test]
fn what_breaks_nobody_who_matters_is_left_out() {
    let reading = || with(DocumentKind::Jwks, |fetched| fetched.headers.content_type = None);
    assert_eq!(only(&judged(reading()), rule::MEDIA_TYPE).breaks, [RelyingParty::Common]);
    let report = judged_for(reading(), &Expectation::none(), &[RelyingParty::Aws]);
    assert_eq!(report.findings, []);
}

#[test]
fn the_worst_comes_first() {
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    let mut fetches = with_body(DocumentKind::Discovery, (&jwks_uri, "http://id.example.com/jwks"));
    fetches.discovery.as_mut().unwrap().headers.content_type = None;
    let report = judged(DocumentFetches { jwks: None, private_trust: true, ..fetches });
    let severities: Vec<_> = report.findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::Note]);
}

#[test]
fn the_report_is_one_json_document_without_bodies() {
    let report = judged(failed(FailureKind::Refused));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["good"], false);
    assert_eq!(json["discovery"]["failure"]["kind"], "refused");
    assert_eq!(json["findings"][0]["rule"], rule::UNREACHABLE);

    let json = serde_json::to_value(judged(good_fetches())).unwrap();
    assert_eq!(json["good"], true);
    assert_eq!(json["maxAgeSeconds"], 600);
    assert_eq!(json["jwks"]["answer"]["status"], 200);
    assert_eq!(json["jwks"]["answer"]["cacheControl"], "public, max-age=600");
    assert!(json["jwks"]["answer"].get("body").is_none());
    assert_eq!(json["visible"][0], keys()[0].key_id().as_str());
}

#[test]
fn the_sample_is_what_it_claims() {
    let set = ObservedJwks::parse(&good(DocumentKind::Jwks).body).unwrap();
    assert_eq!(set.keys().count(), 1);
    assert_ne!(keys()[0], keys()[1]);
}
