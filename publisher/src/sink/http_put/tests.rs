use serde_json::json;

use super::*;

fn key() -> PublicKey {
    PublicKey::from_rsa(&[0xa5; 128], &[1, 0, 1]).unwrap()
}

fn jwks() -> Value {
    let set = chancery_core::Jwks::new([key()]).unwrap();
    serde_json::from_slice(&set.to_json()).unwrap()
}

#[test]
fn the_set_is_found_in_every_form_in_which_it_is_uploaded() {
    for (answer, pointer) in [
        (jwks(), ""),
        (json!({ "oidc": { "jwks": jwks() } }), "/oidc/jwks"),
        (json!({ "oidc": { "jwksJson": jwks().to_string() } }), "/oidc/jwksJson"),
        (json!({ "a/b": [0, { "keys": [key().to_pem()] }] }), "/a~1b/1/keys"),
    ] {
        let held = held(answer.to_string().as_bytes(), pointer).unwrap();
        assert_eq!((held.keys, held.unsupported), (vec![key()], vec![]), "{answer}");
    }
    for empty in
        [json!({ "set": null }), json!({ "set": "" }), json!({ "set": [] }), json!({ "set": { "keys": [] } })]
    {
        assert_eq!(held(empty.to_string().as_bytes(), "/set").unwrap(), HeldKeys::default(), "{empty}");
    }
}

#[test]
fn what_is_no_set_does_not_pass_for_an_empty_one() {
    for (answer, pointer, words) in [
        ("<html>", "", "is not JSON"),
        ("{}", "/set", "nothing at \"/set\""),
        ("{\"set\": {}}", "/set", "not a JWKS"),
        ("{\"set\": \"key\"}", "/set", "not JSON"),
        ("{\"set\": 7}", "/set", "not a JWKS"),
    ] {
        let failure = held(answer.as_bytes(), pointer).unwrap_err();
        assert_eq!(failure.kind, StoreErrorKind::Misconfigured);
        assert!(failure.cause.to_string().contains(words), "{answer}: {}", failure.cause);
    }
    let unsupported = held(b"[\"x\", {\"keys\": []}]", "").unwrap().unsupported;
    assert_eq!(unsupported, ["element 0 is not PEM", "element 1 is not PEM"]);
}

#[test]
fn weak_tags_are_no_versions() {
    assert!(is_strong("\"a\"") && !is_strong("W/\"a\""));
}
