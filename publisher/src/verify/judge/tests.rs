use std::net::SocketAddr;

use chancery_core::jwks::ObservedJwks;
use chancery_core::lint::Severity;
use chancery_core::{CachePolicy, DocumentSet, Jwks, KeyId, PublicKey, pem};

use super::*;
use crate::verify::failure::{CertificateFault, FailureKind, FetchError};
use crate::verify::fetch::{Headers, Route};

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
    pem::read_public_keys(KEYS).keys.try_into().unwrap()
}

fn documents() -> DocumentSet {
    let [published, _] = keys();
    DocumentSet::new(ISSUER.parse().unwrap(), Jwks::new([published]).unwrap(), CachePolicy::default())
}

/// What a reader gets of a well-run issuer.
fn good(kind: DocumentKind) -> Fetched {
    let document = documents().document(kind);
    Fetched {
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

fn good_reading() -> Reading {
    Reading {
        discovery: Ok(good(DocumentKind::Discovery)),
        jwks: Some(Ok(good(DocumentKind::Jwks))),
        private_trust: false,
    }
}

/// A good reading with something changed in one document.
fn with(kind: DocumentKind, change: impl FnOnce(&mut Fetched)) -> Reading {
    let mut reading = good_reading();
    let fetched = match kind {
        DocumentKind::Discovery => reading.discovery.as_mut().unwrap(),
        DocumentKind::Jwks => reading.jwks.as_mut().unwrap().as_mut().unwrap(),
    };
    change(fetched);
    reading
}

fn with_body(kind: DocumentKind, replace: (&str, &str)) -> Reading {
    with(kind, |fetched| {
        let text = String::from_utf8(fetched.body.clone()).unwrap();
        assert!(text.contains(replace.0), "{text}");
        fetched.body = text.replace(replace.0, replace.1).into_bytes();
    })
}

fn judged(reading: Reading) -> Report {
    judged_for(reading, &Expectation::none(), &RelyingParty::ALL)
}

fn judged_for(reading: Reading, expected: &Expectation, parties: &[RelyingParty]) -> Report {
    let issuer = ISSUER.parse().unwrap();
    judge(Standard { issuer: &issuer, expected, parties }, reading)
}

/// The one finding of a rule.
fn only<'a>(report: &'a Report, rule: &str) -> &'a Finding {
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [rule], "{:#?}", report.findings);
    &report.findings[0]
}

fn failed(kind: FailureKind) -> Reading {
    let url = good(DocumentKind::Discovery).url;
    let error = FetchError { url, kind, elapsed: Duration::from_secs(5) };
    Reading { discovery: Err(error), jwks: None, private_trust: false }
}

const CLOUDS: [RelyingParty; 4] =
    [RelyingParty::Aws, RelyingParty::Azure, RelyingParty::Gcp, RelyingParty::Common];

#[test]
fn a_well_run_issuer_is_visible_to_all() {
    let expected = Expectation::of_documents(&documents());
    let report = judged_for(good_reading(), &expected, &RelyingParty::ALL);
    assert_eq!(report.findings, []);
    let [published, other] = keys();
    assert!(report.shows(published.key_id()) && !report.shows(other.key_id()));
    assert!(report.is_good());
    assert_eq!(report.max_age, Some(Duration::from_secs(600)));
    assert_eq!(report.latency(DocumentKind::Jwks), Some(Duration::from_millis(40)));
    assert_eq!(report.keys[0].description, "RSA-2048");
}

#[test]
fn a_failure_is_named_with_its_remedy() {
    use CertificateFault as Fault;
    for (kind, rule, words, remedy) in [
        (FailureKind::NameNotFound("x".to_owned()), rule::UNREACHABLE, "no address", "DNS record"),
        (FailureKind::Refused, rule::UNREACHABLE, "connection refused", "start the server"),
        (FailureKind::NoRoute, rule::UNREACHABLE, "no route", "firewall"),
        (FailureKind::ConnectionClosed, rule::UNREACHABLE, "closed", "log"),
        (FailureKind::Timeout, rule::UNREACHABLE, "5.0 s", "AWS STS"),
        (FailureKind::Handshake("alert".to_owned()), rule::UNREACHABLE, "alert", "TLS 1.2"),
        (FailureKind::CutOff, rule::UNREACHABLE, "announced length", "Content-Length"),
        (FailureKind::Other("odd".to_owned()), rule::UNREACHABLE, "odd", "curl -v"),
        (FailureKind::TooLarge(1 << 20), rule::TOO_LARGE, "1048576 bytes", "the document itself"),
        (FailureKind::Certificate(Fault::Expired), rule::TLS_UNTRUSTED, "has expired", "renew"),
        (FailureKind::Certificate(Fault::NotYetValid), rule::TLS_UNTRUSTED, "not valid yet", "clocks"),
        (FailureKind::Certificate(Fault::Revoked), rule::TLS_UNTRUSTED, "revoked", "new certificate"),
        (
            FailureKind::Certificate(Fault::NameMismatch(vec!["www.example.com".to_owned()])),
            rule::TLS_UNTRUSTED,
            "it names www.example.com",
            "names the issuer's host",
        ),
        (FailureKind::Certificate(Fault::Other("odd".to_owned())), rule::TLS_UNTRUSTED, "odd", "openssl"),
    ] {
        let report = judged(failed(kind));
        let finding = only(&report, rule);
        assert_eq!((finding.severity, &finding.breaks), (Severity::Error, &all()));
        assert!(finding.message.contains(words), "{}", finding.message);
        assert!(finding.message.contains("/.well-known/openid-configuration"), "{}", finding.message);
        assert!(finding.remedy.contains(remedy), "{}", finding.remedy);
        assert!(report.visible.is_empty() && !report.is_good());
    }
}

#[test]
fn an_unknown_authority_breaks_those_to_whom_it_cannot_be_given() {
    let unknown = || failed(FailureKind::Certificate(CertificateFault::UnknownIssuer));
    assert_eq!(only(&judged(unknown()), rule::TLS_UNTRUSTED).breaks, CLOUDS);

    let for_kubernetes = judged_for(unknown(), &Expectation::none(), &[RelyingParty::Kubernetes]);
    let finding = only(&for_kubernetes, rule::TLS_UNTRUSTED);
    assert_eq!(finding.breaks, []);
    assert!(!for_kubernetes.is_good(), "nothing was seen, so nothing is proven for kubernetes either");
}

#[test]
fn a_given_authority_is_noted() {
    let report = judged(Reading { private_trust: true, ..good_reading() });
    assert_eq!(only(&report, rule::TLS_PRIVATE_CA).severity, Severity::Note);
    assert!(report.is_good());
}

#[test]
fn a_refusal_is_explained_by_its_body() {
    let xml = |code: &str| {
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>m</Message></Error>")
    };
    let status = "{\"kind\":\"Status\",\"code\":403}".to_owned();
    for (code, body, message, remedy) in [
        (403, xml("AccessDenied"), "AccessDenied: anonymous reading is not allowed", "BlockPublicPolicy"),
        (404, xml("NoSuchKey"), "NoSuchKey: the bucket is readable", "chancery publish"),
        (404, xml("NoSuchBucket"), "no bucket of this name", "create the bucket"),
        (409, xml("PublicAccessNotPermitted"), "forbids anonymous", "allowBlobPublicAccess"),
        (403, xml("Novel\u{7}"), "403 \"Novel\\u{7}\"", "documentation of the object store"),
        (403, status, "kube-apiserver", "system:service-account-issuer-discovery"),
        (401, String::new(), "answered 401; expected 200", "anonymous readers"),
        (404, "<html>".to_owned(), "answered 404", "publish the document"),
        (503, String::new(), "answered 503", "log of the server"),
        (204, String::new(), "answered 204", "status 200"),
    ] {
        let reading = with(DocumentKind::Jwks, |fetched| {
            (fetched.status, fetched.body) = (code, body.into_bytes());
        });
        let report = judged(reading);
        let finding = only(&report, rule::STATUS_NOT_200);
        assert!(finding.message.contains(message), "{}", finding.message);
        assert!(finding.remedy.contains(remedy), "{}", finding.remedy);
        assert!(report.visible.is_empty() && report.keys.is_empty());
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let redirected = |body: &str| {
        let body = body.as_bytes().to_vec();
        with(DocumentKind::Discovery, |fetched| {
            (fetched.status, fetched.body) = (301, body);
            fetched.headers.location = Some("https://www.example.com/".to_owned());
        })
    };
    let report = judged(Reading { jwks: None, ..redirected("") });
    let finding = only(&report, rule::REDIRECTED);
    assert!(finding.message.contains("\"https://www.example.com/\""), "{}", finding.message);
    let report = judged(Reading { jwks: None, ..redirected("<Code>PermanentRedirect</Code>") });
    assert!(only(&report, rule::REDIRECTED).remedy.contains("regional endpoint"));
}

#[test]
fn time_is_held_against_the_budget_of_each_party() {
    for (millis, parties, expected) in [
        (900, &RelyingParty::ALL[..], None),
        (1100, &RelyingParty::ALL, Some((Severity::Warning, vec![RelyingParty::Common]))),
        (5100, &RelyingParty::ALL, Some((Severity::Error, vec![RelyingParty::Aws, RelyingParty::Common]))),
        (5100, &[RelyingParty::Azure], None),
        (5100, &[RelyingParty::Common], Some((Severity::Warning, vec![RelyingParty::Common]))),
    ] {
        let reading = with(DocumentKind::Jwks, |fetched| fetched.elapsed = Duration::from_millis(millis));
        let report = judged_for(reading, &Expectation::none(), parties);
        let slow = report.findings.iter().find(|finding| finding.rule == rule::SLOW);
        assert_eq!(slow.map(|finding| (finding.severity, finding.breaks.clone())), expected, "{millis}");
    }
}

#[test]
fn a_private_address_behind_a_public_name_is_split_horizon() {
    let from = |peer: &str, route| {
        let peer: SocketAddr = peer.parse().unwrap();
        judged(with(DocumentKind::Discovery, |fetched| (fetched.peer, fetched.route) = (Some(peer), route)))
    };
    for peer in ["10.0.0.5:443", "127.0.0.1:443", "100.64.0.1:443", "[fd00::1]:443"] {
        let report = from(peer, Route::Resolved);
        let finding = only(&report, rule::PRIVATE_ADDRESS);
        assert_eq!((finding.severity, &finding.breaks[..]), (Severity::Warning, &CLOUDS[..]), "{peer}");
        assert_eq!(from(peer, Route::Given).findings, [], "the caller knows");
        assert_eq!(from(peer, Route::Proxied).findings, [], "it is the proxy's");
    }
}

#[test]
fn headers_are_held_against_the_document() {
    let of = |name: &str, value: Option<&str>| {
        let value = value.map(str::to_owned);
        let report = judged(with(DocumentKind::Jwks, |fetched| match name {
            "type" => fetched.headers.content_type = value,
            "cache" => fetched.headers.cache_control = value,
            _ => fetched.headers.age = value,
        }));
        report.findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    for (name, value, expected) in [
        ("type", Some("application/jwk-set+json"), None),
        ("type", Some("application/json"), None),
        ("type", Some("Application/JSON; charset=utf-8"), None),
        ("type", Some("binary/octet-stream"), Some(rule::MEDIA_TYPE)),
        ("type", Some("text/html"), Some(rule::MEDIA_TYPE)),
        ("type", None, Some(rule::MEDIA_TYPE)),
        ("cache", Some("max-age=60"), None),
        ("cache", Some("no-store"), None),
        ("cache", Some("public, max-age=3600"), Some(rule::CACHE_TOO_LONG)),
        ("cache", Some("max-age=60, s-maxage=601"), Some(rule::CACHE_TOO_LONG)),
        ("cache", Some("public"), Some(rule::CACHE_MISSING)),
        ("cache", None, Some(rule::CACHE_MISSING)),
        ("age", Some("600"), None),
        ("age", Some("601"), Some(rule::CACHE_STALE)),
        ("age", Some("old"), None),
    ] {
        assert_eq!(of(name, value), Vec::from_iter(expected), "{name} {value:?}");
    }
}

#[test]
fn cache_headers_are_read_as_caches_read_them() {
    for (header, expected) in [
        ("max-age=600", Some(600)),
        ("Public , MAX-AGE=\"60\"", Some(60)),
        ("max-age=60, s-maxage=300", Some(300)),
        ("max-age=60, stale-while-revalidate=30", Some(90)),
        ("max-age=60, no-cache", Some(0)),
        ("no-store", Some(0)),
        ("max-age=99999999999999999999999", Some(u64::MAX)),
        ("max-age=18446744073709551615, stale-while-revalidate=1", Some(u64::MAX)),
        ("public", None),
        ("max-age", None),
        ("max-age=-1", None),
        ("x-max-age=5", None),
        ("", None),
    ] {
        assert_eq!(headers::longest_cached(header).map(|longest| longest.as_secs()), expected, "{header}");
    }
}

#[test]
fn the_largest_max_age_of_both_counts() {
    let reading = with(DocumentKind::Discovery, |fetched| {
        fetched.headers.cache_control = Some("max-age=86400".to_owned());
    });
    assert_eq!(judged(reading).max_age, Some(Duration::from_secs(86400)));
}

#[test]
fn a_longer_cache_may_be_expected() {
    let reading = with(DocumentKind::Jwks, |f| f.headers.cache_control = Some("max-age=3600".to_owned()));
    let expected = Expectation { cache: CachePolicy::of_seconds(3600), ..Expectation::none() };
    assert_eq!(judged_for(reading, &expected, &RelyingParty::ALL).findings, []);
}

#[test]
fn another_issuer_is_shown_with_the_difference() {
    for (came, words) in [
        ("https://id.example.com/cluster-a/", "slash at the end"),
        ("https://ID.example.com/cluster-a", "upper and lower case"),
        ("https://id.example.com/cluster-a ", "white space"),
        ("https://kubernetes.default.svc", "byte for byte"),
    ] {
        let report = judged(with_body(
            DocumentKind::Discovery,
            (&format!("\"issuer\":\"{ISSUER}\""), &format!("\"issuer\":\"{came}\"")),
        ));
        let finding = only(&report, rule::ISSUER_MISMATCH);
        assert!(finding.message.contains(words), "{}", finding.message);
        assert!(finding.message.contains(&format!("{came:?}")) && finding.message.contains(ISSUER));
        assert!(!finding.breaks.contains(&RelyingParty::Minio), "MinIO does not look at it");
        assert!(report.visible.is_empty(), "a reader stops here, so no key is visible");
        assert_eq!(report.keys.len(), 1, "what is there is shown all the same");
    }
}

#[test]
fn a_jwks_elsewhere_is_judged_by_its_place() {
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    for (came, expected) in [
        (format!("{ISSUER}/keys.json?v=2"), None),
        ("https://id.example.com/openid/v1/jwks".to_owned(), Some(Severity::Note)),
        ("https://id.example.com/cluster-abc/jwks".to_owned(), Some(Severity::Note)),
        ("https://keys.example.com/jwks".to_owned(), Some(Severity::Warning)),
        ("https://10.0.0.5:6443/openid/v1/jwks".to_owned(), Some(Severity::Error)),
        ("https://[fd00::5]:6443/openid/v1/jwks".to_owned(), Some(Severity::Error)),
        ("https://kubernetes.default.svc/openid/v1/jwks".to_owned(), Some(Severity::Error)),
        ("http://id.example.com/cluster-a/jwks".to_owned(), Some(Severity::Error)),
        ("https://me:secret@id.example.com/cluster-a/jwks".to_owned(), Some(Severity::Error)),
        ("/openid/v1/jwks".to_owned(), Some(Severity::Error)),
        (format!("{ISSUER}/a b"), Some(Severity::Error)),
    ] {
        let report = judged(with_body(DocumentKind::Discovery, (&jwks_uri, &came)));
        let finding = report.findings.iter().find(|finding| finding.rule == rule::JWKS_URI_ELSEWHERE);
        assert_eq!(finding.map(|finding| finding.severity), expected, "{came}");
        assert!(finding.is_none_or(|finding| finding.message.contains(&jwks_uri)));
        let severe = expected.is_none_or(|severity| severity < Severity::Warning);
        assert_eq!(report.is_good(), severe, "{came}");
    }
}

#[test]
fn a_node_address_suits_a_cluster_that_reaches_it() {
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    let reading = with_body(DocumentKind::Discovery, (&jwks_uri, "https://10.0.0.5:6443/openid/v1/jwks"));
    let report = judged_for(reading, &Expectation::none(), &[RelyingParty::Kubernetes]);
    assert_eq!(only(&report, rule::JWKS_URI_ELSEWHERE).severity, Severity::Warning);
}

#[test]
fn only_a_url_that_an_anonymous_reader_can_read_is_read() {
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    let next = |came: &str| {
        let reading = with_body(DocumentKind::Discovery, (&jwks_uri, came));
        readable_jwks_uri(&reading.discovery.unwrap())
    };
    assert_eq!(next("https://keys.example.com/a?b=c"), Some("https://keys.example.com/a?b=c".to_owned()));
    let long = format!("https://keys.example.com/{}", "a".repeat(8000));
    for came in ["http://a.example.com/", "https://me@a.example.com/", "file:///etc/passwd", "", &long] {
        assert_eq!(next(came), None, "{came}");
    }
    let mut refused = good(DocumentKind::Discovery);
    refused.status = 403;
    assert_eq!(readable_jwks_uri(&refused), None);
}

#[test]
fn what_is_no_document_is_named() {
    for (kind, rule) in
        [(DocumentKind::Discovery, rule::DISCOVERY_MALFORMED), (DocumentKind::Jwks, rule::JWKS_MALFORMED)]
    {
        for (body, hint) in [
            ("<!DOCTYPE html>", "HTML"),
            ("", "empty"),
            ("[]", ""),
            ("{\"keys\":{}}", ""),
            ("{\"issuer\":1}", ""),
            ("\u{feff}{}", "byte order mark"),
        ] {
            let report = judged(with(kind, |fetched| fetched.body = body.as_bytes().to_vec()));
            let finding = only(&report, rule);
            assert!(finding.message.contains(hint), "{}", finding.message);
            assert!(report.visible.is_empty());
        }
        let zipped = with(kind, |fetched| {
            fetched.body = vec![0x1f, 0x8b];
            fetched.headers.content_encoding = Some("gzip".to_owned());
        });
        assert!(only(&judged(zipped), rule).message.contains("compressed"));
    }
}

#[test]
fn required_members_are_missed() {
    let cut = ("\"subject_types_supported\":[\"public\"],", "");
    let report = judged(with_body(DocumentKind::Discovery, cut));
    assert!(only(&report, rule::DISCOVERY_INCOMPLETE).message.contains("subject_types_supported;"));
    let none = (",\"id_token_signing_alg_values_supported\":[\"RS256\"]", "");
    let report = judged(with_body(DocumentKind::Discovery, none));
    assert!(only(&report, rule::DISCOVERY_INCOMPLETE).message.contains("id_token_signing"));
}

#[test]
fn advertised_algorithms_are_those_of_the_keys() {
    for (advertised, expected) in [
        ("[\"RS256\"]", None),
        ("[\"ES256\",\"RS256\"]", Some(Severity::Note)),
        ("[\"ES256\"]", Some(Severity::Warning)),
    ] {
        let report = judged(with_body(DocumentKind::Discovery, ("[\"RS256\"]", advertised)));
        let finding = report.findings.iter().find(|finding| finding.rule == rule::ALGORITHMS_MISSING);
        assert_eq!(finding.map(|finding| finding.severity), expected, "{advertised}");
    }
}

#[test]
fn members_beside_keys_are_noted() {
    let report = judged(with_body(DocumentKind::Jwks, ("{\"keys\":", "{\"sequence\":1,\"keys\":")));
    assert!(only(&report, rule::MEMBERS).message.contains("\"sequence\""));
}

#[test]
fn the_keys_are_linted() {
    for (replace, rule) in [
        (("\"use\":\"sig\"", "\"d\":\"AQAB\",\"use\":\"sig\""), "key-private-member"),
        (("\"use\":\"sig\"", "\"key_ops\":[\"verify\"],\"use\":\"sig\""), "key-members"),
        (("\"use\":\"sig\"", "\"use\":\"enc\""), "key-use"),
    ] {
        let report = judged(with_body(DocumentKind::Jwks, replace));
        assert!(report.findings.iter().any(|finding| finding.rule == rule), "{:#?}", report.findings);
        assert!(!report.is_good(), "{rule}");
    }
    let report = judged(with(DocumentKind::Jwks, |fetched| fetched.body = b"{\"keys\":[]}".to_vec()));
    assert_eq!(only(&report, "keys-missing").severity, Severity::Error);
}

#[test]
fn expected_keys_are_looked_for() {
    let [published, other] = keys();
    let id = |key: &PublicKey| key.key_id().clone();

    let report = judged_for(good_reading(), &Expectation::of_keys([id(&published)]), &RelyingParty::ALL);
    assert_eq!(report.findings, []);

    let both = Expectation::of_keys([id(&published), id(&other)]);
    let report = judged_for(good_reading(), &both, &RelyingParty::ALL);
    let finding = only(&report, rule::KEY_MISSING);
    assert!(finding.message.contains(other.key_id().as_str()), "{}", finding.message);
    assert!(finding.message.contains("1 of 2"), "{}", finding.message);
    assert!(report.shows(published.key_id()));

    let report = judged_for(good_reading(), &Expectation::of_keys([id(&other)]), &RelyingParty::ALL);
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [rule::KEY_MISSING, rule::KEY_UNEXPECTED]);
}

#[test]
fn a_key_under_the_id_of_another_is_not_that_other() {
    let [published, other] = keys();
    let swap = (published.key_id().as_str(), other.key_id().as_str());
    let reading = with_body(DocumentKind::Jwks, swap);
    let expected = Expectation::of_keys([other.key_id().clone()]);
    let report = judged_for(reading, &expected, &RelyingParty::ALL);
    let missing = report.findings.iter().find(|finding| finding.rule == rule::KEY_MISSING).unwrap();
    assert!(missing.message.contains("the numbers of another key"), "{}", missing.message);
    assert_eq!(report.visible, Vec::<KeyId>::new());
}

#[test]
fn other_bytes_are_a_warning_although_the_keys_are_there() {
    let expected = Expectation::of_documents(&documents());
    let reading = with(DocumentKind::Jwks, |fetched| {
        fetched.body.push(b'\n');
        fetched.headers.age = Some("30".to_owned());
    });
    let report = judged_for(reading, &expected, &RelyingParty::ALL);
    let finding = only(&report, rule::BYTES_DIFFER);
    let length = expected.bytes[&DocumentKind::Jwks].len();
    assert!(finding.message.contains(&format!("at byte {length}")), "{}", finding.message);
    assert!(finding.message.contains("30 s old"), "{}", finding.message);
    assert_eq!(report.visible.len(), 1);
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
    let mut reading = with_body(DocumentKind::Discovery, (&jwks_uri, "http://id.example.com/jwks"));
    reading.discovery.as_mut().unwrap().headers.content_type = None;
    let report = judged(Reading { jwks: None, private_trust: true, ..reading });
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

    let json = serde_json::to_value(judged(good_reading())).unwrap();
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
