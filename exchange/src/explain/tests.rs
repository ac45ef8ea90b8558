use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;
use crate::chain::Identity;
use crate::provider::aws::{AUDIENCE, AwsProvider, SessionLimits, SessionName};
use crate::subject::{Environment, TokenVariable};

fn chain() -> Chain {
    let region: crate::provider::aws::Region = "eu-central-1".parse().unwrap();
    let provider = AwsProvider {
        endpoint: region.sts(Default::default()).unwrap(),
        region,
        role: "arn:aws:iam::123456789012:role/app".parse().ok(),
        session_name: SessionName::of("app"),
        session: SessionLimits::default(),
        audience: AUDIENCE.to_owned(),
    };
    let source = TokenVariable::new("T", Environment::given([]), true).unwrap();
    let identity = Identity { name: "app".to_owned(), service_account: None };
    Chain::new(Arc::new(source), Provider::Aws(Box::new(provider)), identity)
}

fn token(audience: &str) -> UnverifiedToken {
    let claims = json!({
        "iss": "https://id.example/a", "sub": "system:serviceaccount:team-a:app", "aud": [audience],
        "exp": 2_000_000_600, "ref": "refs/heads/main",
        "kubernetes.io": { "namespace": "team-a", "pod": { "name": "app-1", "uid": "u-1" } },
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({ "alg": "RS256", "kid": "k" });
    UnverifiedToken::parse(&format!("{}.{}.c2ln", part(&header), part(&claims))).unwrap()
}

#[test]
fn w_06_w_14_w_21_a_chain_is_told_with_its_context_and_the_trust_that_makes_it_pass() {
    let (token, now) = (token(AUDIENCE), Timestamp::from_second(2_000_000_000).unwrap());
    let explanation = explain(&chain(), Ok(&token), now);
    assert!(explanation.passes, "{explanation:?}");
    let text = explanation.to_text();
    for part in [
        "the variable T",
        "pod: app-1 (uid u-1)",
        "ref: refs/heads/main",
        "it may be sent",
        "AssumeRoleWithWebIdentity arn:aws:iam::123456789012:role/app",
        "arn:aws:iam::123456789012:oidc-provider/id.example/a",
        "\"id.example/a:sub\": \"system:serviceaccount:team-a:app\"",
        "\"id.example/a:aud\": \"sts.amazonaws.com\"",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("c2ln"));
}

#[test]
fn what_would_be_refused_is_told_before_it_is_sent() {
    let (token, now) = (token("other"), Timestamp::from_second(2_000_000_000).unwrap());
    let text = explain(&chain(), Ok(&token), now).to_text();
    assert!(text.contains("it would be refused") && text.contains("refused: aud is [\"other\"]"), "{text}");
    let error = ExchangeError::configuration("x").came("nothing there");
    let text = explain(&chain(), Err(&error), now).to_text();
    assert!(text.contains("nothing there") && text.contains("nothing to check"), "{text}");
}
