//! What is in the documents.

use super::*;

#[test]
fn another_issuer_is_shown_with_the_difference() {
    for (came, words) in [
        ("https://id.example.com/cluster-a/", "the slash at the end is wrong: "),
        ("https://ID.example.com/cluster-a", "upper and lower case are wrong: "),
        ("https://id.example.com/cluster-a ", "there is white space: "),
        ("https://kubernetes.default.svc", "the discovery document names "),
    ] {
        let report = judged(with_body(
            DocumentKind::Discovery,
            (&format!("\"issuer\":\"{ISSUER}\""), &format!("\"issuer\":\"{came}\"")),
        ));
        let finding = only(&report, rule::ISSUER_MISMATCH);
        assert!(finding.message.starts_with(words), "{}", finding.message);
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
    let fetches = with_body(DocumentKind::Discovery, (&jwks_uri, "https://10.0.0.5:6443/openid/v1/jwks"));
    let report = judged_for(fetches, &Expectation::none(), &[RelyingParty::Kubernetes]);
    assert_eq!(only(&report, rule::JWKS_URI_ELSEWHERE).severity, Severity::Warning);
}

#[test]
fn only_a_url_that_an_anonymous_reader_can_read_is_read() {
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    let next = |came: &str| {
        let fetches = with_body(DocumentKind::Discovery, (&jwks_uri, came));
        readable_jwks_uri(&fetches.discovery.unwrap())
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

    let report = judged_for(good_fetches(), &Expectation::of_keys([id(&published)]), &RelyingParty::USUAL);
    assert_eq!(report.findings, []);

    let both = Expectation::of_keys([id(&published), id(&other)]);
    let report = judged_for(good_fetches(), &both, &RelyingParty::USUAL);
    let finding = only(&report, rule::KEY_MISSING);
    assert!(finding.message.contains(other.key_id().as_str()), "{}", finding.message);
    assert!(finding.message.contains("1 of 2"), "{}", finding.message);
    assert!(report.shows(published.key_id()));

    let report = judged_for(good_fetches(), &Expectation::of_keys([id(&other)]), &RelyingParty::USUAL);
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [rule::KEY_MISSING, rule::KEY_UNEXPECTED]);
}

#[test]
fn a_key_under_the_id_of_another_is_not_that_other() {
    let [published, other] = keys();
    let swap = (published.key_id().as_str(), other.key_id().as_str());
    let fetches = with_body(DocumentKind::Jwks, swap);
    let expected = Expectation::of_keys([other.key_id().clone()]);
    let report = judged_for(fetches, &expected, &RelyingParty::USUAL);
    let missing = report.findings.iter().find(|finding| finding.rule == rule::KEY_MISSING).unwrap();
    assert!(missing.message.contains("the numbers of another key"), "{}", missing.message);
    assert_eq!(report.visible, Vec::<KeyId>::new());
}

#[test]
fn other_bytes_are_a_warning_although_the_keys_are_there() {
    let expected = Expectation::of_documents(&documents());
    let fetches = with(DocumentKind::Jwks, |fetched| {
        fetched.body.push(b'\n');
        fetched.headers.age = Some("30".to_owned());
    });
    let report = judged_for(fetches, &expected, &RelyingParty::USUAL);
    let finding = only(&report, rule::BYTES_DIFFER);
    let length = expected.bytes[&DocumentKind::Jwks].len();
    assert!(finding.message.contains(&format!("at byte {length}")), "{}", finding.message);
    assert!(finding.message.contains("30 s old"), "{}", finding.message);
    assert_eq!(report.visible.len(), 1);
}

/// ESC, BEL, newlines and a turn of direction, wherever a server can put text.
#[test]
fn nothing_that_a_server_sent_moves_a_terminal_or_forges_a_line() {
    const EVIL: &str = "\u{1b}[2J\u{7}\nforged line\u{202e}\u{2028}";
    let in_json = serde_json::to_string(EVIL).unwrap();
    let in_json = in_json.trim_matches('"');
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    let discoveries = [
        (&*jwks_uri, format!("https://id.example.com/{in_json}")),
        ("RS256", in_json.to_owned()),
        (ISSUER, format!("{ISSUER}{in_json}")),
        ("[\"public\"]", format!("{{\"{in_json}\":\"{in_json}\"}}")),
    ];
    let discoveries = discoveries.map(|(from, to)| with_body(DocumentKind::Discovery, (from, &to)));
    let members =
        [("\"kid\":\"", format!("\"kid\":\"{in_json}")), ("\"alg\":\"", format!("\"alg\":\"{in_json}"))];
    let more = [
        ("{\"keys\"", format!("{{\"{in_json}\":1,\"keys\"")),
        ("\"kty\":\"", format!("\"kty\":\"{in_json}")),
    ];
    let sets = members.into_iter().chain(more).map(|(from, to)| with_body(DocumentKind::Jwks, (from, &to)));
    let headers = with(DocumentKind::Jwks, |fetched| {
        fetched.url.push_str(EVIL);
        fetched.headers.content_type = Some(EVIL.to_owned());
        fetched.headers.cache_control = Some(EVIL.to_owned());
    });
    let refused = with(DocumentKind::Jwks, |fetched| {
        (fetched.status, fetched.body) = (403, format!("<Code>{EVIL}</Code>").into_bytes());
        fetched.headers.location = Some(EVIL.to_owned());
    });
    let names = FailureKind::Certificate(CertificateFault::NameMismatch(vec![EVIL.to_owned()]));
    let others = [headers, refused, failed(names), failed(FailureKind::Other(EVIL.to_owned()))];
    for fetches in discoveries.into_iter().chain(sets).chain(others) {
        let report = judged(fetches);
        assert!(!report.findings.is_empty());
        for finding in &report.findings {
            let text = format!("{}{}", finding.message, finding.remedy);
            let bad = text.chars().find(|character| {
                EVIL.contains(*character) && !character.is_ascii_graphic() && *character != ' '
            });
            assert_eq!(bad, None, "{text:?}");
        }
    }
}

#[test]
fn a_set_without_end_is_read_in_part_and_told_in_short() {
    let fetches = with(DocumentKind::Jwks, |fetched| {
        fetched.body = format!("{{\"keys\":[{}]}}", vec!["{}"; 340_000].join(",")).into_bytes();
    });
    let report = judged(fetches);
    assert_eq!(report.keys.len(), 5000);
    assert!(report.findings.iter().any(|finding| finding.message.contains("340000 entries")));
    let long: usize = report.findings.iter().map(|finding| finding.message.len()).sum();
    assert!(long < 4000, "{long} bytes");
}
