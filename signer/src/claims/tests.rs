use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://id.example.com/a";
const API: &str = "https://kubernetes.default.svc";

fn policy() -> IssuancePolicy {
    IssuancePolicy {
        issuer: ISSUER.parse().unwrap(),
        longest_lifetime: Duration::from_secs(86_400),
        api_audiences: vec![API.to_owned()],
    }
}

fn check(text: &str) -> Result<AcceptedClaims, ClaimsError> {
    policy().check(&URL_SAFE_NO_PAD.encode(text))
}

fn good() -> Value {
    json!({
        "aud": ["vault"], "exp": 1_800_003_600_u64, "iat": 1_800_000_000_u64, "nbf": 1_800_000_000_u64, "iss": ISSUER,
        "kubernetes.io": { "namespace": "a", "serviceaccount": { "name": "b", "uid": "c" } },
        "sub": "system:serviceaccount:a:b",
    })
}

/// The good claims with one member exchanged.
fn with(name: &str, value: Value) -> String {
    let mut claims = good();
    claims[name] = value;
    claims.to_string()
}

fn without(name: &str) -> String {
    let mut claims = good();
    claims.as_object_mut().unwrap().remove(name);
    claims.to_string()
}

/// The good claims with text before the closing brace.
fn ending(text: &str) -> String {
    format!("{}{text}}}", good().to_string().strip_suffix('}').unwrap())
}

#[test]
fn what_kube_apiserver_asks_for_is_accepted_with_its_class() {
    for (audiences, is_for_api_server, is_for_outside) in [
        (json!([API]), true, false),
        (json!(API), true, false),
        (json!(["vault"]), false, true),
        (json!("vault"), false, true),
        (json!(["vault", API]), true, true),
    ] {
        let accepted = check(&with("aud", audiences.clone())).unwrap();
        let expected = AcceptedClaims { lifetime_seconds: 3600, is_for_api_server, is_for_outside };
        assert_eq!(accepted, expected, "{audiences}");
    }
    assert_eq!(check(&without("nbf")).unwrap().lifetime_seconds, 3600);
    assert_eq!(check(&with("exp", json!(1_800_086_400_u64))).unwrap().lifetime_seconds, 86_400);
    // Times of clocks that are wrong by centuries.
    assert_eq!(check(&with("exp", json!(1_800_000_000_u64))).unwrap().lifetime_seconds, 0);
    let early = good().to_string().replace("1800000000", "0").replace("1800003600", "60");
    assert_eq!(check(&early).unwrap().lifetime_seconds, 60);
}

#[test]
fn what_is_not_one_unambiguous_object_is_refused() {
    let nested = |members: &str| with("kubernetes.io", Value::Null).replace("null", members);
    for (text, part) in [
        (String::new(), "ends too early"),
        ("null".to_owned(), "than an object"),
        ("[]".to_owned(), "than an object"),
        (format!("{} x", good()), "no JSON"),
        (format!("{}{}", good(), good()), "no JSON"),
        (format!("{}\0", good()), "no JSON"),
        (ending(",\"iss\":\"https://evil.example\""), "twice"),
        (ending(",\"ISS\":\"https://evil.example\""), "twice"),
        (ending(",\"i\u{17f}s\":\"https://evil.example\""), "twice"),
        (ending(",\"\\u0069ss\":\"https://evil.example\""), "twice"),
        (ending(",\"iat\":1800000000"), "twice"),
        (nested("{\"namespace\":\"a\",\"namespace\":\"kube-system\"}"), "twice"),
        (nested("[{\"a\":{\"b\":1,\"B\":2}}]"), "twice"),
        (nested(&"[".repeat(200)), "no JSON"),
    ] {
        let error = check(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let invalid = policy().check(&URL_SAFE_NO_PAD.encode(b"{\"iss\":\"\xff\"}")).unwrap_err();
    assert!(matches!(invalid, ClaimsError::Json(_)), "{invalid}");
}

#[test]
fn base64_is_url_safe_without_padding_and_without_spare_bits() {
    let encoded = URL_SAFE_NO_PAD.encode(with("sub", json!("a")));
    assert!(policy().check(&encoded).is_ok());
    for wrong in
        [format!("{encoded}="), format!("{encoded}\n"), format!(" {encoded}"), encoded.replace('e', "+")]
    {
        assert!(matches!(policy().check(&wrong), Err(ClaimsError::Encoding)), "{wrong}");
    }
    // `{}` is `e30`; the last character has two spare bits.
    assert!(matches!(policy().check("e30"), Err(ClaimsError::NoIssuer)));
    assert!(matches!(policy().check("e31"), Err(ClaimsError::Encoding)));
    let long = "A".repeat(LONGEST_CLAIMS + 1);
    assert!(matches!(policy().check(&long), Err(ClaimsError::TooLong(_))));
}

#[test]
fn another_issuer_audience_or_time_is_refused() {
    let over = json!(1_800_086_401_u64);
    for (text, part) in [
        (with("iss", json!("https://id.example.com/a/")), "not this signer's"),
        (with("iss", json!("https://ID.example.com/a")), "not this signer's"),
        (with("iss", json!([ISSUER])), "without an `iss`"),
        (without("iss"), "without an `iss`"),
        (without("iss").replacen('{', &format!("{{\"ISS\":\"{ISSUER}\","), 1), "without an `iss`"),
        (without("aud"), "`aud`"),
        (with("aud", json!([])), "`aud`"),
        (with("aud", json!(["a", 1])), "`aud`"),
        (with("aud", json!(null)), "`aud`"),
        (without("exp"), "`exp`"),
        (without("iat"), "`iat`"),
        (with("exp", json!("1800003600")), "`exp`"),
        (with("exp", json!(1_800_003_600.5)), "`exp`"),
        (with("exp", json!(-1)), "`exp`"),
        (good().to_string().replace("1800003600", "18e8"), "`exp`"),
        (good().to_string().replace("1800003600", "99999999999999999999"), "`exp`"),
        (with("nbf", json!("now")), "`nbf`"),
        (with("exp", json!(1_799_999_999_u64)), "before"),
        (with("exp", over), "86401 s"),
    ] {
        let error = check(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn no_refusal_repeats_a_claim() {
    const SECRET: &str = "s3cr3t";
    for text in [
        with("iss", json!(SECRET)),
        with("exp", json!(SECRET)),
        with("aud", json!([SECRET, 1])),
        ending(&format!(",\"{SECRET}\":1,\"{SECRET}\":2")),
        format!("\"{SECRET}\""),
        format!("{{\"{SECRET}\":tru}}"),
    ] {
        let error = check(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

/// Objects of members that an attacker would choose from, some of them twice.
fn members() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let name = prop::sample::select(vec![
        "iss",
        "ISS",
        "i\u{17f}s",
        "exp",
        "Exp",
        "iat",
        "aud",
        "aUd",
        "nbf",
        "sub",
    ]);
    let value = prop::sample::select(vec![
        format!("{ISSUER:?}"),
        "\"https://evil.example\"".to_owned(),
        "100".to_owned(),
        "700".to_owned(),
        "1e2".to_owned(),
        "[\"vault\"]".to_owned(),
        "{\"a\":1}".to_owned(),
        "null".to_owned(),
    ]);
    prop::collection::vec((name, value), 0..5)
}

proptest! {
    /// What is accepted, the first and the last of two members say alike, in any spelling.
    #[test]
    fn whoever_reads_accepted_claims_reads_the_same(others in members()) {
        let good = [("iss", format!("{ISSUER:?}")), ("exp", "700".to_owned()), ("iat", "100".to_owned()), ("aud", "\"a\"".to_owned())];
        let all: Vec<(&str, String)> = good.into_iter().chain(others).collect();
        let text = all.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect::<Vec<_>>().join(",");
        if check(&format!("{{{text}}}")).is_ok() {
            for name in ["iss", "exp", "iat", "aud"] {
                let alike = all.iter().filter(|(other, _)| {
                    other.to_uppercase().to_lowercase() == name
                });
                prop_assert_eq!(alike.count(), 1, "{}", text);
            }
        }
    }
}
