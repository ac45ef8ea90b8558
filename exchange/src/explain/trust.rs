//! The trust that makes a token pass. It always names the subject and the audience: an issuer alone is everybody's
//! workload (W-14).

use serde_json::{Value, json};

use super::Trust;
use crate::provider::azure::AzureProvider;
use crate::provider::google::GoogleProvider;
use crate::provider::{AwsProvider, Provider};
use crate::token::Claims;

pub(super) fn of(provider: &Provider, claims: &Claims) -> Option<Trust> {
    let (issuer, subject) = (claims.iss.as_deref()?, claims.sub.as_deref()?);
    match provider {
        Provider::Aws(aws) => role(aws, issuer, subject),
        Provider::Azure(azure) => Some(credential(azure, issuer, subject)),
        Provider::Google(google) => Some(pool(google, issuer, subject)),
        Provider::TokenExchange(_) | Provider::JwtBearer(_) | Provider::Direct(_) => None,
    }
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-idp_oidc.html>
fn role(aws: &AwsProvider, issuer: &str, subject: &str) -> Option<Trust> {
    let role = aws.role.as_ref()?;
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
