//! Every rule fires where it should, on whom it should, and nowhere else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::profile::RelyingParty::{Aws, Azure, Common, Gcp, Kubernetes, Minio, Vault};
use crate::{Jwks, PublicKey};

const ALL: &[RelyingParty] = &RelyingParty::USUAL;

fn p256() -> PublicKey {
    let bytes = include_str!("../../tests/data/p256.public.pem");
    crate::key_file::read_public_keys(bytes).keys.remove(0)
}

fn rsa(bits: usize) -> PublicKey {
    let mut modulus = vec![0xa5; bits / 8];
    modulus[1] = 7;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

/// The entry that we would publish.
fn entry(key: PublicKey) -> Value {
    let mut document: Value = serde_json::from_slice(&Jwks::new([key]).unwrap().to_json()).unwrap();
    document["keys"][0].take()
}

fn changed(mut entry: Value, member: &str, value: Value) -> Value {
    entry[member] = value;
    entry
}

fn without(mut entry: Value, member: &str) -> Value {
    entry.as_object_mut().unwrap().remove(member);
    entry
}

fn set(entries: &[Value]) -> ObservedJwks {
    ObservedJwks::parse(json!({ "keys": entries }).to_string().as_bytes()).unwrap()
}

/// Rule, severity and victims of each finding.
fn gist(findings: &[Finding]) -> Vec<(&'static str, Severity, Vec<RelyingParty>)> {
    findings.iter().map(|found| (found.rule, found.severity, found.breaks.clone())).collect()
}

/// A text of an issuer, and what is found with it: rule, severity, victims.
const ISSUERS: &[(&str, &str, Severity, &[RelyingParty])] = &[
    ("http://id.example.com", "issuer-invalid", Severity::Error, ALL),
    ("https://id.example.com/?a=b", "issuer-invalid", Severity::Error, ALL),
    ("https://id.example.com#a", "issuer-invalid", Severity::Error, ALL),
    ("https://id.example.com:6443", "issuer-port", Severity::Error, &[Aws, Azure, Gcp, Common]),
    ("https://id.example.com:443", "issuer-port", Severity::Error, &[Aws, Azure, Gcp, Common]),
    ("https://203.0.113.7", "issuer-ip-host", Severity::Warning, &[Aws, Azure, Gcp, Common]),
    ("https://[2001:db8::7]/a", "issuer-ip-host", Severity::Warning, &[Aws, Azure, Gcp, Common]),
    ("https://kubernetes.default.svc", "issuer-private-host", Severity::Error, &[Aws, Azure, Gcp, Common]),
    (
        "https://kubernetes.default.svc.cluster.local",
        "issuer-private-host",
        Severity::Error,
        &[Aws, Azure, Gcp, Common],
    ),
    ("https://Issuer.INTERNAL./a", "issuer-private-host", Severity::Error, &[Aws, Azure, Gcp, Common]),
    ("https://localhost", "issuer-private-host", Severity::Error, &[Aws, Azure, Gcp, Common]),
    ("https://ID.example.com", "issuer-upper-case-host", Severity::Warning, &[Aws, Azure, Gcp, Common]),
    ("https://id.example.com/", "issuer-trailing-slash", Severity::Warning, &[Aws, Azure, Gcp, Common]),
    ("https://id.example.com/a/", "issuer-trailing-slash", Severity::Warning, &[Aws, Azure, Gcp, Common]),
    ("https://id.example.com/a/../b", "issuer-path-segments", Severity::Warning, ALL),
    ("https://id.example.com/a//b", "issuer-path-segments", Severity::Warning, ALL),
];

#[test]
fn finds_what_is_wrong_with_an_issuer() {
    for (text, rule, severity, breaks) in ISSUERS {
        let findings = lint_text(text, ALL);
        let found = gist(&findings).into_iter().find(|(found, ..)| found == rule);
        assert_eq!(found, Some((*rule, *severity, breaks.to_vec())), "{text}: {findings:?}");
        assert!(findings.iter().all(|found| !found.message.is_empty() && !found.remedy.is_empty()));
    }
}

#[test]
fn a_plain_issuer_suits_everybody() {
    for text in [
        "https://id.example.com",
        "https://s3.eu-west-1.amazonaws.com/Bucket/Cluster-A",
        "https://storage.example.com/a.b/..c",
        "https://a.internal.example.com",
        "https://localhost.example.com",
    ] {
        assert_eq!(lint_text(text, ALL), [], "{text}");
    }
}

#[test]
fn the_length_is_held_against_each_limit() {
    for (length, breaks) in
        [(255, &[][..]), (256, &[Aws, Common]), (600, &[Aws, Common]), (601, &[Aws, Azure, Common])]
    {
        let text = format!("https://id.example.com/{}", "a".repeat(length - 23));
        assert_eq!(text.len(), length);
        let findings = lint_text(&text, ALL);
        assert_eq!(findings.iter().map(|found| &found.breaks[..]).collect::<Vec<_>>().concat(), breaks);
    }
    let text = format!("https://id.example.com/{}", "a".repeat(700));
    let findings = lint_text(&text, &[Azure]);
    assert!(findings[0].message.ends_with("expected at most 600"), "Azure's limit, not AWS's: {findings:?}");
}

#[test]
fn tells_private_addresses_from_public_ones() {
    for (host, private) in [
        ("10.0.0.1", true),
        ("100.64.0.1", true),
        ("100.128.0.1", false),
        ("127.0.0.1", true),
        ("169.254.169.254", true),
        ("172.31.0.1", true),
        ("172.32.0.1", false),
        ("192.168.1.1", true),
        ("8.8.8.8", false),
        ("[::1]", true),
        ("[fd00::1]", true),
        ("[fe80::1]", true),
        ("[2001:4860:4860::8888]", false),
    ] {
        let findings = lint_text(&format!("https://{host}"), ALL);
        assert_eq!(findings.iter().any(|found| found.rule == "issuer-private-host"), private, "{host}");
    }
}

#[test]
fn our_own_keys_suit_everybody() {
    let keys = Jwks::new([rsa(2048), rsa(3072), rsa(4096)]).unwrap();
    assert_eq!(lint_keys(&ObservedJwks::from(&keys), ALL), []);
    let rendered = ObservedJwks::parse(&keys.to_json()).unwrap();
    assert_eq!(lint_keys(&rendered, ALL), []);
}

#[test]
fn finds_what_is_wrong_with_one_entry() {
    let ours = || entry(rsa(2048));
    let error = Severity::Error;
    let warning = Severity::Warning;
    for (odd, rule, severity, breaks) in [
        (changed(ours(), "d", json!("AQAB")), "key-private-member", error, ALL),
        (json!({ "kty": "AKP", "kid": "m" }), "key-unknown-type", error, ALL),
        (json!({ "kty": "OKP", "kid": "e" }), "key-unknown-type", warning, &[Aws, Azure, Gcp, Common]),
        (changed(ours(), "n", json!("AQAB")), "key-unreadable", error, ALL),
        (changed(entry(p256()), "crv", json!("secp256k1")), "key-unreadable", error, ALL),
        (changed(ours(), "alg", json!("RS512")), "key-algorithm-label", warning, &[Azure, Gcp, Common]),
        (entry(rsa(1024)), "key-rsa-too-small", error, ALL),
        (entry(rsa(8192)), "key-rsa-too-large", warning, &[Aws, Azure, Gcp, Common]),
        (without(ours(), "kid"), "key-id-missing", error, ALL),
        (changed(ours(), "kid", json!("")), "key-id-missing", error, ALL),
        (changed(ours(), "kid", json!("mine")), "key-id-foreign", warning, ALL),
        (changed(ours(), "key_ops", json!(["verify"])), "key-members", error, &[Aws, Azure, Gcp, Common]),
        (
            changed(ours(), "x5c", json!(["MII"])),
            "key-members",
            warning,
            &[Kubernetes, Aws, Azure, Gcp, Vault, Common],
        ),
        (changed(ours(), "use", json!("enc")), "key-use", error, &[Aws, Azure, Gcp, Common]),
    ] {
        // A good key beside it, so that the set is not empty.
        let findings = lint_keys(&set(&[entry(rsa(3072)), odd.clone()]), ALL);
        assert_eq!(gist(&findings), [(rule, severity, breaks.to_vec())], "{odd}: {findings:?}");
    }
}

/// go-oidc, Spring Security, Authlib and Dex refuse the second algorithm until they are restarted (measured).
#[test]
fn a_change_of_algorithm_is_named_before_anybody_refuses_it() {
    let mixed = set(&[entry(rsa(2048)), entry(p256())]);
    let findings = lint_keys(&mixed, ALL);
    assert_eq!(
        gist(&findings),
        [
            ("key-algorithm", Severity::Warning, vec![Azure, Common]),
            ("keys-several-algorithms", Severity::Warning, vec![Common])
        ]
    );
    let learners = [RelyingParty::Jose, RelyingParty::Pyjwt, RelyingParty::Nimbus, RelyingParty::Jwx];
    assert_eq!(lint_keys(&mixed, &learners), []);
    let fixed =
        [RelyingParty::Authlib, RelyingParty::SpringSecurity, RelyingParty::GoOidc, RelyingParty::Dex];
    let findings = lint_keys(&mixed, &fixed);
    assert_eq!(gist(&findings), [("keys-several-algorithms", Severity::Warning, fixed.to_vec())]);
    assert!(
        findings[0].message.contains("ES256, RS256") && findings[0].remedy.contains("restart"),
        "{findings:?}"
    );
    assert_eq!(lint_keys(&set(&[entry(rsa(2048)), entry(rsa(3072))]), &fixed), []);
}

#[test]
fn a_kind_of_key_that_makes_somebody_refuse_the_whole_set_is_named() {
    let p521 =
        crate::key_file::read_public_keys(include_str!("../../tests/data/p521.public.pem")).keys.remove(0);
    let asked = [RelyingParty::JwtAuthorizer, RelyingParty::AxumJwks, RelyingParty::Pyjwt];
    for (key, breaks) in [(entry(p521), &asked[..2]), (entry(p256()), &[RelyingParty::AxumJwks])] {
        let findings = lint_keys(&set(&[entry(rsa(2048)), key]), &asked);
        let found = findings.iter().find(|found| found.rule == "key-breaks-set").unwrap();
        assert_eq!((found.severity, &found.breaks[..]), (Severity::Error, breaks), "{findings:?}");
    }
    assert_eq!(lint_keys(&set(&[entry(rsa(2048))]), &asked), []);
}

#[test]
fn what_a_cluster_cannot_serve_is_said_to_whoever_demands_it() {
    let findings =
        lint_text("https://id.example.com/a", &[RelyingParty::OpenidconnectRs, RelyingParty::Jose]);
    let breaks = vec![RelyingParty::OpenidconnectRs];
    assert_eq!(gist(&findings), [("issuer-discovery-members", Severity::Error, breaks)]);
    assert!(findings[0].remedy.contains("https://id.example.com/a/openid/v1/jwks"), "{findings:?}");
}

#[test]
fn a_published_secret_breaks_everybody() {
    let secret = json!({ "kty": "oct", "kid": "s", "k": "AQAB" });
    let findings = lint_keys(&set(&[entry(rsa(2048)), secret]), &[Kubernetes]);
    assert_eq!(gist(&findings), [("key-private-member", Severity::Error, vec![Kubernetes])]);
    assert!(!findings[0].message.contains("AQAB"), "the secret itself is not repeated");
}

#[test]
fn a_repeated_kid_hides_a_key_from_those_who_index_by_it() {
    let (one, other) = (entry(rsa(2048)), entry(rsa(3072)));
    let findings = lint_keys(&set(&[one.clone(), changed(other, "kid", one["kid"].clone())]), ALL);
    let repeated = findings.iter().find(|found| found.rule == "key-id-repeated").unwrap();
    assert_eq!(repeated.breaks, [Aws, Azure, Gcp, Minio, Common]);
    assert!(repeated.message.contains("refused by aws, minio, not promised by azure, gcp, common"));
}

#[test]
fn a_set_without_a_usable_key_serves_nobody() {
    for entries in [&[][..], &[json!({ "kty": "AKP", "kid": "m" })]] {
        let findings = lint_keys(&set(entries), ALL);
        assert_eq!((findings[0].rule, &findings[0].breaks[..]), ("keys-missing", ALL));
    }
}

#[test]
fn the_number_of_keys_is_held_against_each_budget() {
    let numbered = |number: usize| {
        let mut modulus = vec![0xa5; 256];
        modulus[1] = number as u8;
        PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
    };
    for (count, severity, breaks) in [
        (10, None, &[][..]),
        (11, Some(Severity::Warning), &[Common]),
        (100, Some(Severity::Warning), &[Common]),
        (101, Some(Severity::Error), &[Aws, Azure, Common]),
    ] {
        let findings = lint_keys(&ObservedJwks::from(&Jwks::new((0..count).map(numbered)).unwrap()), ALL);
        assert_eq!(findings.first().map(|found| found.severity), severity, "{count}");
        assert_eq!(findings.iter().map(|found| &found.breaks[..]).collect::<Vec<_>>().concat(), breaks);
    }
    // 100 RSA and one EC key are within AWS's budget, which counts the kinds apart.
    let mixed = Jwks::new((0..100).map(numbered).chain([p256()])).unwrap();
    assert_eq!(lint_keys(&ObservedJwks::from(&mixed), &[Aws]), []);
}

#[test]
fn a_note_breaks_nobody() {
    let p384 =
        crate::key_file::read_public_keys(include_str!("../../tests/data/p384.public.pem")).keys.remove(0);
    let keys = ObservedJwks::from(&Jwks::new([p384]).unwrap());
    assert_eq!(gist(&lint_keys(&keys, &[Kubernetes])), [("key-conformance", Severity::Note, vec![])]);
    assert_eq!(gist(&lint_keys(&keys, &[Gcp])), [("key-algorithm", Severity::Error, vec![Gcp])]);
    assert_eq!(lint_keys(&keys, &[Aws, Vault, Minio]), []);
}

#[test]
fn only_those_asked_for_are_named_in_their_order_and_once() {
    let findings = lint_text("https://10.0.0.1:1/", &[Common, Aws, Vault, Aws]);
    assert!(findings.len() >= 4);
    assert!(findings.iter().all(|found| found.breaks == [Aws, Common]), "{findings:?}");
    assert_eq!(lint_text("https://10.0.0.1:1/", &[Kubernetes, Vault, Minio]), []);
    assert_eq!(lint_text("no URL", &[]), []);
}

#[test]
fn hostile_text_stays_one_short_line() {
    let hostile = || json!(format!("a\n\u{1b}[31m{}", "x".repeat(10_000)));
    let mut odd = entry(rsa(1024));
    for member in ["kid", "alg", "use"] {
        odd[member] = hostile();
    }
    for number in 0..100 {
        odd[format!("m{number}\u{1b}{}", "x".repeat(100))] = json!(1);
    }
    let findings = lint_keys(&set(&[odd, json!({ "kty": hostile() })]), ALL);
    let rules: Vec<_> = findings.iter().map(|found| found.rule).collect();
    for rule in ["key-members", "key-use", "key-algorithm-label", "key-id-foreign", "key-unknown-type"] {
        assert!(rules.contains(&rule), "{rules:?}");
    }
    for found in findings {
        assert!(found.message.len() < 1000 && !found.message.contains(['\n', '\u{1b}']), "{}", found.message);
    }
}

#[test]
fn many_entries_are_named_shortly() {
    let entries: Vec<Value> =
        (0..9).map(|number| json!({ "kty": "AKP", "kid": format!("m{number}") })).collect();
    let findings = lint_keys(&set(&entries), &[Minio]);
    let unknown = findings.iter().find(|found| found.rule == "key-unknown-type").unwrap();
    assert!(
        unknown.message.contains(r#""m0" ("AKP"), "m1" ("AKP"), "m2" ("AKP"), 6 more"#),
        "{}",
        unknown.message
    );
}

#[test]
fn findings_travel_as_json() {
    let findings = lint_text("https://id.example.com:8443", &[Azure]);
    assert_eq!(
        serde_json::to_value(&findings).unwrap(),
        json!([{
            "rule": "issuer-port",
            "severity": "warning",
            "breaks": ["azure"],
            "message": "the issuer URL names port 8443; expected none, which means 443",
            "remedy": "serve on port 443 behind a name and leave the port out of the issuer URL",
        }])
    );
}

#[test]
fn the_page_for_users_explains_every_rule_and_party() {
    let page = include_str!("../../../docs/relying-parties.md");
    let missing: Vec<_> = RULES.iter().filter(|rule| !page.contains(&format!("| `{rule}` |"))).collect();
    assert!(missing.is_empty(), "docs/relying-parties.md does not explain {missing:?}");
    for party in RelyingParty::ALL {
        assert!(page.contains(&format!("`{party}`")), "docs/relying-parties.md does not name {party}");
        assert!(page.contains(party.profile().title), "{party}");
    }
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    assert_eq!(RULES.iter().collect::<BTreeSet<_>>().len(), RULES.len());
    assert!(RULES.iter().all(|rule| rule.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
}
