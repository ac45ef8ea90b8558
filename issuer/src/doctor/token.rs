//! A token minted now, held against what the world sees.
//!
//! kube-apiserver signs with the issuer that comes first in its flags and with the key that comes first in its files; a
//! control plane whose flags were put in another order breaks every federation at once, and no document shows it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_cluster::access::ClusterChoice;
use chancery_core::lint::Finding;
use chancery_core::{IssuerUrl, KeyId};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde::Deserialize;

use super::sources::finding;
use super::{Look, Workload};
use crate::config::IssuerConfig;
use crate::source::SourceKind;

/// The audience of the token that is dropped: nobody takes it.
const AUDIENCE: &str = "chancery-doctor";
/// The shortest life that kube-apiserver gives a token, in seconds.
const LIFETIME: i64 = 600;

/// What of a token can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Minted {
    issuer: String,
    kid: String,
    algorithm: String,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    kid: String,
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
}

/// Mints a token and compares it.
pub(super) async fn look(
    config: &IssuerConfig,
    base: &Path,
    workload: Option<&Workload>,
    visible: &[KeyId],
) -> Look {
    let Some(workload) = workload else {
        let seen = "none was minted; say `--mint NAMESPACE/SERVICEACCOUNT`".to_owned();
        return Look { subject: "token".to_owned(), seen, findings: Vec::new() };
    };
    let Workload { namespace, service_account } = workload;
    let subject = format!("token of {namespace}/{service_account}");
    match mint(config, base, workload).await {
        Ok(minted) => {
            let seen = format!("{} signed with {} by {}", minted.algorithm, minted.kid, minted.issuer);
            Look { subject, seen, findings: judge(&minted, &config.url, visible) }
        }
        Err(problem) => {
            let remedy = "give this user `create` on `serviceaccounts/token` in that namespace, and name a ServiceAccount that exists";
            let findings = vec![finding("token-not-minted", problem, remedy)];
            Look { subject, seen: "not minted".to_owned(), findings }
        }
    }
}

async fn mint(config: &IssuerConfig, base: &Path, workload: &Workload) -> Result<Minted, String> {
    let kubeconfig = config.sources.iter().find_map(|source| match &source.value.kind {
        SourceKind::KubeApiserver(source) => Some((source.kubeconfig.as_deref(), source.context.as_deref())),
        _ => None,
    });
    let (kubeconfig, context) = kubeconfig.unwrap_or_default();
    let client = ClusterChoice { kubeconfig, context, base }.client().await;
    let client = client.map_err(|e| crate::error_chain(&e))?;
    let api: Api<ServiceAccount> = Api::namespaced(client, &workload.namespace);
    let spec = TokenRequestSpec {
        audiences: vec![AUDIENCE.to_owned()],
        expiration_seconds: Some(LIFETIME),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = api.create_token_request(&workload.service_account, &PostParams::default(), &request).await;
    let status = answer.map_err(|error| format!("no token was minted: {error}"))?.status;
    read(&status.map(|status| status.token).unwrap_or_default())
}

/// Reads what can be shown of a token, which itself must never be.
fn read(token: &str) -> Result<Minted, String> {
    let mut parts = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap_or_default());
    let mut next = || parts.next().unwrap_or_default();
    let (header, claims) =
        (serde_json::from_slice::<Header>(&next()), serde_json::from_slice::<Claims>(&next()));
    let (Ok(Header { kid, alg: algorithm }), Ok(Claims { iss: issuer })) = (header, claims) else {
        return Err("the cluster answered with something that is no JWT".to_owned());
    };
    Ok(Minted { issuer, kid, algorithm })
}

fn judge(minted: &Minted, issuer: &IssuerUrl, visible: &[KeyId]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if minted.issuer != issuer.as_str() {
        let message = format!("tokens name the issuer {}; expected {issuer}, byte for byte", minted.issuer);
        let remedy = "put the issuer URL first among kube-apiserver's --service-account-issuer flags: the first one is the `iss` of new tokens";
        findings.push(finding("token-issuer-differs", message, remedy));
    }
    if !visible.iter().any(|kid| kid.as_str() == minted.kid) {
        let message = format!("tokens are signed with the key {}, which no relying party sees", minted.kid);
        let remedy = "publish the public half of the signing key before it signs; until then, sign with a key that is visible";
        findings.push(finding("token-key-invisible", message, remedy));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        [header, claims, "signature"].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    #[test]
    fn issuer_and_key_must_be_those_that_the_world_sees() {
        let kid: KeyId = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap();
        let issuer: IssuerUrl = "https://id.example.com/a".parse().unwrap();
        let rules = |minted: &Minted, visible: &[KeyId]| -> Vec<&str> {
            judge(minted, &issuer, visible).iter().map(|finding| finding.rule).collect()
        };
        let good = read(&token(
            &format!(r#"{{"alg":"RS256","kid":"{kid}"}}"#),
            r#"{"iss":"https://id.example.com/a","sub":"x"}"#,
        ))
        .unwrap();
        assert_eq!(rules(&good, std::slice::from_ref(&kid)), Vec::<&str>::new());
        assert_eq!(rules(&good, &[]), ["token-key-invisible"]);
        let slash = Minted { issuer: "https://id.example.com/a/".to_owned(), ..good };
        assert_eq!(rules(&slash, &[kid]), ["token-issuer-differs"]);
    }

    #[test]
    fn what_is_no_token_is_not_repeated() {
        for bad in ["", "secret", "c2VjcmV0.c2VjcmV0.x", &token("{}", "{}")] {
            let error = read(bad).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
