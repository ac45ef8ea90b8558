//! Why an anonymous reader cannot read from a bucket, by the exact control that stops it.
//!
//! Sources: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html>,
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/about-object-ownership.html>,
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/how-s3-evaluates-access-control.html>.

use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use serde_json::Value;

use self::policy::{PolicyVerdict, reading};

mod policy;
mod probe;

pub use probe::probe;

/// What is known of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// It was read.
    Known(T),
    /// We may not read it; this is the right that it takes.
    Hidden(&'static str),
    /// The server has no such thing.
    Unsupported,
    /// It could not be read for another reason, in words.
    Unread(String),
}

/// *Block Public Access* of an account or a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublicAccessBlock {
    /// `BlockPublicPolicy`: a public policy cannot be set.
    pub block_public_policy: bool,
    /// `RestrictPublicBuckets`: a public policy that is there lets nobody in.
    pub restrict_public_buckets: bool,
    /// `IgnorePublicAcls`: a public ACL lets nobody in.
    pub ignore_public_acls: bool,
}

/// An object as its owner sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// `aws:kms` or `aws:kms:dsse` where a KMS key encrypts it.
    pub kms: Option<String>,
}

/// What an anonymous reader was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anonymous {
    /// HTTP status.
    pub status: u16,
    /// `x-amz-bucket-region`.
    pub region: Option<String>,
    /// The header by which a distribution in front was known.
    pub front: Option<String>,
}

/// One document of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its key in the bucket.
    pub key: String,
    /// The object; `None` when there is none.
    pub object: Fact<Option<Object>>,
    /// What the world sees.
    pub anonymous: Fact<Anonymous>,
}

/// All that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3BucketFacts {
    /// The bucket.
    pub bucket: String,
    /// The partition of its ARN.
    pub partition: String,
    /// The region that we ask in.
    pub region: String,
    /// The account's *Block Public Access*.
    pub account_block: Fact<PublicAccessBlock>,
    /// The bucket's.
    pub bucket_block: Fact<PublicAccessBlock>,
    /// Whether ACLs are disabled (`BucketOwnerEnforced`).
    pub acls_disabled: Fact<bool>,
    /// The bucket policy.
    pub policy: Fact<Option<Value>>,
    /// The documents.
    pub documents: Vec<Document>,
}

/// What stops an anonymous reader, the worst first; nothing when nobody is stopped.
pub fn explain(facts: &S3BucketFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts.documents.iter().filter_map(in_front).collect();
    let stopped: Vec<&Document> = facts.documents.iter().filter(|it| is_stopped(it)).collect();
    if !stopped.is_empty() {
        findings.extend(stopped.iter().filter_map(|document| of_document(facts, document)));
        findings.extend(of_blocks(facts));
        findings.extend(stopped.iter().filter_map(|document| of_policy(facts, document)));
        if !findings.iter().any(|finding| finding.severity == Severity::Error) {
            findings.push(unexplained(facts, &stopped));
        }
        findings.extend(hidden(facts));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings.dedup();
    findings
}

fn is_stopped(document: &Document) -> bool {
    !matches!(&document.anonymous, Fact::Known(anonymous) if anonymous.status == 200)
}

fn finding(rule: &'static str, severity: Severity, message: String, remedy: impl Into<String>) -> Finding {
    let breaks = if severity == Severity::Error { RelyingParty::ALL.to_vec() } else { Vec::new() };
    Finding { rule, severity, breaks, message, remedy: remedy.into() }
}

fn in_front(document: &Document) -> Option<Finding> {
    let Fact::Known(Anonymous { front: Some(header), status, .. }) = &document.anonymous else { return None };
    let message = format!("a distribution answers for {} ({header}) with {status}", document.key);
    let remedy = "let it read the bucket (origin access control), pass `Cache-Control` on and cache no longer than that says";
    Some(finding("s3-distribution-in-front", Severity::Note, message, remedy))
}

/// What stops this one document, whatever the policies say.
fn of_document(facts: &S3BucketFacts, document: &Document) -> Option<Finding> {
    let Document { key, object, anonymous } = document;
    if let Fact::Known(Anonymous { status: 300..=399, region: Some(region), .. }) = anonymous {
        let message = format!("{key} was asked for in {}, and the bucket is in {region}", facts.region);
        return Some(finding(
            "s3-other-region",
            Severity::Error,
            message,
            format!("name {region} in the issuer URL"),
        ));
    }
    match object {
        Fact::Known(None) => {
            let message = format!("there is no object {key} in {}", facts.bucket);
            Some(finding("s3-object-missing", Severity::Error, message, "publish first, below this prefix"))
        }
        Fact::Known(Some(Object { kms: Some(kms) })) => {
            let message =
                format!("{key} is encrypted with a KMS key ({kms}), which no anonymous reader may use");
            let remedy = "set the bucket's default encryption to SSE-S3 and publish again";
            Some(finding("s3-kms-encryption", Severity::Error, message, remedy))
        }
        _ => None,
    }
}

fn of_blocks(facts: &S3BucketFacts) -> Vec<Finding> {
    let levels = [
        ("s3-account-block-public-access", "the account's", &facts.account_block),
        ("s3-bucket-block-public-access", "the bucket's", &facts.bucket_block),
    ];
    let stops = levels.into_iter().filter_map(|(rule, whose, block)| {
        let Fact::Known(block) = block else { return None };
        let flag = match block {
            PublicAccessBlock { restrict_public_buckets: true, .. } => "RestrictPublicBuckets",
            PublicAccessBlock { block_public_policy: true, .. } if lacks_policy(facts) => "BlockPublicPolicy",
            _ => return None,
        };
        let message = format!("{whose} Block Public Access has {flag}: no bucket policy lets anybody in");
        Some(finding(
            rule,
            Severity::Error,
            message,
            format!("switch {flag} and BlockPublicPolicy off there"),
        ))
    });
    stops.collect()
}

/// A policy that cannot be set is only a hindrance while there is none that suffices.
fn lacks_policy(facts: &S3BucketFacts) -> bool {
    facts.documents.iter().any(|document| of_policy(facts, document).is_some())
}

fn of_policy(facts: &S3BucketFacts, document: &Document) -> Option<Finding> {
    let arn = format!("arn:{}:s3:::{}/{}", facts.partition, facts.bucket, document.key);
    let remedy =
        format!("let the bucket policy allow s3:GetObject to everybody (`Principal` \"*\") on {arn}");
    let Fact::Known(policy) = &facts.policy else { return None };
    let Some(policy) = policy else {
        let mut message = format!("{} has no bucket policy", facts.bucket);
        if facts.acls_disabled == Fact::Known(true) {
            message.push_str(", and ACLs are disabled there, so that a public ACL does nothing");
        }
        return Some(finding("s3-no-bucket-policy", Severity::Error, message, remedy));
    };
    let (message, remedy) = match reading(policy, &arn) {
        PolicyVerdict::Allowed => return None,
        PolicyVerdict::Denied => (
            format!("the bucket policy denies it: a statement with Deny meets {arn}"),
            "remove it".to_owned(),
        ),
        PolicyVerdict::Conditional => (
            format!("the bucket policy allows {arn} only under a Condition"),
            "allow it without one: relying parties come from anywhere".to_owned(),
        ),
        PolicyVerdict::Unmentioned => {
            (format!("no statement of the bucket policy allows everybody to read {arn}"), remedy)
        }
    };
    Some(finding("s3-bucket-policy", Severity::Error, message, remedy))
}

fn unexplained(facts: &S3BucketFacts, stopped: &[&Document]) -> Finding {
    let answers = stopped.iter().map(|document| match &document.anonymous {
        Fact::Known(anonymous) => format!("{} answers {}", document.key, anonymous.status),
        Fact::Unread(why) => format!("{} does not answer ({why})", document.key),
        _ => format!("{} was not asked for", document.key),
    });
    let message = format!(
        "nobody can read {}: {}, and nothing that we may see explains it",
        facts.bucket,
        answers.collect::<Vec<_>>().join(", ")
    );
    let remedy =
        "look at what is named below as hidden, at the organisation's policies and at what lies in between";
    finding("s3-unexplained", Severity::Error, message, remedy)
}

fn hidden(facts: &S3BucketFacts) -> Vec<Finding> {
    let of_documents = facts.documents.iter().map(|document| ("the object", right(&document.object)));
    let facts = [
        ("the account's Block Public Access", right(&facts.account_block)),
        ("the bucket's Block Public Access", right(&facts.bucket_block)),
        ("the object ownership", right(&facts.acls_disabled)),
        ("the bucket policy", right(&facts.policy)),
    ];
    let hidden = facts.into_iter().chain(of_documents);
    let hidden = hidden.filter_map(|(what, right)| {
        let message = format!("{what} may not be looked at, so it may be what stops readers");
        Some(finding("s3-hidden", Severity::Warning, message, format!("grant {}", right?)))
    });
    hidden.collect()
}

fn right<T>(fact: &Fact<T>) -> Option<&'static str> {
    if let Fact::Hidden(right) = fact { Some(right) } else { None }
}

#[cfg(test)]
mod tests;
