use chancery_core::key::Curve;
use chancery_core::{CachePolicy, Jwks, PublicKey};

use super::*;

/// The base point of P-256 (FIPS 186-4 appendix D.1.2.3), which is a public key like any other.
fn key() -> PublicKey {
    let x = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
    let y = "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    PublicKey::from_ec(Curve::P256, &bytes(x), &bytes(y)).unwrap()
}

fn set(issuer: &str) -> DocumentSet {
    DocumentSet::new(issuer.parse().unwrap(), Jwks::new([key()]).unwrap(), CachePolicy::default())
}

fn policy(issuers: &[&str], extra_hosts: &[&str]) -> Result<HostPolicy, TableError> {
    let issuers: Vec<IssuerUrl> = issuers.iter().map(|issuer| issuer.parse().unwrap()).collect();
    let extra_hosts: Vec<ExtraHost> = extra_hosts.iter().map(|host| host.parse().unwrap()).collect();
    HostPolicy::new(&issuers, &extra_hosts)
}

fn made(policy: HostPolicy, sets: &[DocumentSet]) -> Result<DocumentTable, TableError> {
    let policy = Arc::new(policy);
    DocumentTable::empty(policy.clone()).replaced(policy, sets)
}

/// A table with documents of all issuers.
fn table(issuers: &[&str], extra_hosts: &[&str]) -> DocumentTable {
    let sets: Vec<_> = issuers.iter().map(|issuer| set(issuer)).collect();
    made(policy(issuers, extra_hosts).unwrap(), &sets).unwrap()
}

/// Which issuer's discovery document, or which kind of nothing.
fn discovery(table: &DocumentTable, host: &str, path: &str) -> String {
    match table.find(host, &format!("{path}/.well-known/openid-configuration")) {
        Found::Document(document) => {
            let json: serde_json::Value = serde_json::from_slice(document.bytes()).unwrap();
            json["issuer"].as_str().unwrap().to_owned()
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn documents_are_below_the_path_of_their_issuer() {
    for (issuer, path) in [
        ("https://id.example.com", ""),
        ("https://id.example.com/", ""),
        ("https://id.example.com/a", "/a"),
        ("https://id.example.com/a/b/", "/a/b"),
        ("https://id.example.com/A%20b", "/A%20b"),
    ] {
        let table = table(&[issuer], &[]);
        assert_eq!(discovery(&table, "id.example.com", path), issuer);
        let jwks = table.find("id.example.com", &format!("{path}/openid/v1/jwks"));
        let Found::Document(jwks) = jwks else { panic!("{issuer}: {jwks:?}") };
        assert_eq!(jwks.bytes(), &set(issuer).jwks().to_json());
        assert_eq!(jwks.headers()["content-type"], "application/jwk-set+json");
        assert_eq!(jwks.headers()["cache-control"], "public, max-age=600");
    }
}

#[test]
fn a_host_is_ours_by_name_and_port() {
    let plain = table(&["https://ID.example.com"], &[]);
    let ported = table(&["https://id.example.com:8443"], &[]);
    let default_port = table(&["https://id.example.com:443"], &[]);
    for (table, host, ours) in [
        (&plain, "id.example.com", true),
        (&plain, "ID.EXAMPLE.COM", true),
        (&plain, "id.example.com:443", true),
        (&plain, "id.example.com.", true),
        (&plain, "id.example.com:8443", false),
        (&plain, "id.example.com.evil.example", false),
        (&plain, "xid.example.com", false),
        (&plain, "", false),
        (&ported, "id.example.com:8443", true),
        (&ported, "Id.example.com:8443", true),
        (&ported, "id.example.com", false),
        (&ported, "id.example.com:443", false),
        (&default_port, "id.example.com", true),
        (&default_port, "id.example.com:443", true),
    ] {
        let found = discovery(table, host, "");
        assert_eq!(found != "NoSuchHost", ours, "{host}: {found}");
    }
}

#[test]
fn many_issuers_are_told_apart_by_path_and_by_host() {
    let issuers =
        ["https://a.example", "https://b.example", "https://b.example/team", "https://a.example:8443"];
    let table = table(&issuers, &[]);
    assert_eq!(discovery(&table, "a.example", ""), issuers[0]);
    assert_eq!(discovery(&table, "b.example", ""), issuers[1]);
    assert_eq!(discovery(&table, "b.example", "/team"), issuers[2]);
    assert_eq!(discovery(&table, "a.example:8443", ""), issuers[3]);
    assert_eq!(discovery(&table, "a.example", "/team"), "NoSuchPath");
    assert_eq!(discovery(&table, "b.example", "/TEAM"), "NoSuchPath");
}

#[test]
fn an_extra_host_serves_every_issuer_on_any_port_or_its_own() {
    let issuers = ["https://a.example/one", "https://b.example/two"];
    let table = table(&issuers, &["chancery.svc", "127.0.0.1:8080"]);
    for host in ["chancery.svc", "Chancery.SVC:8443", "chancery.svc:80", "127.0.0.1:8080"] {
        assert_eq!(discovery(&table, host, "/one"), issuers[0], "{host}");
        assert_eq!(discovery(&table, host, "/two"), issuers[1], "{host}");
    }
    assert_eq!(discovery(&table, "127.0.0.1:8081", "/one"), "NoSuchHost");
    assert_eq!(discovery(&table, "a.example", "/two"), "NoSuchPath", "an issuer's host serves its own alone");
}

#[test]
fn an_issuer_without_documents_is_not_yet_rather_than_nothing() {
    let policy = policy(&["https://a.example", "https://b.example"], &[]).unwrap();
    let table = made(policy, &[set("https://a.example")]).unwrap();
    assert_eq!(discovery(&table, "b.example", ""), "NotYet");
    assert_eq!(discovery(&table, "a.example", ""), "https://a.example");
    assert_eq!(table.missing(), ["https://b.example".parse().unwrap()]);
}

#[test]
fn one_place_for_two_issuers_is_refused() {
    for (issuers, extra_hosts) in [
        (["https://a.example", "https://a.example"], &[][..]),
        (["https://a.example", "https://A.example/"], &[]),
        (["https://a.example/x", "https://a.example:443/x/"], &[]),
        (["https://a.example", "https://b.example"], &["proxy.svc"]),
        (["https://a.example", "https://b.example"], &["a.example:443"]),
    ] {
        let error = policy(&issuers, extra_hosts).unwrap_err().to_string();
        for part in [issuers[0], issuers[1], "openid"] {
            assert!(error.contains(part), "{error}");
        }
    }
    policy(&["https://a.example"], &["a.example", "a.example:443"]).expect("an issuer may meet itself");
}

#[test]
fn documents_of_an_issuer_that_has_gone_are_left_out_and_documents_twice_are_refused() {
    let policy = policy(&["https://a.example"], &[]).unwrap();
    let table = made(policy.clone(), &[set("https://b.example"), set("https://a.example")]).unwrap();
    assert_eq!(discovery(&table, "a.example", ""), "https://a.example");
    assert_eq!(table.find("b.example", "/openid/v1/jwks"), Found::NoSuchHost);
    let twice = made(policy, &[set("https://a.example"), set("https://a.example")]).unwrap_err();
    assert_eq!(twice, TableError::RepeatedIssuer("https://a.example".parse().unwrap()));
}

#[test]
fn what_has_not_changed_is_shared_with_the_table_before() {
    let policy = Arc::new(policy(&["https://a.example", "https://b.example"], &[]).unwrap());
    let (a, b) = (set("https://a.example"), set("https://b.example"));
    let first = DocumentTable::empty(policy.clone()).replaced(policy.clone(), &[a.clone(), b]).unwrap();
    let slower = DocumentSet::new(a.issuer().clone(), a.jwks().clone(), CachePolicy::of_seconds(7));
    let second = first.replaced(policy, &[set("https://b.example"), slower]).unwrap();
    let of = |table: &DocumentTable, position: usize| table.issuers[position].clone().unwrap();
    assert!(Arc::ptr_eq(&of(&first, 1), &of(&second, 1)));
    assert!(!Arc::ptr_eq(&of(&first, 0), &of(&second, 0)));
    let Found::Document(jwks) = second.find("a.example", "/openid/v1/jwks") else { panic!("no document") };
    assert_eq!(jwks.headers()["cache-control"], "public, max-age=7");
}
