use super::*;

fn key(number: u8) -> PublicKey {
    let mut modulus = [0xa5; 128];
    modulus[1] = number;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

fn set(numbers: &[u8]) -> Jwks {
    Jwks::new(numbers.iter().copied().map(key)).unwrap()
}

fn issuer() -> IssuerUrl {
    "https://id.example.com".parse().unwrap()
}

/// What `GET auth/jwt/config` of OpenBao 2.6 brings, with these keys and changes.
fn read(entries: &[String], changes: Value) -> Map<String, Value> {
    let mut data = json!({
        "bound_issuer": "https://id.example.com", "default_role": "app", "jwks_ca_pem": "", "jwks_pairs": [],
        "jwks_url": "", "jwt_supported_algs": ["RS256"], "jwt_validation_pubkeys": entries, "namespace_in_state": true,
        "oidc_client_id": "", "oidc_discovery_ca_pem": "", "oidc_discovery_url": "", "oidc_response_mode": "",
        "oidc_response_types": null, "override_allowed_server_names": null, "provider_config": {}, "status": "valid",
    });
    data.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let body = json!({ "request_id": "x", "lease_duration": 0, "data": data, "warnings": null });
    configuration(body.to_string().as_bytes()).unwrap()
}

fn entries_of(configuration: &Map<String, Value>) -> Vec<&str> {
    entries(configuration).collect()
}

#[test]
fn every_field_but_the_keys_is_written_back() {
    let before = read(&[key(1).to_pem()], json!({}));
    let after = with_keys(Some(before.clone()), &set(&[1, 2]), &issuer());
    assert_eq!(entries_of(&after), [key(1).to_pem(), key(2).to_pem()]);
    let absent = ["oidc_response_types", "override_allowed_server_names", "status"];
    for (field, value) in before.iter().filter(|(field, _)| *field != KEYS) {
        let expected = (!absent.contains(&field.as_str())).then_some(value);
        assert_eq!(after.get(field), expected, "{field}");
    }
}

#[test]
fn entries_that_stay_keep_their_place_and_spelling() {
    let spelled = format!("a comment\n{}\n\n", key(1).to_pem().replace('\n', "\r\n"));
    let unknown = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
    let before = read(&[unknown.to_owned(), key(9).to_pem(), spelled.clone()], json!({}));
    assert_eq!(held(&before, &issuer()).unwrap(), [key(9), key(1)]);
    let after = with_keys(Some(before), &set(&[2, 1]), &issuer());
    assert_eq!(entries_of(&after), [unknown, &spelled, &key(2).to_pem()], "9 is withdrawn");
    assert_eq!(held(&after, &issuer()).unwrap(), [key(1), key(2)]);
}

#[test]
fn a_certificate_is_the_key_in_it() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&pair);
    let certificate = certificate.unwrap().pem();
    let public = key_file::read_public_keys(&pair.public_key_pem()).keys;
    let before = read(std::slice::from_ref(&certificate), json!({}));
    assert_eq!(held(&before, &issuer()).unwrap(), public);
    let after = with_keys(Some(before), &Jwks::new(public).unwrap(), &issuer());
    assert_eq!(entries_of(&after), [certificate]);
}

#[test]
fn a_mount_without_a_configuration_is_bound_to_the_issuer() {
    let fields = Value::Object(with_keys(None, &set(&[1]), &issuer()));
    let expected =
        json!({ "bound_issuer": "https://id.example.com", "jwt_validation_pubkeys": [key(1).to_pem()] });
    assert_eq!(fields, expected);
}

#[test]
fn what_excludes_keys_or_would_be_damaged_is_refused() {
    for (changes, words) in [
        (json!({ "oidc_discovery_url": "https://x" }), "`oidc_discovery_url` is set, which excludes"),
        (json!({ "jwks_url": "https://x" }), "`jwks_url` is set"),
        (json!({ "jwks_pairs": [{ "jwks_url": "https://x" }] }), "`jwks_pairs` is set"),
        (json!({ "provider_config": { "provider": "gsuite" } }), "whose secrets cannot be read"),
        (json!({ "oidc_client_id": "x" }), "whose secrets cannot be read"),
        (json!({ "bound_issuer": "https://other.example.com" }), "could sign for another issuer"),
    ] {
        let failure = held(&read(&[], changes), &issuer()).unwrap_err();
        assert!(failure.cause.to_string().contains(words), "{}", failure.cause);
        assert_eq!(failure.kind, StoreErrorKind::Misconfigured);
        assert!(failure.remedy.contains("mount"), "{}", failure.remedy);
    }
    for unbound in [json!({ "bound_issuer": "" }), json!({ "bound_issuer": null })] {
        assert_eq!(held(&read(&[], unbound), &issuer()).unwrap(), []);
    }
    for body in ["", "[]", "{\"data\": null}", "<html>"] {
        assert!(configuration(body.as_bytes()).is_err(), "{body}");
    }
}
