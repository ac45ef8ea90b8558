//! Looks at everything that [`super::explain`] needs. Changes nothing.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::types::{
    ObjectOwnership, OwnershipControls, PublicAccessBlockConfiguration, ServerSideEncryption,
};
use chancery_core::DocumentKind;
use chancery_core::trust::aws::Partition;
use chancery_wire::sigv4::SigningScope;
use chancery_wire::{HttpRequest, form};
use http::{HeaderName, HeaderValue, Method};

use super::{Anonymous, Document, Fact, Object, PublicAccessBlock, S3BucketFacts};
use crate::aws::{self as api, AwsCaller};
use crate::doctor::anonymous::{anonymous_read, header_text};
use crate::limits::ANONYMOUS_READ;
use crate::store::s3::{client_of, configuration_of, key_of};
use crate::target::{S3Target, TargetError};

/// Headers by which a distribution in front is known.
const FRONTS: [&str; 4] = ["x-amz-cf-id", "cf-ray", "x-fastly-request-id", "x-azure-ref"];

/// Looks at a target: as its publisher, and at `public_url`, the issuer URL as a rule, as everybody.
///
/// The account's settings are asked for at Amazon's alone, or at `account_endpoint`, which also stands for STS.
///
/// # Errors
/// When the target cannot be used at all. What may not be looked at is a fact.
pub async fn probe(
    target: &S3Target,
    public_url: &str,
    account_endpoint: Option<&str>,
) -> Result<S3BucketFacts, TargetError> {
    let client = client_of(target).await?;
    let region = client.config().region().map(ToString::to_string).unwrap_or_default();
    let partition = Partition::of_region(&region);
    let (account_block, bucket_block, acls_disabled, policy) = tokio::join!(
        account_block(target, &region, account_endpoint),
        bucket_block(&client, target),
        acls_disabled(&client, target),
        policy(&client, target),
    );
    let mut documents = Vec::new();
    for kind in DocumentKind::ALL {
        let key = key_of(target, kind.path());
        let url = format!("{}/{}", public_url.trim_end_matches('/'), kind.path());
        let (object, anonymous) = tokio::join!(object(&client, target, &key), anonymous(&url));
        documents.push(Document { key, object, anonymous });
    }
    let (bucket, partition) = (target.bucket.clone(), partition.to_string());
    Ok(S3BucketFacts {
        bucket,
        partition,
        region,
        account_block,
        bucket_block,
        acls_disabled,
        policy,
        documents,
    })
}

/// A refusal as a fact, or `None` where it means that there is nothing.
fn refusal<T, E>(error: &SdkError<E, HttpResponse>, right: &'static str, nothing: &str) -> Option<Fact<T>>
where
    E: ProvideErrorMetadata,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    match (error.code().unwrap_or_default(), status) {
        (code, _) if code == nothing => None,
        ("NotImplemented", _) | (_, Some(501 | 405)) => Some(Fact::Unsupported),
        (_, Some(401 | 403)) => Some(Fact::Hidden(right)),
        (code, Some(status)) => Some(Fact::Unread(format!("{status} {code}"))),
        (_, None) => Some(Fact::Unread("no answer".to_owned())),
    }
}

async fn bucket_block(client: &Client, target: &S3Target) -> Fact<PublicAccessBlock> {
    let right = "s3:GetBucketPublicAccessBlock";
    match client.get_public_access_block().bucket(&target.bucket).send().await {
        Ok(output) => Fact::Known(output.public_access_block_configuration().map(block).unwrap_or_default()),
        Err(error) => refusal(&error, right, "NoSuchPublicAccessBlockConfiguration")
            .unwrap_or(Fact::Known(PublicAccessBlock::default())),
    }
}

fn block(configuration: &PublicAccessBlockConfiguration) -> PublicAccessBlock {
    PublicAccessBlock {
        block_public_policy: configuration.block_public_policy().unwrap_or_default(),
        restrict_public_buckets: configuration.restrict_public_buckets().unwrap_or_default(),
        ignore_public_acls: configuration.ignore_public_acls().unwrap_or_default(),
    }
}

async fn acls_disabled(client: &Client, target: &S3Target) -> Fact<bool> {
    match client.get_bucket_ownership_controls().bucket(&target.bucket).send().await {
        Ok(output) => {
            let rules = output.ownership_controls().map(OwnershipControls::rules).unwrap_or_default();
            Fact::Known(
                rules.iter().any(|rule| rule.object_ownership == ObjectOwnership::BucketOwnerEnforced),
            )
        }
        Err(error) => refusal(&error, "s3:GetBucketOwnershipControls", "OwnershipControlsNotFoundError")
            .unwrap_or(Fact::Known(false)),
    }
}

async fn policy(client: &Client, target: &S3Target) -> Fact<Option<serde_json::Value>> {
    match client.get_bucket_policy().bucket(&target.bucket).send().await {
        Ok(output) => match output.policy().map(serde_json::from_str).transpose() {
            Ok(policy) => Fact::Known(policy),
            Err(error) => Fact::Unread(format!("the bucket policy is no JSON: {error}")),
        },
        Err(error) => {
            refusal(&error, "s3:GetBucketPolicy", "NoSuchBucketPolicy").unwrap_or(Fact::Known(None))
        }
    }
}

async fn object(client: &Client, target: &S3Target, key: &str) -> Fact<Option<Object>> {
    match client.head_object().bucket(&target.bucket).key(key).send().await {
        Ok(output) => {
            let kms = output.server_side_encryption().filter(|kind| **kind != ServerSideEncryption::Aes256);
            Fact::Known(Some(Object { kms: kms.map(|kind| kind.as_str().to_owned()) }))
        }
        Err(error) => {
            refusal(&error, "s3:GetObject and s3:ListBucket", "NotFound").unwrap_or(Fact::Known(None))
        }
    }
}

/// Once, without credentials and without following anybody elsewhere.
async fn anonymous(url: &str) -> Fact<Anonymous> {
    match anonymous_read(url, ANONYMOUS_READ).await {
        Ok(answer) => Fact::Known(Anonymous {
            status: answer.status.as_u16(),
            region: header_text(&answer, "x-amz-bucket-region"),
            front: FRONTS
                .iter()
                .find(|name| answer.headers.contains_key(**name))
                .map(|name| (*name).to_owned()),
        }),
        Err(why) => Fact::Unread(why),
    }
}

/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_control_GetPublicAccessBlock.html>
async fn account_block(target: &S3Target, region: &str, endpoint: Option<&str>) -> Fact<PublicAccessBlock> {
    if target.endpoint.is_some() && endpoint.is_none() {
        return Fact::Unsupported;
    }
    match read_account_block(target, region, endpoint).await {
        Ok(fact) => fact,
        Err(why) => Fact::Unread(why),
    }
}

async fn read_account_block(
    target: &S3Target,
    region: &str,
    endpoint: Option<&str>,
) -> Result<Fact<PublicAccessBlock>, String> {
    let domain = Partition::of_region(region).domain();
    let configuration = configuration_of(target).await.map_err(|error| error.to_string())?;
    let caller = AwsCaller::of(&configuration).map_err(|it| it.what)?;
    let sts = endpoint.map_or_else(|| format!("https://sts.{region}.{domain}"), str::to_owned);
    let sts = api::endpoint(&sts).map_err(|it| it.what)?;
    let question = form::encode([("Action", "GetCallerIdentity"), ("Version", "2011-06-15")]);
    let request = HttpRequest::new(Method::POST, &sts.below("/"))
        .body(HeaderValue::from_static(form::MEDIA_TYPE), question);
    let scope = |service| SigningScope { service, region };
    let answer = caller.send(scope("sts"), request).await.map_err(|it| it.what)?;
    let account = answer.text("Account").ok_or_else(|| format!("STS answered {}", answer.status))?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let header = HeaderValue::from_str(account).ok().filter(|_| digits(account));
    let header = header.ok_or_else(|| "STS named an account that is none".to_owned())?;
    let control =
        endpoint.map_or_else(|| format!("https://{account}.s3-control.{region}.{domain}"), str::to_owned);
    let control = api::endpoint(&control).map_err(|it| it.what)?;
    let request = HttpRequest::new(Method::GET, &control.below("v20180820/configuration/publicAccessBlock"))
        .header(HeaderName::from_static("x-amz-account-id"), header);
    let answer = caller.send(scope("s3"), request).await.map_err(|it| it.what)?;
    let is = |name: &str| answer.text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(match (answer.is_success(), answer.code()) {
        (true, _) => Fact::Known(PublicAccessBlock {
            block_public_policy: is("BlockPublicPolicy"),
            restrict_public_buckets: is("RestrictPublicBuckets"),
            ignore_public_acls: is("IgnorePublicAcls"),
        }),
        (false, "NoSuchPublicAccessBlockConfiguration") => Fact::Known(PublicAccessBlock::default()),
        (false, _) if matches!(answer.status, 401 | 403) => Fact::Hidden("s3:GetAccountPublicAccessBlock"),
        (false, _) => Fact::Unread(answer.to_string()),
    })
}
