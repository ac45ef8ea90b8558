use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 2_000_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example", "sub": "system:serviceaccount:a:b", "aud": ["sts.amazonaws.com"],
        "exp": NOW + 600, "iat": NOW,
    })
}

fn token(header: &Value, claims: &Value) -> UnverifiedToken {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    UnverifiedToken::parse(&format!("{}.{}.c2ln", part(header), part(claims))).unwrap()
}

fn with(name: &str, value: Value) -> UnverifiedToken {
    let mut claims = claims();
    claims[name] = value;
    token(&json!({ "alg": "RS256", "kid": "k" }), &claims)
}

fn expectation() -> Expectation {
    Expectation { audiences: vec!["sts.amazonaws.com".to_owned()], ..Expectation::default() }
}

fn refusal(token: &UnverifiedToken, expected: &Expectation) -> ExchangeError {
    check(token, expected, now()).verdict(token).unwrap_err()
}

#[test]
fn a_suitable_token_passes_without_a_word() {
    let token = with("jti", json!("1"));
    assert_eq!(check(&token, &expectation(), now()), Preflight::default());
}

#[test]
fn n02_issuer_differences_are_told_exactly() {
    let expected = |issuer: &str| Expectation { issuer: Some(issuer.to_owned()), ..expectation() };
    for (issuer, words) in [
        ("https://id.example/", "slash at the end is missing"),
        ("https://ID.example", "upper and lower case"),
        ("id.example", "scheme in front"),
        ("https://id.other", "from character 12 on"),
    ] {
        let error = refusal(&with("jti", json!("1")), &expected(issuer));
        assert!(error.to_string().contains(words), "{issuer}: {error}");
        assert_eq!((error.class(), error.code()), (Class::Permanent, "subject-token-unsuitable"));
        assert_eq!(error.failure().sent.as_ref().unwrap().iss.as_deref(), Some("https://id.example"));
    }
    let error = refusal(&with("iss", json!("https://id.example/")), &expected("https://id.example"));
    assert!(error.to_string().contains("a slash at its end that is not expected"), "{error}");
}

#[test]
fn w_05_types_of_tokens_for_something_else_are_refused() {
    for typ in [
        "at+jwt",
        "client-authentication+jwt",
        "dpop+jwt",
        "logout+jwt",
        "secevent+jwt",
        "WIT+JWT",
        "application/at+jwt",
    ] {
        let token = token(&json!({ "alg": "RS256", "kid": "k", "typ": typ }), &claims());
        assert!(refusal(&token, &expectation()).to_string().contains("`typ`"), "{typ}");
    }
    let strict = Expectation { strictness: Strictness::Strict, ..expectation() };
    for typ in
        ["JWT", "JOSE", "authorization-grant+jwt", "application/authorization-grant+jwt", "oauth-id-jag+jwt"]
    {
        let token = token(&json!({ "alg": "RS256", "kid": "k", "typ": typ }), &claims());
        assert!(check(&token, &strict, now()).is_passed(), "{typ}");
    }
    assert!(!check(&with("jti", json!("1")), &strict, now()).is_passed(), "no typ at all");
}

#[test]
fn w_07_a_token_that_lives_longer_than_a_day_is_warned_of() {
    let report = check(&with("exp", json!(NOW + 365 * 86_400)), &expectation(), now());
    assert!(report.is_passed() && report.differences[0].hint.contains("8760 h"), "{report:?}");
}

#[test]
fn w_10_no_audience_is_refused_and_several_are_warned_of_or_refused() {
    assert!(refusal(&with("aud", json!([])), &expectation()).to_string().contains("without an audience"));
    let several = with("aud", json!(["sts.amazonaws.com", "other"]));
    let report = check(&several, &expectation(), now());
    assert!(report.is_passed() && report.differences.len() == 1);
    let strict = Expectation { strictness: Strictness::Strict, ..expectation() };
    assert!(!check(&several, &strict, now()).is_passed());
}

#[test]
fn w_11_a_token_that_opens_the_api_server_goes_nowhere_else() {
    for audience in [
        "https://kubernetes.default.svc",
        "https://kubernetes.default.svc.cluster.local",
        "https://id.example",
    ] {
        let token = with("aud", json!(["sts.amazonaws.com", audience]));
        let error = refusal(&token, &expectation());
        assert!(error.to_string().contains("opens the API server"), "{error}");
        let own = Expectation { is_api_server: true, audiences: Vec::new(), ..expectation() };
        assert!(check(&token, &own, now()).is_passed());
    }
}

#[test]
fn a_jwt_svid_without_an_issuer_is_for_whoever_knows_its_trust_domain() {
    let mut svid = claims();
    svid["sub"] = json!("spiffe://example.org/ns/a/sa/b");
    svid.as_object_mut().unwrap().remove("iss");
    let svid = token(&json!({ "alg": "RS256", "kid": "k" }), &svid);
    let error = refusal(&svid, &expectation());
    assert!(error.to_string().contains("`jwt_issuer`"), "{error}");
    let bundle = Expectation { by_trust_domain: true, ..expectation() };
    assert!(check(&svid, &bundle, now()).is_passed());
    let named = Expectation { issuer: Some("https://id.example".to_owned()), ..bundle.clone() };
    assert!(refusal(&svid, &named).to_string().contains("`iss`"));
    assert!(!check(&with("iss", Value::Null), &bundle, now()).is_passed(), "others need it everywhere");
}

#[test]
fn e09_times_say_which_clock_is_wrong() {
    let late = refusal(&with("exp", json!(NOW - 300)), &expectation());
    assert_eq!(late.class(), Class::Expired);
    assert!(late.to_string().contains("ended 5 min ago"), "{late}");
    let early = refusal(&with("nbf", json!(NOW + 120)), &expectation());
    assert_eq!(early.class(), Class::Expired);
    assert!(early.to_string().contains("begins in 2 min"), "{early}");
    let soon = check(&with("iat", json!(NOW + 3)), &expectation(), now());
    assert_eq!((soon.is_passed(), soon.wait), (true, Some(std::time::Duration::from_secs(3))));
    assert!(refusal(&with("exp", Value::Null), &expectation()).to_string().contains("without an end"));
}

#[test]
fn a_bound_token_an_unknown_key_and_a_long_token_are_refused() {
    assert!(
        refusal(&with("cnf", json!({ "jkt": "x" })), &expectation()).to_string().contains("bound to a key")
    );
    let known = Expectation { key_ids: vec!["other".to_owned()], ..expectation() };
    assert!(refusal(&with("jti", json!("1")), &known).to_string().contains("does not know the key"));
    let short = Expectation { longest: Some(20), ..expectation() };
    assert!(refusal(&with("jti", json!("1")), &short).to_string().contains("at most 20 bytes"));
    let ecdsa = Expectation { algorithms: vec!["ES256"], ..expectation() };
    assert!(refusal(&with("jti", json!("1")), &ecdsa).to_string().contains("RS256"));
}
