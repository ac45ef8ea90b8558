//! The published bytes, literally, and the reader of other people's sets.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use chancery_core::discovery::ObservedDiscovery;
use chancery_core::jwks::{JwksError, ObservedJwk, ObservedJwks};
use chancery_core::{CachePolicy, Discovery, DocumentKind, DocumentSet, IssuerUrl, Jwks};
use fixture::{any_key, data, key, numbered_set};
use proptest::prelude::*;
use serde_json::{Value, json};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

fn issuer(text: &str) -> IssuerUrl {
    text.parse().expect("an issuer URL")
}

fn every_kind() -> Jwks {
    Jwks::new(["rsa-2048", "p256", "p384", "p521"].map(key)).expect("keys")
}

/// `jwks.json` is computed by openssl and coreutils.
#[test]
fn the_key_set_has_the_bytes_of_kube_apiserver() {
    assert_eq!(text(every_kind().to_json()), data("jwks.json"));
}

#[test]
fn the_discovery_document_has_the_bytes_of_kube_apiserver() {
    let rsa = Jwks::new([key("rsa-2048")]).expect("a key");
    assert_eq!(
        text(Discovery::new(issuer("https://id.example.com/cluster-a"), &rsa).to_json()),
        r#"{"issuer":"https://id.example.com/cluster-a","jwks_uri":"https://id.example.com/cluster-a/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["RS256"]}"#
    );
    assert_eq!(
        text(Discovery::new(issuer("https://id.example.com/a&b/"), &every_kind()).to_json()),
        r#"{"issuer":"https://id.example.com/a\u0026b/","jwks_uri":"https://id.example.com/a\u0026b/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","ES384","ES512","RS256"]}"#
    );
}

#[test]
fn a_document_knows_its_place_type_and_cache() {
    let set = DocumentSet::new(issuer("https://id.example.com"), every_kind(), CachePolicy::default());
    let places =
        DocumentKind::ALL.map(|kind| (kind.path(), kind.media_type(), set.document(kind).cache.header()));
    let header = "public, max-age=600".to_owned();
    assert_eq!(
        places,
        [
            ("openid/v1/jwks", "application/jwk-set+json", header.clone()),
            (".well-known/openid-configuration", "application/json", header),
        ]
    );
    let discovery = ObservedDiscovery::parse(&set.document(DocumentKind::Discovery).bytes).expect("readable");
    assert_eq!(discovery.issuer, "https://id.example.com");
    assert_eq!(discovery.jwks_uri, issuer("https://id.example.com").url_of(DocumentKind::Jwks.path()));
    assert_eq!(discovery.id_token_signing_alg_values_supported, ["ES256", "ES384", "ES512", "RS256"]);
}

#[test]
fn repetitions_are_dropped_and_the_empty_set_does_not_exist() {
    assert_eq!(Jwks::new([]), None);
    assert_eq!(numbered_set(&[3, 1, 3, 2, 1]), numbered_set(&[3, 1, 2]));
}

#[test]
fn reads_what_others_publish_entry_by_entry() {
    let mut document: Value = serde_json::from_str(&data("jwks.json")).expect("JSON");
    let keys = document["keys"].as_array_mut().expect("an array");
    keys[0]["n"] = json!(format!("{}==", keys[0]["n"].as_str().expect("text")));
    keys[1]["kid"] = json!("");
    keys[2]["x5c"] = json!(["MII"]);
    keys[3]["alg"] = json!("ES256");
    keys.push(json!({ "kty": "OKP", "crv": "Ed25519", "kid": 7 }));
    keys.push(json!({}));
    let read = ObservedJwks::parse(document.to_string().as_bytes()).expect("a JWKS");
    let seen =
        read.entries.iter().map(|entry| (entry.kty.as_str(), entry.key.is_some(), entry.is_kubernetes_key()));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("RSA", true, true),
            ("EC", true, false),
            ("EC", true, true),
            ("EC", true, false),
            ("OKP", false, false),
            ("", false, false),
        ]
    );
    assert_eq!(read.entries[4].kid, None, "a kid that is no string is none");
    assert!(read.entries[2].members.contains(&"x5c".to_owned()));
}

#[test]
fn passes_over_numbers_that_are_no_key() {
    let set: Value = serde_json::from_str(&data("jwks.json")).expect("JSON");
    for (entry, member, value) in [
        (0, "n", "AQAB"),
        (0, "n", "not base64!"),
        (0, "e", "AA"),
        (1, "x", "AAAA"),
        (1, "y", ""),
        (1, "crv", "P-384"),
        (1, "crv", "secp256k1"),
        (1, "kty", "RSA"),
    ] {
        let mut set = set.clone();
        set["keys"][entry][member] = json!(value);
        let read = ObservedJwks::parse(set.to_string().as_bytes()).expect("a JWKS");
        assert_eq!(read.entries[entry].key, None, "{member} {value}");
        assert_eq!(read.keys().count(), 3);
    }
}

#[test]
fn says_what_is_no_key_set() {
    assert!(matches!(ObservedJwks::parse(b"<html>"), Err(JwksError::NotJson(_))));
    for bytes in [&b"{}"[..], b"[]", b"null", b"{\"keys\":{}}", b"{\"keys\":null}"] {
        assert_eq!(ObservedJwks::parse(bytes), Err(JwksError::NoKeys), "{}", bytes.escape_ascii());
    }
    assert_eq!(ObservedJwks::parse(b"{\"keys\":[{},null]}"), Err(JwksError::NotAnObject));
    assert_eq!(ObservedJwks::parse(b"{\"keys\":[]}"), Ok(ObservedJwks::default()));
}

proptest! {
    #[test]
    fn reading_a_rendered_set_gives_the_set(keys in prop::collection::vec(any_key(), 1..6)) {
        let set = Jwks::new(keys).expect("keys");
        let read = ObservedJwks::parse(&set.to_json()).expect("a JWKS");
        prop_assert!(read.entries.iter().all(ObservedJwk::is_kubernetes_key));
        prop_assert_eq!(Jwks::new(read.keys().cloned()), Some(set.clone()));
        // Only the order of the member names differs: a JSON object has none.
        let sorted = |mut jwks: ObservedJwks| {
            jwks.entries.iter_mut().for_each(|entry| entry.members.sort());
            jwks
        };
        prop_assert_eq!(sorted(read), sorted(ObservedJwks::from(&set)));
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ObservedJwks::parse(&bytes);
        let _ = ObservedDiscovery::parse(&bytes);
    }

    #[test]
    fn no_json_makes_the_reader_panic(text in r#"(\{|\}|\[|\]|"keys"|"kty"|"RSA"|"EC"|"n"|"x"|"AQAB"|:|,|null|1){0,30}"#) {
        let _ = ObservedJwks::parse(text.as_bytes());
        let _ = ObservedJwks::parse(format!("{{\"keys\":[{text}]}}").as_bytes());
    }

    #[test]
    fn an_issuer_is_kept_byte_for_byte(text in "https://[A-Za-z0-9.]{1,20}(:[0-9]{1,4})?(/[A-Za-z0-9._~%20&'-]{0,9}){0,4}") {
        if let Ok(issuer) = text.parse::<IssuerUrl>() {
            prop_assert_eq!(issuer.as_str(), &text);
            let without_slash = text.strip_suffix('/').unwrap_or(&text);
            prop_assert_eq!(issuer.jwks_uri(), format!("{without_slash}/openid/v1/jwks"));
            let json = serde_json::to_string(&issuer).expect("text");
            prop_assert_eq!(serde_json::from_str::<IssuerUrl>(&json).expect("the same"), issuer);
        }
    }

    #[test]
    fn no_text_makes_the_issuer_parser_panic(text in "(https|http|:|/|//|\\[|\\]|@|\\?|#|%|[a-z0-9.]{1,5}| |.){0,12}") {
        if let Err(error) = text.parse::<IssuerUrl>() {
            prop_assert_eq!(error.to_string(), format!("{}; {}", error.what(), error.remedy()));
        }
    }
}
