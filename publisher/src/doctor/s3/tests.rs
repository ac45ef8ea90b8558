use serde_json::json;

use super::*;

fn document(status: u16) -> Document {
    Document {
        key: "a/openid/v1/jwks".to_owned(),
        object: Fact::Known(Some(Object::default())),
        anonymous: Fact::Known(Anonymous { status, ..Anonymous::default() }),
    }
}

fn open() -> Value {
    json!({ "Statement": [{
        "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/a/*",
    }] })
}

/// A bucket that everybody may read, and does not answer them.
fn facts() -> S3BucketFacts {
    S3BucketFacts {
        bucket: "b".to_owned(),
        partition: "aws".to_owned(),
        region: "eu-central-1".to_owned(),
        account_block: Fact::Known(PublicAccessBlock::default()),
        bucket_block: Fact::Known(PublicAccessBlock::default()),
        acls_disabled: Fact::Known(true),
        policy: Fact::Known(Some(open())),
        documents: vec![document(403)],
    }
}

fn rules(facts: &S3BucketFacts) -> Vec<&'static str> {
    explain(facts).into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn each_control_that_stops_a_reader_is_named() {
    let restricts = PublicAccessBlock { restrict_public_buckets: true, ..PublicAccessBlock::default() };
    let blocks = PublicAccessBlock { block_public_policy: true, ..PublicAccessBlock::default() };
    let ignores = PublicAccessBlock { ignore_public_acls: true, ..PublicAccessBlock::default() };
    let with = |document| S3BucketFacts { documents: vec![document], ..facts() };
    let redirected = Anonymous { status: 301, region: Some("us-east-1".to_owned()), front: None };
    let behind = Anonymous { status: 403, region: None, front: Some("x-amz-cf-id".to_owned()) };
    let kms = Object { kms: Some("aws:kms".to_owned()) };
    for (facts, expected) in [
        (
            S3BucketFacts { account_block: Fact::Known(restricts), ..facts() },
            vec!["s3-account-block-public-access"],
        ),
        (
            S3BucketFacts { bucket_block: Fact::Known(restricts), ..facts() },
            vec!["s3-bucket-block-public-access"],
        ),
        (
            S3BucketFacts {
                account_block: Fact::Known(restricts),
                bucket_block: Fact::Known(restricts),
                ..facts()
            },
            vec!["s3-account-block-public-access", "s3-bucket-block-public-access"],
        ),
        // A policy that is there already is not hindered by a ban on setting one, nor by one on ACLs.
        (S3BucketFacts { bucket_block: Fact::Known(blocks), ..facts() }, vec!["s3-unexplained"]),
        (S3BucketFacts { bucket_block: Fact::Known(ignores), ..facts() }, vec!["s3-unexplained"]),
        (
            S3BucketFacts { bucket_block: Fact::Known(blocks), policy: Fact::Known(None), ..facts() },
            vec!["s3-bucket-block-public-access", "s3-no-bucket-policy"],
        ),
        (S3BucketFacts { policy: Fact::Known(None), ..facts() }, vec!["s3-no-bucket-policy"]),
        (S3BucketFacts { policy: Fact::Known(Some(json!({}))), ..facts() }, vec!["s3-bucket-policy"]),
        (with(Document { object: Fact::Known(Some(kms)), ..document(403) }), vec!["s3-kms-encryption"]),
        (with(Document { object: Fact::Known(None), ..document(404) }), vec!["s3-object-missing"]),
        (with(Document { anonymous: Fact::Known(redirected), ..document(0) }), vec!["s3-other-region"]),
        (
            with(Document { anonymous: Fact::Known(behind), ..document(0) }),
            vec!["s3-unexplained", "s3-distribution-in-front"],
        ),
        (facts(), vec!["s3-unexplained"]),
    ] {
        assert_eq!(rules(&facts), expected, "{facts:?}");
        assert!(explain(&facts).iter().all(|finding| !finding.remedy.is_empty()));
    }
}

#[test]
fn whoever_can_read_is_told_nothing() {
    let blocked = PublicAccessBlock { restrict_public_buckets: true, ..PublicAccessBlock::default() };
    let facts =
        S3BucketFacts { bucket_block: Fact::Known(blocked), documents: vec![document(200)], ..facts() };
    assert_eq!(explain(&facts), []);
}

#[test]
fn what_may_not_be_looked_at_is_named_with_its_right() {
    let facts = S3BucketFacts {
        account_block: Fact::Hidden("s3:GetAccountPublicAccessBlock"),
        bucket_block: Fact::Hidden("s3:GetBucketPublicAccessBlock"),
        acls_disabled: Fact::Hidden("s3:GetBucketOwnershipControls"),
        policy: Fact::Hidden("s3:GetBucketPolicy"),
        documents: vec![Document { object: Fact::Hidden("s3:GetObject"), ..document(403) }],
        ..facts()
    };
    let findings = explain(&facts);
    assert_eq!(findings[0].rule, "s3-unexplained");
    let grants: Vec<&str> = findings[1..].iter().map(|finding| finding.remedy.as_str()).collect();
    assert_eq!(
        grants,
        [
            "grant s3:GetAccountPublicAccessBlock",
            "grant s3:GetBucketPublicAccessBlock",
            "grant s3:GetBucketOwnershipControls",
            "grant s3:GetBucketPolicy",
            "grant s3:GetObject",
        ]
    );
    assert!(findings[1..].iter().all(|finding| finding.severity == Severity::Warning));
}

#[test]
fn disabled_acls_are_mentioned_where_they_are_what_somebody_relied_on() {
    let facts = S3BucketFacts { policy: Fact::Known(None), ..facts() };
    assert!(explain(&facts)[0].message.contains("ACLs are disabled"));
    let facts = S3BucketFacts { acls_disabled: Fact::Known(false), ..facts };
    assert!(!explain(&facts)[0].message.contains("ACLs"));
}
