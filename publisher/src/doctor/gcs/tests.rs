use super::*;

fn reading(status: u16) -> AnonymousAnswer {
    AnonymousAnswer {
        url: "https://storage.googleapis.com/b/a/openid/v1/jwks".to_owned(),
        status: Some(status),
        cache_control: Some("public, max-age=600".to_owned()),
        in_front: None,
    }
}

/// A bucket that is published and that everybody may read.
fn open(status: u16) -> GcsBucketFacts {
    GcsBucketFacts {
        bucket: "b".to_owned(),
        published: Some(true),
        direct: reading(status),
        public: None,
        settings: Some(GcsBucketSettings { prevention_enforced: false, uniform_access: true }),
        members: Some(PublicMembers { everybody: true, everybody_with_an_account: false }),
        organization_prevents: Some(false),
        organization_restricts_members: Some(false),
    }
}

fn rules(facts: &GcsBucketFacts) -> Vec<&'static str> {
    explain(facts).into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_readable_bucket_needs_no_explanation() {
    assert_eq!(rules(&open(200)), [""; 0]);
    let unknown = GcsBucketFacts { direct: reading(200), ..GcsBucketFacts::default() };
    assert_eq!(rules(&unknown), [""; 0]);
}

#[test]
fn the_control_that_stops_an_anonymous_reader_is_named_with_its_remedy() {
    let none = Some(PublicMembers::default());
    let enforced = Some(GcsBucketSettings { prevention_enforced: true, uniform_access: true });
    let accounts = Some(PublicMembers { everybody: false, everybody_with_an_account: true });
    let fine = Some(GcsBucketSettings { prevention_enforced: false, uniform_access: false });
    for (facts, rule, words) in [
        (
            GcsBucketFacts { organization_prevents: Some(true), ..open(403) },
            "gcs-organization-prevents-public-access",
            "exception",
        ),
        (
            GcsBucketFacts { settings: enforced, ..open(401) },
            "gcs-bucket-prevents-public-access",
            "gs://b --no-public-access-prevention",
        ),
        (
            GcsBucketFacts { members: none, ..open(401) },
            "gcs-no-public-grant",
            "gs://b --member=allUsers --role=roles/storage.objectViewer",
        ),
        (
            GcsBucketFacts { members: none, settings: fine, ..open(401) },
            "gcs-no-public-grant",
            "access lists",
        ),
        (GcsBucketFacts { members: accounts, ..open(401) }, "gcs-no-public-grant", "allAuthenticatedUsers"),
        (
            GcsBucketFacts { members: none, organization_restricts_members: Some(true), ..open(401) },
            "gcs-organization-restricts-members",
            "iam.allowedPolicyMemberDomains",
        ),
        (open(403), "gcs-private", "VPC Service Controls"),
        (GcsBucketFacts { members: None, ..open(403) }, "gcs-private", "storage.buckets.getIamPolicy"),
        (GcsBucketFacts { settings: None, ..open(403) }, "gcs-private", "storage.buckets.get "),
        (GcsBucketFacts { published: Some(false), ..open(403) }, "gcs-not-published", "publish apply"),
        (GcsBucketFacts { published: None, ..open(404) }, "gcs-not-published", "publish apply"),
        (open(404), "gcs-other-place", "prefix"),
        (open(503), "gcs-unreachable", "status 503"),
        (
            GcsBucketFacts { direct: AnonymousAnswer { status: None, ..reading(0) }, ..open(0) },
            "gcs-unreachable",
            "no answer",
        ),
    ] {
        let findings = explain(&facts);
        let [finding] = findings.as_slice() else { panic!("{rule}: {findings:?}") };
        assert_eq!((finding.rule, finding.severity), (rule, Severity::Error));
        assert!(format!("{} {}", finding.message, finding.remedy).contains(words), "{finding:?}");
        assert_eq!(finding.breaks, RelyingParty::ALL);
    }
}

#[test]
fn two_controls_at_once_are_both_named_the_stronger_first() {
    let facts = GcsBucketFacts {
        organization_prevents: Some(true),
        settings: Some(GcsBucketSettings { prevention_enforced: true, uniform_access: true }),
        members: Some(PublicMembers::default()),
        ..open(403)
    };
    assert_eq!(
        rules(&facts),
        [
            "gcs-organization-prevents-public-access",
            "gcs-bucket-prevents-public-access",
            "gcs-no-public-grant"
        ]
    );
}

#[test]
fn what_stands_in_front_is_told_from_the_bucket() {
    let public = |reading| GcsBucketFacts { public: Some(reading), ..open(200) };
    assert_eq!(rules(&public(reading(403))), ["gcs-stopped-in-front"]);
    assert_eq!(rules(&public(reading(200))), [""; 0]);
    let cached = AnonymousAnswer { in_front: Some("Age: 5".to_owned()), ..reading(200) };
    assert_eq!(rules(&public(cached)), ["gcs-cache-in-front"]);
    let behind =
        GcsBucketFacts { public: Some(reading(200)), members: Some(PublicMembers::default()), ..open(403) };
    assert_eq!(rules(&behind), [""; 0]);
}

#[test]
fn googles_own_hour_is_recognised() {
    let an_hour = AnonymousAnswer { cache_control: Some(AN_HOUR.to_owned()), ..reading(200) };
    assert_eq!(rules(&GcsBucketFacts { direct: an_hour.clone(), ..open(200) }), ["gcs-cached-an-hour"]);
    assert_eq!(rules(&GcsBucketFacts { public: Some(an_hour), ..open(200) }), ["gcs-cached-an-hour"]);
    assert_eq!(rules(&open(200)), [""; 0]);
}
