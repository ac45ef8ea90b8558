//! A bucket of Google Cloud Storage: which control stops an anonymous reader.
//!
//! Sources: <https://docs.cloud.google.com/storage/docs/public-access-prevention>,
//! <https://docs.cloud.google.com/storage/docs/org-policy-constraints>,
//! <https://docs.cloud.google.com/resource-manager/docs/organization-policy/domain-restricted-sharing>,
//! <https://docs.cloud.google.com/storage/docs/caching> (an hour, where an object says nothing).

use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;

mod probe;

pub use probe::{Addresses, probe};

/// What Google serves a public object with that has no `Cache-Control` of its own.
const AN_HOUR: &str = "public, max-age=3600";

/// What was found. What could not be asked is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcsBucketFacts {
    /// The bucket's name.
    pub bucket: String,
    /// Whether the publisher's own credentials find both documents.
    pub published: Option<bool>,
    /// An anonymous reading of the JWKS from the bucket itself.
    pub direct: AnonymousAnswer,
    /// The same through the public URL, where that is another one.
    pub public: Option<AnonymousAnswer>,
    /// Settings of the bucket.
    pub settings: Option<GcsBucketSettings>,
    /// Who besides named accounts may read objects.
    pub members: Option<PublicMembers>,
    /// Whether the organization enforces public access prevention on the project.
    pub organization_prevents: Option<bool>,
    /// Whether the organization restricts to whom roles can be granted.
    pub organization_restricts_members: Option<bool>,
}

/// An anonymous reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousAnswer {
    /// What was asked for.
    pub url: String,
    /// The status; `None` when no answer came.
    pub status: Option<u16>,
    /// `Cache-Control` of the answer.
    pub cache_control: Option<String>,
    /// What the answer says of a cache that gave it: `Age`, `Via`.
    pub in_front: Option<String>,
}

/// Settings of a bucket (`iamConfiguration`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcsBucketSettings {
    /// `publicAccessPrevention` is `enforced`; otherwise it is inherited.
    pub prevention_enforced: bool,
    /// `uniformBucketLevelAccess`: objects have no access lists of their own.
    pub uniform_access: bool,
}

/// To whom the bucket's policy grants a role that reads objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublicMembers {
    /// `allUsers`.
    pub everybody: bool,
    /// `allAuthenticatedUsers`: whoever has an account of Google's, which no relying party uses.
    pub everybody_with_an_account: bool,
}

/// What the facts mean, the control that stops readers first.
pub fn explain(facts: &GcsBucketFacts) -> Vec<Finding> {
    let readable = |reading: &AnonymousAnswer| matches!(reading.status, Some(200..=299));
    let mut findings = match facts.direct.status {
        _ if readable(&facts.direct) => Vec::new(),
        // A private bucket behind something that has credentials is as it should be.
        _ if facts.public.as_ref().is_some_and(readable) => Vec::new(),
        _ if facts.published == Some(false) => vec![missing(facts)],
        Some(401 | 403) => private(facts),
        Some(404) => vec![missing(facts)],
        _ => vec![silent(&facts.direct)],
    };
    findings.extend(facts.public.as_ref().and_then(|public| in_front(facts, public)));
    let readings = facts.public.iter().chain([&facts.direct]);
    findings.extend(readings.into_iter().find_map(cached_an_hour));
    findings
}

/// The controls that keep the public out, the strongest first.
fn private(facts: &GcsBucketFacts) -> Vec<Finding> {
    let bucket = &facts.bucket;
    let mut findings = Vec::new();
    if facts.organization_prevents == Some(true) {
        findings.push(error(
            "gcs-organization-prevents-public-access",
            "the organization enforces constraints/storage.publicAccessPrevention on the project of the bucket".to_owned(),
            "ask who keeps the organization's policies for an exception of this project (it takes up to 10 minutes), or put a load balancer or CDN with credentials of its own in front".to_owned(),
        ));
    }
    if facts.settings.is_some_and(|settings| settings.prevention_enforced) {
        findings.push(error(
            "gcs-bucket-prevents-public-access",
            format!("public access prevention is enforced on the bucket {bucket}"),
            format!("`gcloud storage buckets update gs://{bucket} --no-public-access-prevention`"),
        ));
    }
    findings.extend(no_grant(facts));
    if findings.is_empty() {
        let unknown = facts.settings.is_none() || facts.members.is_none();
        let (message, remedy) = if unknown {
            (
                "an anonymous reader is refused, and the controls of the bucket may not be read",
                "run this with storage.buckets.get and storage.buckets.getIamPolicy on the bucket, and orgpolicy.policy.get on its project",
            )
        } else {
            (
                "an anonymous reader is refused, although the bucket grants everybody to read",
                "wait: a changed policy takes minutes; then look at deny policies and VPC Service Controls",
            )
        };
        findings.push(error("gcs-private", format!("{message} ({})", facts.direct.url), remedy.to_owned()));
    }
    findings
}

fn no_grant(facts: &GcsBucketFacts) -> Option<Finding> {
    let bucket = &facts.bucket;
    let members = facts.members.filter(|members| !members.everybody)?;
    let command = format!(
        "`gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=allUsers --role=roles/storage.objectViewer`"
    );
    if facts.organization_restricts_members == Some(true) {
        return Some(error(
            "gcs-organization-restricts-members",
            "the bucket grants nobody in public to read, and the organization allows roles for members of certain domains alone (constraints/iam.allowedPolicyMemberDomains)".to_owned(),
            format!("ask who keeps the organization's policies for an exception of this project; then {command}"),
        ));
    }
    let uniform = facts.settings.is_none_or(|settings| settings.uniform_access);
    let lists = if uniform { "" } else { ", and the access lists of its objects do not either" };
    let message = if members.everybody_with_an_account {
        format!(
            "the bucket {bucket} lets those read who have an account of Google's (allAuthenticatedUsers); relying parties have none"
        )
    } else {
        format!("the bucket {bucket} does not grant everybody (allUsers) to read objects{lists}")
    };
    Some(error("gcs-no-public-grant", message, command))
}

fn missing(facts: &GcsBucketFacts) -> Finding {
    match facts.published {
        Some(true) => error(
            "gcs-other-place",
            format!(
                "{} is not there for an anonymous reader, although the publisher finds it",
                facts.direct.url
            ),
            "compare `bucket`, `prefix` and `endpoint` with where the issuer URL leads".to_owned(),
        ),
        _ => error(
            "gcs-not-published",
            format!("the documents are not in the bucket {}", facts.bucket),
            "publish them: `chancery publish apply`".to_owned(),
        ),
    }
}

fn silent(reading: &AnonymousAnswer) -> Finding {
    let came = reading.status.map_or("no answer".to_owned(), |status| format!("status {status}"));
    error(
        "gcs-unreachable",
        format!("{came} came for {}", reading.url),
        "look at the network and the endpoint, and try again".to_owned(),
    )
}

/// What stands before the bucket, where that one is readable.
fn in_front(facts: &GcsBucketFacts, public: &AnonymousAnswer) -> Option<Finding> {
    let good = |reading: &AnonymousAnswer| matches!(reading.status, Some(200..=299));
    if good(public) {
        let cache = public.in_front.as_ref()?;
        return Some(Finding {
            rule: "gcs-cache-in-front",
            severity: Severity::Note,
            breaks: Vec::new(),
            message: format!("a cache in front answers for {} ({cache})", public.url),
            remedy: "let it keep documents no longer than their Cache-Control says".to_owned(),
        });
    }
    good(&facts.direct).then(|| {
        let came = public.status.map_or("no answer".to_owned(), |status| format!("status {status}"));
        error(
            "gcs-stopped-in-front",
            format!("{came} came for {}, although the bucket itself answers", public.url),
            "look at what stands before the bucket: load balancer, CDN, its path rules and its firewall"
                .to_owned(),
        )
    })
}

fn cached_an_hour(reading: &AnonymousAnswer) -> Option<Finding> {
    let came = reading.cache_control.as_deref()?;
    (came == AN_HOUR).then(|| Finding {
        rule: "gcs-cached-an-hour",
        severity: Severity::Warning,
        breaks: vec![RelyingParty::Kubernetes, RelyingParty::Common],
        message: format!("{} is served with {came:?}, which is Google's own for an object that says nothing", reading.url),
        remedy: "publish it with Chancery, which always says how long it may be kept; until then let no new key sign earlier than an hour after it was published".to_owned(),
    })
}

fn error(rule: &'static str, message: String, remedy: String) -> Finding {
    Finding { rule, severity: Severity::Error, breaks: RelyingParty::ALL.to_vec(), message, remedy }
}

#[cfg(test)]
mod tests;
