//! Why nobody can read from a bucket, as the doctor finds it out: on real servers as far as they have the controls, and
//! on a strict stand-in for Amazon's.

use anyhow::Result;
use aws_sdk_s3::config::Credentials;
use chancery_publisher::doctor::s3::{Fact, PublicAccessBlock, explain, probe};
use chancery_publisher::target::S3Target;
use e2e::aws_s3::{AwsS3, Reply};
use e2e::binary;
use e2e::s3_server::{Brand, credentials_file};
use e2e::scratch::Scratch;
use e2e::sigv4::verify::{CREDENTIALS, REGION, SESSION_TOKEN};

const JWKS: &str = "cluster-a/openid/v1/jwks";
const DISCOVERY: &str = "cluster-a/.well-known/openid-configuration";

fn target(endpoint: &str, dir: &Scratch, credentials: &Credentials) -> Result<S3Target> {
    Ok(S3Target {
        endpoint: Some(endpoint.to_owned()),
        region: Some(REGION.to_owned()),
        prefix: "cluster-a".to_owned(),
        path_style: true,
        credentials_file: Some(credentials_file(dir, credentials)?),
        ..S3Target::of_bucket("documents")
    })
}

async fn rules(target: &S3Target, account: Option<&str>) -> Result<Vec<String>> {
    let public = format!("{}/documents/cluster-a", target.endpoint.clone().unwrap_or_default());
    let facts = probe(target, &public, account).await?;
    Ok(explain(&facts).into_iter().map(|finding| format!("{} {}", finding.rule, finding.remedy)).collect())
}

async fn a_bucket_is_opened_step_by_step_on(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("doctor")?);
    let (id, secret) = server.root_credentials();
    let target = target(server.endpoint(), &dir, &Credentials::new(id, secret, None, None, "root"))?;
    server.create_bucket("documents").await?;
    let named = async |rule: &str, expected: bool| -> Result<()> {
        let rules = rules(&target, None).await?;
        assert_eq!(rules.iter().any(|found| found.starts_with(rule)), expected, "{rule}: {rules:?}");
        Ok(())
    };
    named("s3-object-missing", true).await?;
    named("s3-no-bucket-policy", true).await?;
    for key in [JWKS, DISCOVERY] {
        server.put_object("documents", key, b"{}").await?;
    }
    named("s3-object-missing", false).await?;
    named("s3-no-bucket-policy", true).await?;
    for (resource, rule) in [("documents/other/*", "s3-bucket-policy"), ("documents/*", "")] {
        let policy = serde_json::json!({ "Version": "2012-10-17", "Statement": [{
            "Effect": "Allow", "Principal": { "AWS": ["*"] }, "Action": ["s3:GetObject"],
            "Resource": [format!("arn:aws:s3:::{resource}")],
        }] });
        let put = server.s3_client().put_bucket_policy().bucket("documents").policy(policy.to_string());
        put.send().await?;
        match rule {
            "" => assert_eq!(rules(&target, None).await?, [""; 0]),
            rule => named(rule, true).await?,
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_bucket_is_opened_step_by_step_on_minio() -> Result<()> {
    a_bucket_is_opened_step_by_step_on(Brand::Minio).await
}

#[tokio::test]
async fn a_bucket_is_opened_step_by_step_on_versitygw() -> Result<()> {
    a_bucket_is_opened_step_by_step_on(Brand::Versitygw).await
}

const BLOCK: &str = "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
const OWNED: &str = "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>";
const OPEN: &str = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::documents/*"}]}"#;
const DENIED: &str = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";

/// A bucket of Amazon's with both documents, which everybody is refused.
async fn amazon() -> Result<(AwsS3, Scratch, S3Target)> {
    let (s3, dir) = (AwsS3::start().await?, Scratch::new("doctor")?);
    let (id, secret) = CREDENTIALS;
    let credentials = Credentials::new(id, secret, Some(SESSION_TOKEN.to_owned()), None, "test");
    let target = target(&s3.endpoint(), &dir, &credentials)?;
    for key in [JWKS, DISCOVERY] {
        s3.signed(
            &format!("HEAD /documents/{key}"),
            Reply(200, &[("x-amz-server-side-encryption", "AES256")], ""),
        );
        s3.anonymous(&format!("GET /documents/{key}"), Reply(403, &[], DENIED));
    }
    s3.signed("GET /documents/?publicAccessBlock", Reply(200, &[], BLOCK));
    s3.signed("GET /documents/?ownershipControls", Reply(200, &[], OWNED));
    s3.signed("GET /documents/?policy", Reply(200, &[], OPEN));
    s3.signed("GET /v20180820/configuration/publicAccessBlock", Reply(200, &[], BLOCK));
    Ok((s3, dir, target))
}

#[tokio::test]
async fn block_public_access_of_account_and_bucket_are_told_apart() -> Result<()> {
    let (s3, _dir, target) = amazon().await?;
    let account = s3.endpoint();
    let facts = probe(&target, &format!("{account}/documents/cluster-a"), Some(&account)).await?;
    let all = PublicAccessBlock {
        block_public_policy: true,
        restrict_public_buckets: true,
        ignore_public_acls: true,
    };
    assert_eq!(
        (facts.account_block, facts.bucket_block),
        (Fact::Known(all), Fact::Known(all)),
        "{:#?}",
        s3.log().records()
    );
    assert_eq!(facts.acls_disabled, Fact::Known(true));
    let both = rules(&target, Some(&account)).await?;
    assert!(both[0].starts_with("s3-account-block") && both[1].starts_with("s3-bucket-block"), "{both:?}");
    s3.signed(
        "GET /documents/?publicAccessBlock",
        Reply(404, &[], "<Error><Code>NoSuchPublicAccessBlockConfiguration</Code></Error>"),
    );
    let one = rules(&target, Some(&account)).await?;
    assert!(one.len() == 1 && one[0].starts_with("s3-account-block"), "{one:?}");
    Ok(())
}

#[tokio::test]
async fn encryption_region_and_distribution_are_seen() -> Result<()> {
    let (s3, _dir, target) = amazon().await?;
    let account = s3.endpoint();
    for request in ["GET /documents/?publicAccessBlock", "GET /v20180820/configuration/publicAccessBlock"] {
        s3.signed(request, Reply(200, &[], "<PublicAccessBlockConfiguration/>"));
    }
    let jwks = format!("/documents/{JWKS}");
    s3.signed(&format!("HEAD {jwks}"), Reply(200, &[("x-amz-server-side-encryption", "aws:kms")], ""));
    s3.anonymous(
        &format!("GET /documents/{DISCOVERY}"),
        Reply(301, &[("x-amz-bucket-region", "eu-central-1")], ""),
    );
    s3.anonymous(&format!("GET {jwks}"), Reply(403, &[("x-amz-cf-id", "x")], DENIED));
    let rules = rules(&target, Some(&account)).await?;
    for rule in ["s3-kms-encryption", "s3-other-region name eu-central-1", "s3-distribution-in-front"] {
        assert!(rules.iter().any(|found| found.starts_with(rule)), "{rule}: {rules:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_may_not_be_looked_at_is_named_with_its_right() -> Result<()> {
    let (s3, _dir, target) = amazon().await?;
    let account = s3.endpoint();
    for request in [
        "GET /documents/?publicAccessBlock",
        "GET /documents/?ownershipControls",
        "GET /documents/?policy",
        "GET /v20180820/configuration/publicAccessBlock",
    ] {
        s3.signed(request, Reply(403, &[], DENIED));
    }
    let rules = rules(&target, Some(&account)).await?;
    assert!(rules[0].starts_with("s3-unexplained"), "{rules:?}");
    for right in [
        "s3:GetAccountPublicAccessBlock",
        "s3:GetBucketPublicAccessBlock",
        "s3:GetBucketOwnershipControls",
        "s3:GetBucketPolicy",
    ] {
        assert!(rules.contains(&format!("s3-hidden grant {right}")), "{right}: {rules:?}");
    }
    Ok(())
}
