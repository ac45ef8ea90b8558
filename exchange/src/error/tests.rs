use super::*;

#[test]
fn what_looks_like_a_token_is_in_no_error() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl";
    let error = ExchangeError::configuration("x")
        .came(&format!("denied for {token}, or \"{token}\"\nX"))
        .provider_code(Some(token))
        .correlation_id(Some(token));
    let shown = format!("{error} {error:?} {}", serde_json::to_string(error.failure()).unwrap());
    assert!(!shown.contains("canary") && !shown.contains("eyJ"), "{shown}");
    assert_eq!(error.failure().came, "denied for [token], or \"[token]\" X");
    let opaque = Secret::new("opaque-1".to_owned());
    let error = ExchangeError::configuration("x").came("no opaque-1").without(&opaque);
    assert!(!error.to_string().contains("opaque-1"));
}

#[test]
fn every_class_has_an_exit_code_of_its_own() {
    let classes = [Class::Permanent, Class::Transient, Class::Throttled, Class::Expired, Class::Source];
    assert_eq!(classes.map(Class::exit_code), [10, 11, 12, 13, 14]);
    for (status, class) in [
        (400, Class::Permanent),
        (403, Class::Permanent),
        (302, Class::Permanent),
        (429, Class::Throttled),
        (500, Class::Transient),
        (503, Class::Transient),
    ] {
        assert_eq!(Class::of_status(status), class, "{status}");
    }
}
