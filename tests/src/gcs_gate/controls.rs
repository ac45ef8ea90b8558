//! What decides over anonymous readers, and how the APIs show it.

use serde_json::{Value, json};

/// The project of the bucket.
const PROJECT: &str = "123456789012";

/// Each as Google has it at first, but for the grant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controls {
    /// The bucket's policy lets `allUsers` read objects.
    pub everybody_may_read: bool,
    /// Public access prevention is enforced on the bucket.
    pub bucket_prevents: bool,
    /// The same by `constraints/storage.publicAccessPrevention`.
    pub organization_prevents: bool,
    /// `constraints/iam.allowedPolicyMemberDomains` names domains.
    pub organization_restricts_members: bool,
}

impl Controls {
    pub(super) fn lets_everybody_read(self) -> bool {
        self.everybody_may_read && !self.bucket_prevents && !self.organization_prevents
    }

    /// What is shown at a path, and the right to see it.
    pub(super) fn shown(self, bucket: &str, path: &str) -> Option<(&'static str, Value)> {
        let policy = |constraint: &str, rule: Value| {
            let name = format!("projects/{PROJECT}/policies/{constraint}");
            ("orgpolicy.policy.get", json!({ "name": name, "spec": { "rules": [rule] } }))
        };
        let policies = format!("/v2/projects/{PROJECT}/policies/");
        if path == format!("/storage/v1/b/{bucket}") {
            let prevention = if self.bucket_prevents { "enforced" } else { "inherited" };
            let settings = json!({
                "publicAccessPrevention": prevention,
                "uniformBucketLevelAccess": { "enabled": true },
            });
            return Some((
                "storage.buckets.get",
                json!({ "projectNumber": PROJECT, "iamConfiguration": settings }),
            ));
        }
        if path == format!("/storage/v1/b/{bucket}/iam") {
            let member = if self.everybody_may_read { "allUsers" } else { "user:somebody@example.com" };
            let binding = json!({ "role": "roles/storage.objectViewer", "members": [member] });
            return Some(("storage.buckets.getIamPolicy", json!({ "bindings": [binding] })));
        }
        match path.strip_prefix(&policies)? {
            "storage.publicAccessPrevention:getEffectivePolicy" => Some(policy(
                "storage.publicAccessPrevention",
                json!({ "enforce": self.organization_prevents }),
            )),
            "iam.allowedPolicyMemberDomains:getEffectivePolicy" => {
                let rule = match self.organization_restricts_members {
                    true => json!({ "values": { "allowedValues": ["is:C0abc"] } }),
                    false => json!({ "allowAll": true }),
                };
                Some(policy("iam.allowedPolicyMemberDomains", rule))
            }
            _ => None,
        }
    }
}
