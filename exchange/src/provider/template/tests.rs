use std::collections::BTreeMap;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderValue;
use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use serde_json::json;

use super::preset::Preset;
use super::text::Text;
use super::*;

/// A part of the token that nothing else has.
const CANARY: &str = "c2VjcmV0LWNhbmFyeQ";

fn subject() -> UnverifiedToken {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    UnverifiedToken::parse(&format!("{}.{}.{CANARY}", part("{\"alg\":\"RS256\"}"), part("{}"))).unwrap()
}

fn template(path: &str, body: &str, authentication: Authentication) -> Result<HttpTemplate, ExchangeError> {
    HttpTemplate {
        server: operator_server("registry.example:8443").unwrap(),
        audience: "a".to_owned(),
        method: if body.is_empty() { Method::GET } else { Method::POST },
        path: PathText::parse(path)?,
        body: Body::parse(body)?,
        authentication,
        values: Values {
            username: "org+robot".to_owned(),
            registry: "registry.example".to_owned(),
            repository: "team/app".to_owned(),
            params: BTreeMap::from([("role".to_owned(), "a b/\"c\"&d=e".to_owned())]),
        },
        answer: AnswerFields::default(),
        login_for: None,
        preset: None,
    }
    .checked()
}

fn url(path: &str) -> Result<String, &'static str> {
    let template = template(path, "", Authentication::Bearer).map_err(|error| error.code())?;
    Ok(template.request(&subject()).map_err(|error| error.code())?.url().to_string())
}

#[test]
fn a_11_values_are_written_as_their_place_wants_it() {
    for (path, written) in [
        ("/token", "https://registry.example:8443/token"),
        ("/a/{params.role}/b", "https://registry.example:8443/a/a%20b%2F%22c%22%26d%3De/b"),
        (
            "/t?scope=repository:{repository}:pull&x={username}",
            "https://registry.example:8443/t?scope=repository:team%2Fapp:pull&x=org%2Brobot",
        ),
    ] {
        assert_eq!(url(path).as_deref(), Ok(written));
    }
    for (path, code) in [
        ("/t?token={token}", "template-path"),
        ("/{token}", "template-path"),
        ("token", "template-path"),
        ("//evil.example/token", "template-path"),
        ("/a#b", "template-path"),
        ("/a\\b", "template-path"),
        ("/a b", "template-path"),
        ("/../../admin", "template-path"),
        ("/a/%2e%2E/b", "template-path"),
        ("/{unknown}", "template-place"),
        ("/{params.}", "template-place"),
        ("/{params.missing}", "template-parameter"),
        ("/{registry", "template-place"),
        ("/registry}", "template-place"),
    ] {
        assert_eq!(url(path), Err(code), "{path}");
    }
}

#[test]
fn a_11_bodies_are_forms_or_json_and_no_value_becomes_structure() {
    let body = |text: &str| {
        let template = template("/t", text, Authentication::None).unwrap();
        let request = template.request(&subject()).unwrap();
        String::from_utf8(request.body_bytes().to_vec()).unwrap()
    };
    let json: Value =
        serde_json::from_str(&body(r#"{"jwt": "{token}", "role": ["{params.role}"], "n": 1}"#)).unwrap();
    assert_eq!(json, json!({ "jwt": subject().secret().expose(), "role": ["a b/\"c\"&d=e"], "n": 1 }));
    let form = body("jwt={token}&role={params.role}&grant_type=x");
    assert!(form.ends_with("&role=a+b%2F%22c%22%26d%3De&grant_type=x"), "{form}");
    for (text, code) in [
        ("{\"a\": ", "template-body"),
        ("[1]", "template-without-token"),
        ("a={token", "template-place"),
        ("={token}", "template-body"),
        (r#"{"a": "{other}"}"#, "template-place"),
    ] {
        assert_eq!(template("/t", text, Authentication::None).unwrap_err().code(), code, "{text}");
    }
    assert_eq!(template("/t", "", Authentication::None).unwrap_err().code(), "template-without-token");
    let mut get = template("/t", "a={token}", Authentication::None).unwrap();
    get.method = Method::GET;
    assert_eq!(get.checked().unwrap_err().code(), "template-body");
}

/// A tenant names the host; the operator says which hosts besides the registry's own may be given a token.
#[test]
fn a_11_s0_04_the_host_is_the_registrys_or_one_that_the_operator_allows() {
    let allowed: Vec<HostPattern> = vec!["auth.example".parse().unwrap()];
    let host = |asked| server("registry.example", asked, &allowed).map(|server| server.to_string());
    assert_eq!(host(None).unwrap(), "https://registry.example/");
    assert_eq!(host(Some("registry.example")).unwrap(), "https://registry.example/");
    assert_eq!(host(Some("auth.example")).unwrap(), "https://auth.example/");
    for evil in [
        "evil.example",
        "auth.example.evil.example",
        "https://auth.example@evil.example",
        "http://auth.example",
        "registry.example:444",
        "auth.example#",
        "127.0.0.1",
        "localhost",
    ] {
        assert!(host(Some(evil)).is_err(), "{evil}");
    }
}

fn answer(status: u16, body: &str) -> HttpResponse {
    HttpResponse {
        status: StatusCode::from_u16(status).unwrap(),
        version: http::Version::HTTP_11,
        peer: None,
        headers: HeaderMap::new(),
        body: body.as_bytes().to_vec().into(),
    }
}

#[test]
fn a_11_answers_are_read_by_the_fields_that_are_named() {
    let read = |fields: AnswerFields, body: Value| {
        let mut template = template("/t", "", Authentication::Bearer).unwrap();
        (template.answer, template.login_for) = (fields, Some("registry.example".to_owned()));
        let credential = template.read(&answer(200, &body.to_string()), Timestamp::UNIX_EPOCH)?;
        let CredentialKind::Registry(login) = &credential.kind else { panic!() };
        let (user, password) = (login.username.clone(), login.password.expose().to_owned());
        Ok::<_, ExchangeError>((user, password, credential.lifetime().as_secs()))
    };
    let named = |token: &str, lifetime: &str, username: Option<&str>| AnswerFields {
        token: token.to_owned(),
        lifetime: lifetime.to_owned(),
        username: username.map(str::to_owned),
    };
    let robot = || "org+robot".to_owned();
    for (fields, body, (user, password, lives)) in [
        (AnswerFields::default(), json!({ "token": "t" }), (robot(), "t", 300)),
        (AnswerFields::default(), json!({ "token": "t", "expires_in": "60" }), (robot(), "t", 60)),
        (
            AnswerFields::default(),
            json!({ "token": "t", "expires_at": "1970-01-01T00:10:00Z" }),
            (robot(), "t", 600),
        ),
        (
            named("auth.client_token", "auth.lease_duration", None),
            json!({ "auth": { "client_token": "v", "lease_duration": 90 } }),
            (robot(), "v", 90),
        ),
        (
            named("a.b", "x", Some("username")),
            json!({ "a.b": "dotted", "username": "said" }),
            ("said".to_owned(), "dotted", 300),
        ),
    ] {
        assert_eq!(read(fields, body).unwrap(), (user, password.to_owned(), lives));
    }
    for body in [json!({}), json!({ "token": "" }), json!({ "token": 1 }), json!([]), json!("t")] {
        assert_eq!(read(AnswerFields::default(), body).unwrap_err().code(), "answer-unreadable");
    }
    let template = template("/t", "", Authentication::Bearer).unwrap();
    let large = format!("{{\"token\":\"{}\"}}", "x".repeat(LARGEST));
    assert_eq!(
        template.read(&answer(200, &large), Timestamp::UNIX_EPOCH).unwrap_err().code(),
        "answer-unreadable"
    );
    for (status, body, class) in [
        (401, "robot has no such federation", Class::Permanent),
        (401, "token is expired", Class::Expired),
        (429, "", Class::Throttled),
        (502, "<html>expired</html>", Class::Transient),
        (473, "standby", Class::Transient),
    ] {
        let error = template.read(&answer(status, body), Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(error.class(), class, "{status}: {error}");
        assert!(body.is_empty() || error.to_string().contains(body), "{error}");
    }
}

#[test]
fn cert_manager_8228_presets_have_an_audience_of_their_own() {
    let server = operator_server("vault.example").unwrap();
    assert_eq!(Preset::Vault.audience(&server), "https://vault.example");
    assert_eq!(Preset::OctoSts.audience(&server), "vault.example");
    let values = Values::default();
    assert_eq!(
        Preset::Quay.template(server.clone(), values.clone()).unwrap_err().code(),
        "template-username"
    );
    assert_eq!(Preset::Vault.template(server, values).unwrap_err().code(), "template-parameter");
}

/// Pieces of templates, places among them.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{token}".to_owned()),
        Just("{username}".to_owned()),
        Just("{repository}".to_owned()),
        Just("{params.role}".to_owned()),
        "[a-z/.?&=%@:#{}\"]{0,4}",
        Just("//evil.example".to_owned()),
        Just("..".to_owned()),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn w_15_a_template_never_puts_a_token_into_a_url_nor_sends_it_elsewhere(
        path in pieces(), body in pieces(), username in any::<String>(), role in any::<String>(), basic in any::<bool>(),
    ) {
        let authentication = if basic { Authentication::Basic } else { Authentication::None };
        if let Ok(mut template) = template(&format!("/{path}"), &body, authentication) {
            template.values.username = username;
            template.values.params.insert("role".to_owned(), role);
            if let Ok(request) = template.request(&subject()) {
                let url = request.url();
                prop_assert_eq!(url.origin().ascii_serialization(), "https://registry.example:8443");
                prop_assert!(!url.as_str().contains(CANARY), "{}", url);
                prop_assert!(url.username().is_empty() && url.fragment().is_none());
                let sensitive = request.header_map().values().all(HeaderValue::is_sensitive);
                let is_shown = request.header_map().iter().any(|(name, value)| {
                    name != http::header::CONTENT_TYPE && !value.is_sensitive()
                });
                prop_assert!(sensitive || !is_shown);
            }
        }
    }

    #[test]
    fn no_template_makes_the_reader_panic(text in any::<String>(), answer_body in any::<String>(), status in 100_u16..1000) {
        _ = (Text::parse(&text), PathText::parse(&text), Body::parse(&text), operator_server(&text));
        let template = template("/t", "", Authentication::Bearer).unwrap();
        _ = template.read(&answer(status, &answer_body), Timestamp::UNIX_EPOCH);
    }
}
