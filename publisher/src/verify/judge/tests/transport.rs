//! How the documents came.

use super::*;

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
        assert_eq!((finding.severity, &finding.breaks), (Severity::Error, &RelyingParty::USUAL.to_vec()));
        assert!(finding.message.contains(words), "{}", finding.message);
        assert!(finding.message.contains("/.well-known/openid-configuration"), "{}", finding.message);
        assert!(finding.remedy.contains(remedy), "{}", finding.remedy);
        assert!(report.visible.is_empty() && !report.is_good());
    }
}

#[test]
fn an_unknown_authority_breaks_those_to_whom_it_cannot_be_given() {
    let unknown = || failed(FailureKind::Certificate(CertificateFault::UnknownIssuer));
    let remade = failed(FailureKind::Certificate(CertificateFault::OtherAuthorityKey));
    let remade = judged(remade);
    assert_eq!(only(&remade, rule::TLS_UNTRUSTED).breaks, CLOUDS);
    assert!(only(&remade, rule::TLS_UNTRUSTED).remedy.contains("new certificate"));
    assert_eq!(only(&judged(unknown()), rule::TLS_UNTRUSTED).breaks, CLOUDS);

    let for_kubernetes = judged_for(unknown(), &Expectation::none(), &[RelyingParty::Kubernetes]);
    let finding = only(&for_kubernetes, rule::TLS_UNTRUSTED);
    assert_eq!(finding.breaks, []);
    assert!(!for_kubernetes.is_good(), "nothing was seen, so nothing is proven for kubernetes either");
}

#[test]
fn a_given_authority_is_noted() {
    let report = judged(DocumentFetches { private_trust: true, ..good_fetches() });
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
        let fetches = with(DocumentKind::Jwks, |fetched| {
            (fetched.status, fetched.body) = (code, body.into_bytes());
        });
        let report = judged(fetches);
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
    let report = judged(DocumentFetches { jwks: None, ..redirected("") });
    let finding = only(&report, rule::REDIRECTED);
    assert!(finding.message.contains("\"https://www.example.com/\""), "{}", finding.message);
    let report = judged(DocumentFetches { jwks: None, ..redirected("<Code>PermanentRedirect</Code>") });
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
        let fetches = with(DocumentKind::Jwks, |fetched| fetched.elapsed = Duration::from_millis(millis));
        let report = judged_for(fetches, &Expectation::none(), parties);
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
        ("max-age=60, stale-if-error=86400", Some(86_460)),
        ("max-age=60, stale-while-revalidate=30, stale-if-error=20", Some(90)),
        ("max-age=99999999999999999999999", Some(1 << 31)),
        ("max-age=18446744073709551615, stale-while-revalidate=1", Some((1 << 31) + 1)),
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
    let fetches = with(DocumentKind::Discovery, |fetched| {
        fetched.headers.cache_control = Some("max-age=86400".to_owned());
    });
    assert_eq!(judged(fetches).max_age, Some(Duration::from_secs(86400)));
}

#[test]
fn a_longer_cache_may_be_expected() {
    let fetches = with(DocumentKind::Jwks, |f| f.headers.cache_control = Some("max-age=3600".to_owned()));
    let expected = Expectation { cache: CachePolicy::of_seconds(3600), ..Expectation::none() };
    assert_eq!(judged_for(fetches, &expected, &RelyingParty::USUAL).findings, []);
}
