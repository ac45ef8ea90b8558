use super::*;

const ENDPOINT: &str = "https://iam.amazonaws.com/";

fn wanted(audiences: &[&str]) -> Wanted {
    Wanted {
        issuer: "https://id.example.com/cluster-a".parse().unwrap(),
        audiences: audiences.iter().map(|id| (*id).to_owned()).collect(),
        owner: "us".parse().unwrap(),
        thumbprints: Vec::new(),
        adopt: false,
    }
}

fn account() -> Account {
    Account { partition: Partition::Aws, id: "123456789012".to_owned() }
}

fn form(call: &Call) -> &[(String, String)] {
    let Some(Body::Form(form)) = &call.body else { panic!("{call:?}") };
    form
}

/// What a provider is after the calls, as IAM carries them out.
fn carried_out(calls: &[Call], before: Option<&Provider>) -> Provider {
    let mut provider = before.cloned().unwrap_or_default();
    for call in calls {
        let mut key = String::new();
        for (name, value) in form(call) {
            match name.split('.').collect::<Vec<_>>().as_slice() {
                ["ClientIDList", ..] => drop(provider.audiences.insert(value.clone())),
                ["ThumbprintList", ..] => drop(provider.thumbprints.insert(value.clone())),
                ["Tags", .., "Key"] => key.clone_from(value),
                ["Tags", .., "Value"] => drop(provider.tags.insert(key.clone(), value.clone())),
                ["ClientID"] if call.permission.contains("Remove") => drop(provider.audiences.remove(value)),
                ["ClientID"] => drop(provider.audiences.insert(value.clone())),
                _ => {}
            }
        }
    }
    provider
}

/// Plans, carries out, and plans again: then there is nothing to call.
fn settled(wanted: &Wanted, before: Option<&Provider>) -> (Vec<&'static str>, Provider) {
    let planned = plan(wanted, &account(), ENDPOINT, before).unwrap();
    let after = carried_out(&planned.calls, before);
    assert_eq!(plan(wanted, &account(), ENDPOINT, Some(&after)).unwrap().calls, []);
    assert!(after.tags.values().all(|value| value.len() <= 256), "{:?}", after.tags);
    let permissions = planned.calls.iter().map(|call| call.permission);
    (
        permissions
            .map(|it| it.trim_start_matches("iam:").trim_end_matches("OpenIDConnectProvider"))
            .collect(),
        after,
    )
}

#[test]
fn what_is_missing_is_created_with_its_tags_and_without_a_thumbprint() {
    let planned = plan(&wanted(&["b", "a"]), &account(), ENDPOINT, None).unwrap();
    let [call] = planned.calls.as_slice() else { panic!("{planned:?}") };
    let parameters: Vec<String> = form(call).iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        parameters,
        [
            "Action=CreateOpenIDConnectProvider",
            "Version=2010-05-08",
            "Url=https://id.example.com/cluster-a",
            "ClientIDList.member.1=a",
            "ClientIDList.member.2=b",
            "Tags.member.1.Key=chancery-audiences-1",
            "Tags.member.1.Value=PiPoFgA5WU.ypeBEsobvc",
            "Tags.member.2.Key=chancery-owner",
            "Tags.member.2.Value=us",
        ]
    );
    let thumbprint = "0123456789abcdef0123456789abcdef01234567".to_owned();
    let given = Wanted { thumbprints: vec![thumbprint.clone()], ..wanted(&["a"]) };
    let (_, provider) = settled(&given, None);
    assert_eq!(provider.thumbprints, BTreeSet::from([thumbprint]));
}

#[test]
fn client_ids_are_added_and_only_ours_are_removed() {
    let (calls, provider) = settled(&wanted(&["a", "b"]), None);
    assert_eq!(calls, ["Create"]);
    let (calls, mut provider) = settled(&wanted(&["a", "c"]), Some(&provider));
    assert_eq!(calls, ["Tag", "AddClientIDTo", "RemoveClientIDFrom", "Tag"]);
    assert_eq!(provider.audiences, BTreeSet::from(["a", "c"].map(str::to_owned)));
    provider.audiences.insert("theirs".to_owned());
    let planned = plan(&wanted(&["a", "c"]), &account(), ENDPOINT, Some(&provider)).unwrap();
    assert_eq!(planned.calls, []);
    assert!(planned.notes[0].contains("theirs"), "{:?}", planned.notes);
    // Wanting it and not wanting it any more does not make it ours.
    let (calls, provider) = settled(&wanted(&["a", "c", "theirs"]), Some(&provider));
    assert_eq!(calls, [""; 0]);
    let (calls, provider) = settled(&wanted(&["a"]), Some(&provider));
    assert_eq!(calls, ["RemoveClientIDFrom", "Tag"]);
    assert!(provider.audiences.contains("theirs"));
}

#[test]
fn a_hundred_client_ids_fit_and_one_more_is_planned_for() {
    let ids: Vec<String> = (0..101).map(|number| format!("{number:0>255}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (_, provider) = settled(&wanted(&ids[..50]), None);
    let (_, provider) = settled(&wanted(&ids[..100]), Some(&provider));
    let error = plan(&wanted(&ids), &account(), ENDPOINT, Some(&provider)).unwrap_err().to_string();
    assert!(error.contains("100 client ids, 1 more"), "{error}");
    let error = plan(&wanted(&ids), &account(), ENDPOINT, None).unwrap_err().to_string();
    assert!(error.contains("101"), "{error}");
    let (_, provider) = settled(&wanted(&ids[..1]), Some(&provider));
    assert_eq!(provider.audiences.len(), 1);
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let of = |owner: &str| Provider {
        tags: BTreeMap::from([(OWNER_TAG.to_owned(), owner.to_owned())]),
        ..Provider::default()
    };
    let error = plan(&wanted(&["a"]), &account(), ENDPOINT, Some(&of("them"))).unwrap_err().to_string();
    assert!(error.contains("belongs to them") && error.contains("--owner"), "{error}");
    let adopting = Wanted { adopt: true, ..wanted(&["a"]) };
    assert!(plan(&adopting, &account(), ENDPOINT, Some(&of("them"))).is_err());
    let unmarked = Provider { audiences: BTreeSet::from(["a".to_owned()]), ..Provider::default() };
    let error = plan(&wanted(&["a"]), &account(), ENDPOINT, Some(&unmarked)).unwrap_err().to_string();
    assert!(error.contains("--adopt"), "{error}");
    let (calls, provider) = settled(&adopting, Some(&unmarked));
    assert_eq!(calls, ["Tag"]);
    // It was there before us.
    let (_, provider) = settled(&wanted(&["b"]), Some(&provider));
    assert!(provider.audiences.contains("a"));
}

#[test]
fn a_differing_thumbprint_is_a_note() {
    let (_, mut provider) = settled(&wanted(&["a"]), None);
    provider.thumbprints.insert("f".repeat(40));
    assert_eq!(plan(&wanted(&["a"]), &account(), ENDPOINT, Some(&provider)).unwrap(), TrustPlan::default());
    let given = Wanted { thumbprints: vec!["0".repeat(40)], ..wanted(&["a"]) };
    let planned = plan(&given, &account(), ENDPOINT, Some(&provider)).unwrap();
    assert!(planned.calls.is_empty() && planned.notes[0].contains("thumbprints"), "{planned:?}");
}

#[test]
fn what_iam_would_refuse_is_refused_before() {
    let long = format!("https://id.example.com/{}", "a".repeat(240));
    for (wanted, words) in [
        (Wanted { issuer: "https://id.example.com:8443".parse().unwrap(), ..wanted(&["a"]) }, "port"),
        (Wanted { issuer: long.parse().unwrap(), ..wanted(&["a"]) }, "263 characters"),
        (wanted(&[]), "no audience"),
        (wanted(&[""]), "0 characters"),
        (wanted(&[&"a".repeat(256)]), "256 characters"),
        (Wanted { thumbprints: vec!["x".repeat(40)], ..wanted(&["a"]) }, "thumbprint"),
        (Wanted { thumbprints: vec!["0".repeat(40); 6], ..wanted(&["a"]) }, "6 thumbprints"),
    ] {
        let error = plan(&wanted, &account(), ENDPOINT, None).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn every_partition_has_its_names() {
    for (region, partition) in [
        ("eu-central-1", Partition::Aws),
        ("us-gov-west-1", Partition::UsGov),
        ("cn-north-1", Partition::China),
        ("eusc-de-east-1", Partition::EuropeanSovereign),
    ] {
        assert_eq!(Partition::of_region(region), partition);
        assert_eq!(Partition::of_region(partition.iam_region()), partition);
        assert_eq!(Partition::of_arn(&format!("arn:{partition}:sts::1:assumed-role/a/b")), Some(partition));
        assert!(partition.iam_endpoint().contains(partition.domain()));
    }
    assert_eq!(Partition::of_arn("arn:aws-iso:iam::1:root"), None);
}

#[test]
fn a_role_is_trusted_for_one_service_account() {
    let policy = trust_policy(&wanted(&["sts.amazonaws.com"]), &account(), "apps", "web");
    assert_eq!(
        policy["Statement"][0]["Principal"]["Federated"],
        "arn:aws:iam::123456789012:oidc-provider/id.example.com/cluster-a"
    );
    let condition = &policy["Statement"][0]["Condition"]["StringEquals"];
    assert_eq!(condition["id.example.com/cluster-a:aud"], "sts.amazonaws.com");
    assert_eq!(condition["id.example.com/cluster-a:sub"], "system:serviceaccount:apps:web");
}
