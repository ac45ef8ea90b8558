//! The trust that makes a token pass. It always names the subject and the audience: an issuer alone is everybody's
//! workload (W-14).

use serde_json::{Value, json};

use super::Trust;
use crate::provider::azure::AzureProvider;
use crate::provider::google::GoogleProvider;
use crate::provider::template::preset::Preset;
use crate::provider::{AwsProvider, HttpTemplate, Provider};
use crate::token::Claims;

pub(super) fn of(provider: &Provider, claims: &Claims) -> Option<Trust> {
    let (issuer, subject) = (claims.iss.as_deref()?, claims.sub.as_deref()?);
    match provider {
        Provider::Aws(aws) => role(aws, issuer, subject),
        Provider::Azure(azure) => Some(credential(azure, issuer, subject)),
        Provider::Google(google) => Some(pool(google, issuer, subject)),
        Provider::Template(template) => template_trust(template, issuer, subject),
        Provider::TokenExchange(_) | Provider::JwtBearer(_) | Provider::Direct(_) => None,
    }
}

fn template_trust(template: &HttpTemplate, issuer: &str, subject: &str) -> Option<Trust> {
    let (server, params) = (template.server.base(), &template.values.params);
    let param = |name: &str| params.get(name).map_or("", String::as_str);
    let (what, policy) = match template.preset? {
        Preset::Quay => {
            let (organisation, robot) = template.values.username.split_once('+')?;
            (
                format!("POST {server}/api/v1/organization/{organisation}/robots/{robot}/federation"),
                json!([{ "issuer": issuer, "subject": subject }]),
            )
        }
        Preset::JFrog => (
            format!("POST {server}/access/api/v1/oidc/{}/identity_mappings", param("provider")),
            json!({ "name": "app", "priority": 1, "claims": { "iss": issuer, "sub": subject, "aud": template.audience }, "token_spec": { "username": "USER", "scope": "applied-permissions/user", "expires_in": 3600 } }),
        ),
        Preset::OctoSts => (
            format!(".github/chainguard/{}.sts.yaml in {}", param("identity"), param("scope")),
            json!({ "issuer": issuer, "subject": subject, "audience": template.audience, "permissions": { "contents": "read" } }),
        ),
        Preset::Vault => (
            format!("POST {server}/v1/auth/{}/role/{}", param("mount"), param("role")),
            json!({ "role_type": "jwt", "user_claim": "sub", "bound_subject": subject, "bound_audiences": [template.audience], "token_policies": ["POLICY"] }),
        ),
    };
    Some(Trust { what, text: pretty(&policy) })
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-idp_oidc.html>
fn role(aws: &AwsProvider, issuer: &str, subject: &str) -> Option<Trust> {
    let role = aws.role.as_ref()?;
    if role.partition() == "minio" {
        return Some(minio(aws, issuer));
    }
    let name = issuer.strip_prefix("https://").unwrap_or(issuer);
    let provider = format!("arn:{}:iam::{}:oidc-provider/{name}", role.partition(), role.account());
    let (aud, sub) = (format!("{name}:aud"), format!("{name}:sub"));
    let policy = json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Principal": { "Federated": provider },
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": { "StringEquals": { aud: aws.audience, sub: subject } },
        }],
    });
    Some(Trust {
        what: format!("trust policy of the role {} (the provider itself: `chancery trust aws`)", role.name()),
        text: pretty(&policy),
    })
}

/// A role of MinIO's is for an audience of an issuer, whoever the subject is
/// (<https://min.io/docs/minio/linux/reference/minio-server/settings/iam/openid.html>).
fn minio(aws: &AwsProvider, issuer: &str) -> Trust {
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    let setting = |name: &str, value: &str| format!("MINIO_IDENTITY_OPENID_{name}_CHANCERY={value}");
    let settings = [
        setting("CONFIG_URL", &format!("{base}/.well-known/openid-configuration")),
        setting("CLIENT_ID", &aws.audience),
        setting("ROLE_POLICY", "POLICY"),
    ];
    Trust {
        what: "variables of MinIO's server; every workload that has this audience gets the policy, so give each policy an audience of its own"
            .to_owned(),
        text: settings.join("\n"),
    }
}

/// <https://learn.microsoft.com/entra/workload-id/workload-identity-federation-create-trust>
fn credential(azure: &AzureProvider, issuer: &str, subject: &str) -> Trust {
    let parameters =
        json!({ "name": "chancery", "issuer": issuer, "subject": subject, "audiences": [azure.audience] });
    Trust {
        what: format!(
            "federated identity credential of {} (`az ad app federated-credential create --id {} --parameters @-`)",
            azure.client, azure.client
        ),
        text: pretty(&parameters),
    }
}

/// <https://docs.cloud.google.com/iam/docs/workload-identity-federation-with-kubernetes>
fn pool(google: &GoogleProvider, issuer: &str, subject: &str) -> Trust {
    let audiences = match &google.audience {
        Some(audience) => vec![audience.clone()],
        None => vec![google.provider.token_audience()],
    };
    let provider = json!({
        "oidc": { "issuerUri": issuer, "allowedAudiences": audiences },
        "attributeMapping": { "google.subject": "assertion.sub" },
    });
    let principal = format!("principal://iam.googleapis.com/{}/subject/{subject}", google.provider.pool());
    let binding = match &google.impersonation {
        Some(impersonation) => json!({
            "serviceAccount": impersonation.email.as_str(),
            "role": "roles/iam.workloadIdentityUser",
            "members": [principal],
        }),
        None => json!({ "role": "the role that the workload needs", "members": [principal] }),
    };
    Trust {
        what: format!("provider {} and the binding of its principal", google.provider),
        text: pretty(&json!({ "provider": provider, "binding": binding })),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
