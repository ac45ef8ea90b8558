//! Asks what [`super::GcsBucketFacts`] hold. Changes nothing; what may not be asked stays unknown.

use std::sync::Arc;

use chancery_core::DocumentKind;
use http::header::{AGE, CACHE_CONTROL, VIA};
use http::{HeaderName, Method};
use serde_json::Value;

use super::{AnonymousAnswer, GcsBucketFacts, GcsBucketSettings, PublicMembers};
use crate::doctor::anonymous::{anonymous_read, header_text};
use crate::google::GoogleClient;
use crate::limits::ANONYMOUS_READ;
use crate::store::gcs::{GcsConnection, GcsStore};
use crate::target::GcsTarget;
use crate::{DocumentStore as _, StoreErrorKind};

/// Bucket settings and organization policies are behind no narrower scope that both take.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Roles that read objects. One of the project's own is taken for such a role: it was granted to the public.
const READING_ROLES: [&str; 7] = [
    "roles/storage.objectViewer",
    "roles/storage.objectUser",
    "roles/storage.objectAdmin",
    "roles/storage.admin",
    "roles/storage.legacyObjectReader",
    "roles/storage.legacyObjectOwner",
    "roles/viewer",
];

/// Where Google's APIs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// `https://storage.googleapis.com`
    pub storage: String,
    /// `https://orgpolicy.googleapis.com`
    pub organization_policy: String,
}

impl Addresses {
    /// Google's own; the target's endpoint for the bucket where it names one.
    pub fn of(target: &GcsTarget) -> Self {
        let storage = target.endpoint.as_deref().unwrap_or("https://storage.googleapis.com");
        Self {
            storage: storage.trim_end_matches('/').to_owned(),
            organization_policy: "https://orgpolicy.googleapis.com".to_owned(),
        }
    }
}

/// Collects the facts about a target. `public_url` is where relying parties read it, when that is not the bucket itself.
pub async fn probe(target: &GcsTarget, public_url: Option<&str>, addresses: &Addresses) -> GcsBucketFacts {
    let prefix = target.trimmed_prefix();
    let slash = if prefix.is_empty() { "" } else { "/" };
    let base = format!("{}/{}{slash}{prefix}", addresses.storage, target.bucket);
    let jwks = DocumentKind::Jwks.path();
    let mut facts = GcsBucketFacts {
        bucket: target.bucket.clone(),
        published: published(target).await,
        direct: anonymous(&format!("{base}/{jwks}")).await,
        ..GcsBucketFacts::default()
    };
    if let Some(url) = public_url.map(|url| url.trim_end_matches('/')).filter(|url| *url != base) {
        facts.public = Some(anonymous(&format!("{url}/{jwks}")).await);
    }
    let file = target.credentials_file.as_deref();
    let rest = (!target.anonymous).then(|| GoogleClient::new(file, SCOPE, &addresses.storage));
    if let Some(Ok(rest)) = rest {
        controls(&rest, addresses, &mut facts).await;
    }
    facts
}

/// Whether both documents are there; unknown where that may not be asked.
async fn published(target: &GcsTarget) -> Option<bool> {
    let store = GcsStore::new(Arc::new(GcsConnection::open(target).await.ok()?), target);
    let mut all = true;
    for kind in DocumentKind::ALL {
        match store.read(kind.path()).await {
            Ok(object) => all &= object.is_some(),
            Err(error) if error.kind == StoreErrorKind::NoSuchContainer => all = false,
            Err(_) => return None,
        }
    }
    Some(all)
}

async fn anonymous(url: &str) -> AnonymousAnswer {
    let unanswered = AnonymousAnswer { url: url.to_owned(), ..AnonymousAnswer::default() };
    let Ok(answer) = anonymous_read(url, ANONYMOUS_READ).await else { return unanswered };
    let header = |name: HeaderName| header_text(&answer, name.as_str());
    let age = header(AGE).map(|age| format!("Age: {age}"));
    AnonymousAnswer {
        status: Some(answer.status.as_u16()),
        cache_control: header(CACHE_CONTROL),
        in_front: age.or(header(VIA).map(|via| format!("Via: {via}"))),
        ..unanswered
    }
}

async fn controls(rest: &GoogleClient, addresses: &Addresses, facts: &mut GcsBucketFacts) {
    let get = async |url: String| rest.call(&Method::GET, &url, None).await.ok();
    let bucket = format!("{}/storage/v1/b/{}", addresses.storage, facts.bucket);
    facts.members = get(format!("{bucket}/iam")).await.map(|policy| members(&policy));
    let Some(found) = get(format!("{bucket}?fields=projectNumber,iamConfiguration")).await else { return };
    facts.settings = Some(settings(&found));
    let number = found.get("projectNumber").and_then(Value::as_str).unwrap_or_default();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit()) {
        return;
    }
    let Ok(rest) = rest.at(&addresses.organization_policy) else { return };
    let policy = async |constraint: &str| {
        let policies = format!("{}/v2/projects/{number}/policies", rest.endpoint());
        rest.call(&Method::GET, &format!("{policies}/{constraint}:getEffectivePolicy"), None).await.ok()
    };
    facts.organization_prevents =
        policy("storage.publicAccessPrevention").await.map(|found| enforces(&found));
    facts.organization_restricts_members =
        policy("iam.allowedPolicyMemberDomains").await.map(|found| restricts(&found));
}

fn settings(bucket: &Value) -> GcsBucketSettings {
    let setting = |path: &str| bucket.pointer(&format!("/iamConfiguration/{path}"));
    GcsBucketSettings {
        prevention_enforced: setting("publicAccessPrevention").and_then(Value::as_str) == Some("enforced"),
        uniform_access: setting("uniformBucketLevelAccess/enabled").and_then(Value::as_bool) == Some(true),
    }
}

fn members(policy: &Value) -> PublicMembers {
    let bindings = policy.get("bindings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let reads = |binding: &&Value| {
        let role = binding.get("role").and_then(Value::as_str).unwrap_or_default();
        READING_ROLES.contains(&role) || !role.starts_with("roles/")
    };
    let members = bindings.iter().filter(reads).filter_map(|binding| binding.get("members")?.as_array());
    let members: Vec<&str> = members.flatten().filter_map(Value::as_str).collect();
    PublicMembers {
        everybody: members.contains(&"allUsers"),
        everybody_with_an_account: members.contains(&"allAuthenticatedUsers"),
    }
}

/// Whether a boolean constraint is enforced (<https://docs.cloud.google.com/resource-manager/docs/reference/orgpolicy/rest/v2/organizations.policies>).
fn enforces(policy: &Value) -> bool {
    rules(policy).iter().any(|rule| rule.get("enforce").and_then(Value::as_bool) == Some(true))
}

/// Whether a list constraint allows less than everything.
fn restricts(policy: &Value) -> bool {
    let rules = rules(policy);
    let everything = |rule: &Value| rule.get("allowAll").and_then(Value::as_bool) == Some(true);
    !rules.is_empty() && !rules.iter().any(everything)
}

fn rules(policy: &Value) -> &[Value] {
    policy.pointer("/spec/rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn googles_answers_are_understood() {
        let bucket = json!({ "iamConfiguration": {
            "publicAccessPrevention": "enforced", "uniformBucketLevelAccess": { "enabled": true },
        } });
        assert_eq!(settings(&bucket), GcsBucketSettings { prevention_enforced: true, uniform_access: true });
        let inherited = json!({ "iamConfiguration": { "publicAccessPrevention": "inherited" } });
        assert_eq!(settings(&inherited), GcsBucketSettings::default());

        let grants = |role: &str, member: &str| {
            members(&json!({ "bindings": [{ "role": role, "members": [member] }] }))
        };
        assert!(grants("roles/storage.objectViewer", "allUsers").everybody);
        assert!(grants("projects/p/roles/reader", "allUsers").everybody);
        assert!(!grants("roles/storage.legacyBucketReader", "allUsers").everybody, "it only lists");
        assert!(!grants("roles/storage.objectViewer", "user:a@example.com").everybody);
        assert!(grants("roles/storage.objectViewer", "allAuthenticatedUsers").everybody_with_an_account);
        assert_eq!(members(&json!({})), PublicMembers::default());

        let policy = |rule: Value| json!({ "spec": { "rules": [rule] } });
        assert!(enforces(&policy(json!({ "enforce": true }))));
        assert!(!enforces(&policy(json!({ "enforce": false }))) && !enforces(&json!({})));
        assert!(restricts(&policy(json!({ "values": { "allowedValues": ["is:C01"] } }))));
        assert!(!restricts(&policy(json!({ "allowAll": true }))) && !restricts(&json!({})));
    }
}
