use proptest::prelude::*;

use super::*;

const RESOURCE: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/rg/providers/Microsoft.ManagedIdentity/userAssignedIdentities/app";
const CLIENT: &str = "11111111-2222-3333-4444-555555555555";

fn wanted(identity: Identity, subjects: &[&str]) -> Wanted {
    Wanted {
        issuer: "https://id.example.com/a".parse().unwrap(),
        subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        audience: Cloud::Public.audience().to_owned(),
        endpoint: match identity {
            Identity::Managed(_) => Cloud::Public.management(),
            Identity::Application(_) => Cloud::Public.graph(),
        }
        .to_owned(),
        identity,
    }
}

fn managed(subjects: &[&str]) -> Wanted {
    wanted(Identity::managed(RESOURCE).unwrap(), subjects)
}

fn application(subjects: &[&str]) -> Wanted {
    wanted(Identity::application(CLIENT).unwrap(), subjects)
}

fn foreign(issuer: &str, subject: &str, audience: &str) -> Registered {
    Registered {
        name: "theirs".to_owned(),
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        audiences: vec![audience.to_owned()],
        description: None,
    }
}

/// What is registered once the calls of `plan` were made, by the rules of both APIs.
fn after(wanted: &Wanted, observed: &[Registered], plan: &TrustPlan) -> Vec<Registered> {
    let mut all = observed.to_vec();
    for call in &plan.calls {
        let Some(Body::Json(body)) = &call.body else { panic!("{call} sends nothing") };
        let members = body.get("properties").unwrap_or(body);
        let text = |name: &str| members[name].as_str().map(str::to_owned);
        let last = call.url.split(['/', '?']).rfind(|part| part.starts_with("chancery-"));
        let name = body["name"].as_str().or(last).unwrap().to_owned();
        let made = Registered {
            name: name.clone(),
            issuer: text("issuer").unwrap(),
            subject: text("subject").unwrap(),
            audiences: vec![members["audiences"][0].as_str().unwrap().to_owned()],
            description: text("description"),
        };
        match (call.method, all.iter_mut().find(|there| there.name == name)) {
            ("POST", None) | ("PUT", None) => all.push(made),
            ("PATCH" | "PUT", Some(there)) => *there = made,
            (method, there) => panic!("{method} of {there:?}"),
        }
    }
    assert!(all.len() <= LIMIT);
    let pairs: std::collections::BTreeSet<_> = all.iter().map(|one| (&one.issuer, &one.subject)).collect();
    assert_eq!(pairs.len(), all.len(), "issuer and subject stand once");
    assert!(wanted.subjects.iter().all(|subject| all.iter().any(|one| one.says(wanted, subject))));
    all
}

#[test]
fn a_managed_identity_is_told_with_one_put_for_each_subject() {
    let wanted = managed(&["system:serviceaccount:ns:web", "system:serviceaccount:ns:web"]);
    let plan = plan(&wanted, &[]).unwrap();
    let [call] = plan.calls.as_slice() else { panic!("{plan:?}") };
    // printf %s https://id.example.com/a | sha256sum | cut -c1-12, and the same of the subject
    let name = "chancery-66acf36ff878-ns-web-dfcf5bd2d954";
    assert_eq!(call.method, "PUT");
    assert_eq!(
        call.url,
        format!(
            "https://management.azure.com{RESOURCE}/federatedIdentityCredentials/{name}?api-version=2023-01-31"
        )
    );
    let properties = json!({
        "issuer": "https://id.example.com/a",
        "subject": "system:serviceaccount:ns:web",
        "audiences": ["api://AzureADTokenExchange"],
    });
    assert_eq!(call.body, Some(Body::Json(json!({ "properties": properties }))));
    assert!(call.permission.ends_with("federatedIdentityCredentials/write"));
    assert!(plan.notes.iter().any(|note| note.contains("AADSTS70021")));
}

#[test]
fn an_application_is_told_with_a_post_and_corrected_with_a_patch() {
    let wanted = application(&["system:serviceaccount:ns:web"]);
    let first = plan(&wanted, &[]).unwrap();
    assert_eq!(
        first.calls[0].to_string(),
        format!(
            "POST https://graph.microsoft.com/v1.0/applications(appId='{CLIENT}')/federatedIdentityCredentials"
        )
    );
    let mut there = after(&wanted, &[], &first);
    assert_eq!(plan(&wanted, &there).unwrap(), TrustPlan::default());
    there[0].audiences = vec!["other".to_owned()];
    let second = plan(&wanted, &there).unwrap();
    assert!(
        second.calls[0].to_string().starts_with("PATCH ") && second.calls[0].url.ends_with(&there[0].name)
    );
    after(&wanted, &there, &second);
}

#[test]
fn what_is_somebody_elses_is_never_touched() {
    let (issuer, subject) = ("https://id.example.com/a", "system:serviceaccount:ns:web");
    let wanted = managed(&[subject]);
    let trusting = plan(&wanted, &[foreign(issuer, subject, Cloud::Public.audience())]).unwrap();
    assert!(trusting.calls.is_empty() && trusting.notes[0].contains("theirs"), "{trusting:?}");
    let other = plan(&wanted, &[foreign(issuer, subject, "other")]).unwrap_err().to_string();
    assert!(other.contains("only once") && other.contains("theirs"), "{other}");
    // On an application, a name like ours does not suffice.
    let wanted = application(&[subject]);
    let imitated = Registered { name: name(&wanted.issuer, subject), ..foreign("https://x", "y", "z") };
    let blocked = plan(&wanted, &[imitated]).unwrap_err().to_string();
    assert!(blocked.contains("not ours"), "{blocked}");
}

#[test]
fn what_almost_matches_and_what_is_idle_is_told() {
    let wanted = managed(&["system:serviceaccount:ns:web"]);
    let slash =
        foreign("https://id.example.com/a/", "system:serviceaccount:ns:web", Cloud::Public.audience());
    let idle = Registered {
        name: name(&wanted.issuer, "system:serviceaccount:ns:gone"),
        ..foreign("https://id.example.com/a", "system:serviceaccount:ns:gone", Cloud::Public.audience())
    };
    let plan = plan(&wanted, &[slash, idle]).unwrap();
    assert_eq!(plan.calls.len(), 1);
    assert!(plan.notes.iter().any(|note| note.contains("byte for byte")), "{plan:?}");
    assert!(plan.notes.iter().any(|note| note.contains("nobody asked")), "{plan:?}");
}

#[test]
fn the_limit_is_seen_before_any_call() {
    let full: Vec<Registered> = (0..19)
        .map(|number| Registered {
            name: format!("theirs-{number}"),
            ..foreign("https://x", &number.to_string(), "y")
        })
        .collect();
    assert_eq!(plan(&managed(&["a"]), &full).unwrap().calls.len(), 1);
    let blocked = plan(&managed(&["a", "b"]), &full).unwrap_err().to_string();
    for words in ["19", "2 more", "20", "several identities", "nothing was changed"] {
        assert!(blocked.contains(words), "{blocked}");
    }
}

#[test]
fn what_entra_does_not_take_is_refused() {
    let long = "x".repeat(601);
    for subject in ["", "a b", "system:serviceaccount:ns:*", "a\n", &long] {
        assert!(plan(&managed(&[subject]), &[]).is_err(), "{subject:?}");
    }
    assert!(plan(&managed(&[]), &[]).is_err());
}

#[test]
fn identities_are_read_as_azure_writes_them() {
    assert!(Identity::managed(&RESOURCE.to_lowercase()).is_ok());
    for bad in
        ["", "app", &format!("{RESOURCE}/x"), &RESOURCE.replace("rg", ""), &RESOURCE.replace("rg", "r?g")]
    {
        assert!(Identity::managed(bad).unwrap_err().to_string().contains("/subscriptions/"), "{bad}");
    }
    for bad in ["", "web", &format!("{CLIENT}0"), &CLIENT.replace('-', "0"), &CLIENT.replace('1', "g")] {
        assert!(Identity::application(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_do(
        subjects in prop::collection::vec("[a-z:é-]{1,60}", 1..20),
        damage in prop::collection::vec(0..3_u8, 20),
        on_application: bool,
    ) {
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let wanted = if on_application { application(&subjects) } else { managed(&subjects) };
        let mut there = after(&wanted, &[], &plan(&wanted, &[]).unwrap());
        for one in &there {
            prop_assert!((3..=120).contains(&one.name.len()));
            prop_assert!(one.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        }
        for (one, kind) in there.iter_mut().zip(damage) {
            match kind {
                0 => one.audiences = vec!["other".to_owned()],
                1 => one.subject = format!("changed-{}", one.name),
                _ => {}
            }
        }
        let mended = after(&wanted, &there, &plan(&wanted, &there).unwrap());
        prop_assert_eq!(plan(&wanted, &mended).unwrap(), TrustPlan::default());
    }
}
