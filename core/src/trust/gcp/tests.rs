use super::*;
use crate::PublicKey;

const AT: &str = "https://iam.googleapis.com/v1/projects/my-project/locations/global/workloadIdentityPools";
const NUMBERED: &str = "projects/42/locations/global/workloadIdentityPools/clusters/providers/cluster-a";

fn wanted() -> Wanted {
    Wanted {
        issuer: "https://id.example.com/a".parse().unwrap(),
        owner: "us".parse().unwrap(),
        project: "my-project".parse().unwrap(),
        pool: "clusters".parse().unwrap(),
        provider: "cluster-a".parse().unwrap(),
        audiences: vec!["sts.example.com".to_owned()],
        jwks: None,
    }
}

fn rsa(number: u8) -> PublicKey {
    let mut modulus = [0xa5; 256];
    modulus[1] = number;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

fn jwks(numbers: &[u8]) -> Jwks {
    Jwks::new(numbers.iter().copied().map(rsa)).unwrap()
}

fn pool() -> Pool {
    Pool { state: "ACTIVE".to_owned(), disabled: false, description: description(&wanted().owner) }
}

/// A provider as [`plan`] leaves it.
fn provider() -> Provider {
    Provider {
        name: NUMBERED.to_owned(),
        state: "ACTIVE".to_owned(),
        description: description(&wanted().owner),
        attribute_mapping: [(SUBJECT.0.to_owned(), SUBJECT.1.to_owned())].into(),
        oidc: Some(Oidc {
            issuer_uri: wanted().issuer.to_string(),
            allowed_audiences: wanted().audiences,
            jwks_json: String::new(),
        }),
        ..Provider::default()
    }
}

fn planned(wanted: &Wanted, provider: Provider) -> Result<TrustPlan, TrustBlocked> {
    plan(wanted, &Observed { pool: Some(pool()), provider: Some(provider) }, ENDPOINT)
}

fn with_oidc(change: impl FnOnce(&mut Oidc)) -> Provider {
    let mut provider = provider();
    change(provider.oidc.as_mut().unwrap());
    provider
}

fn body(call: &Call) -> &Value {
    match call.body.as_ref().unwrap() {
        Body::Json(body) => body,
        Body::Form(_) => panic!("a form"),
    }
}

#[test]
fn what_is_missing_is_made_the_pool_first() {
    let wanted = Wanted { jwks: Some(jwks(&[1])), ..wanted() };
    let plan = plan(&wanted, &Observed::default(), ENDPOINT).unwrap();
    let [pool, provider] = plan.calls.as_slice() else { panic!("{plan:?}") };
    assert_eq!(pool.to_string(), format!("POST {AT}?workloadIdentityPoolId=clusters"));
    assert_eq!(pool.permission, "iam.workloadIdentityPools.create");
    assert_eq!(
        *body(pool),
        json!({ "displayName": "clusters", "description": "Kept by Chancery. chancery-owner=us" })
    );
    assert_eq!(
        provider.to_string(),
        format!("POST {AT}/clusters/providers?workloadIdentityPoolProviderId=cluster-a")
    );
    assert_eq!(
        *body(provider),
        json!({
            "displayName": "cluster-a",
            "description": "Kept by Chancery. chancery-owner=us",
            "attributeMapping": { "google.subject": "assertion.sub" },
            "oidc": {
                "issuerUri": "https://id.example.com/a",
                "allowedAudiences": ["sts.example.com"],
                "jwksJson": String::from_utf8(jwks(&[1]).to_json()).unwrap(),
            },
        })
    );
    assert_eq!(plan.notes, [""; 0]);
}

#[test]
fn what_is_as_it_should_be_needs_no_call() {
    let plan = planned(&wanted(), provider()).unwrap();
    assert_eq!(plan, TrustPlan::default());
    let uploaded = with_oidc(|oidc| oidc.jwks_json = String::from_utf8(jwks(&[1]).to_json()).unwrap());
    let plan = planned(&Wanted { jwks: Some(jwks(&[1])), ..wanted() }, uploaded).unwrap();
    assert_eq!(plan, TrustPlan::default());
}

#[test]
fn what_must_not_be_touched_blocks_with_a_remedy() {
    let foreign = |text: &str| Provider { description: text.to_owned(), ..provider() };
    for (provider, words) in [
        (foreign("Kept by Chancery. chancery-owner=them"), ["belongs to them", "owner to them"]),
        (foreign("Terraform keeps this"), ["no mark", "chancery-owner=us"]),
        (foreign(""), ["no mark", "provider id of its own"]),
        (
            Provider { state: "DELETED".to_owned(), ..provider() },
            ["30 days", "providers undelete projects/my-project"],
        ),
        (Provider { oidc: None, ..provider() }, ["another kind", "of its own"]),
        (with_oidc(|oidc| oidc.issuer_uri.push('/')), ["trusts https://id.example.com/a/", "of its own"]),
        (with_oidc(|oidc| oidc.jwks_json = "{}".to_owned()), ["cannot be read", "by hand"]),
        (
            with_oidc(|oidc| {
                oidc.jwks_json = r#"{"keys":[{"kty":"RSA","kid":"x","n":"AQAB","e":"AQAB"}]}"#.to_owned();
            }),
            ["carried on unchanged", "look at its keys"],
        ),
    ] {
        let wanted = Wanted { jwks: Some(jwks(&[1])), ..wanted() };
        let blocked = planned(&wanted, provider).unwrap_err().to_string();
        assert!(words.iter().all(|word| blocked.contains(word)), "{blocked}");
    }
    let gone = Pool { state: "DELETED".to_owned(), ..pool() };
    let blocked = plan(&wanted(), &Observed { pool: Some(gone), provider: None }, ENDPOINT).unwrap_err();
    assert!(blocked.to_string().contains("workload-identity-pools undelete"), "{blocked}");
}

#[test]
fn only_what_differs_is_changed_and_nothing_is_taken_away() {
    let change = |wanted: &Wanted, provider: Provider| {
        let plan = planned(wanted, provider).unwrap();
        let [call] = plan.calls.as_slice() else { panic!("{plan:?}") };
        assert_eq!((call.method, call.permission), ("PATCH", "iam.workloadIdentityPoolProviders.update"));
        (call.url.split_once("?updateMask=").unwrap().1.to_owned(), body(call).clone())
    };
    let more = with_oidc(|oidc| oidc.allowed_audiences = vec!["vault".to_owned()]);
    assert_eq!(
        change(&wanted(), more),
        (
            "oidc.allowedAudiences".to_owned(),
            json!({ "oidc": { "allowedAudiences": ["vault", "sts.example.com"] } })
        )
    );
    // A provider without audiences takes its own name, and must go on taking it.
    let none = with_oidc(|oidc| oidc.allowed_audiences.clear());
    let names =
        [format!("//iam.googleapis.com/{NUMBERED}"), format!("https://iam.googleapis.com/{NUMBERED}")];
    assert_eq!(
        change(&wanted(), none).1,
        json!({ "oidc": { "allowedAudiences": [names[0], names[1], "sts.example.com"] } })
    );
    let unmapped = Provider {
        attribute_mapping: [("attribute.ns".to_owned(), "assertion.ns".to_owned())].into(),
        ..provider()
    };
    assert_eq!(
        change(&wanted(), unmapped),
        (
            "attributeMapping".to_owned(),
            json!({ "attributeMapping": { "attribute.ns": "assertion.ns", "google.subject": "assertion.sub" } })
        )
    );
    let uploaded = with_oidc(|oidc| oidc.jwks_json = String::from_utf8(jwks(&[7]).to_json()).unwrap());
    let wanted = Wanted { jwks: Some(jwks(&[1])), ..wanted() };
    assert_eq!(
        change(&wanted, uploaded),
        (
            "oidc.jwksJson".to_owned(),
            json!({ "oidc": { "jwksJson": String::from_utf8(jwks(&[1, 7]).to_json()).unwrap() } })
        )
    );
}

#[test]
fn what_differs_and_is_left_alone_is_noted() {
    let differs = Provider {
        disabled: true,
        attribute_mapping: [(SUBJECT.0.to_owned(), "assertion.jti".to_owned())].into(),
        attribute_condition: "assertion.ns == 'a'".to_owned(),
        ..with_oidc(|oidc| {
            oidc.allowed_audiences.push("vault".to_owned());
            oidc.jwks_json = "{\"keys\":[]}".to_owned();
        })
    };
    let pool = Pool { disabled: true, description: String::new(), ..pool() };
    let plan = plan(&wanted(), &Observed { pool: Some(pool), provider: Some(differs) }, ENDPOINT).unwrap();
    assert_eq!(plan.calls, []);
    for words in [
        "pool clusters is disabled",
        "pool clusters is not ours",
        "assertion.jti",
        "assertion.ns == 'a'",
        "uploaded",
        "cluster-a is disabled",
    ] {
        assert!(plan.notes.iter().any(|note| note.contains(words)), "{words} is not in {:?}", plan.notes);
    }
}

#[test]
fn googles_limits_are_checked_before_anything_is_called() {
    let of = |audiences: Vec<String>| Wanted { audiences, ..wanted() };
    let many = |count: usize| (0..count).map(|number| format!("audience-{number}")).collect::<Vec<_>>();
    assert!(planned(&of(many(9)), provider()).is_ok(), "nine and one that is there");
    for (wanted, words) in [
        (of(many(10)), "11 audiences"),
        (of(many(11)), "up to 10"),
        (of(vec!["é".repeat(257)]), "257 characters"),
        (of(vec![String::new()]), "0 characters"),
        (of(vec!["a".to_owned(), "a".to_owned()]), "each once"),
    ] {
        let blocked = planned(&wanted, provider()).unwrap_err().to_string();
        assert!(blocked.contains(words), "{blocked}");
    }
    let file = |name| crate::key_file::read_public_keys(name).keys.remove(0);
    for (key, word) in [
        (file(include_str!("../../../tests/data/p384.public.pem")), "P-384"),
        (file(include_str!("../../../tests/data/p521.public.pem")), "P-521"),
        (PublicKey::from_rsa(&[0xa5; 128], &[1, 0, 1]).unwrap(), "RSA-1024"),
    ] {
        let wanted = Wanted { jwks: Jwks::new([rsa(1), key]), ..wanted() };
        let blocked = plan(&wanted, &Observed::default(), ENDPOINT).unwrap_err().to_string();
        assert!(blocked.contains(word) && blocked.contains("ES256"), "{blocked}");
    }
}
