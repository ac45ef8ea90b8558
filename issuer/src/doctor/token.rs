//! A token minted now, held against what the world sees.
//!
//! kube-apiserver signs with the issuer that comes first in its flags and with the key that comes first in its files; a
//! control plane whose flags were put in another order breaks every federation at once, and no document shows it.

use std::path::Path;

use chancery_cluster::access::ClusterChoice;
use chancery_core::lint::Finding;
use chancery_core::token::TokenFacts;
use chancery_core::{IssuerUrl, KeyId};

use super::sources::finding;
use super::{Look, Workload};
use crate::config::IssuerConfig;
use crate::minted_token::mint as mint_token;
use crate::source::SourceKind;

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
    let subject = format!("token of {workload}");
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

async fn mint(config: &IssuerConfig, base: &Path, workload: &Workload) -> Result<TokenFacts, String> {
    let kubeconfig = config.sources.iter().find_map(|source| match &source.value.kind {
        SourceKind::KubeApiserver(source) => Some((source.kubeconfig.as_deref(), source.context.as_deref())),
        _ => None,
    });
    let (kubeconfig, context) = kubeconfig.unwrap_or_default();
    let client = ClusterChoice { kubeconfig, context, base }.client().await;
    let client = client.map_err(|e| crate::error_chain(&e))?;
    mint_token(client, workload).await
}

fn judge(minted: &TokenFacts, issuer: &IssuerUrl, visible: &[KeyId]) -> Vec<Finding> {
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

    #[test]
    fn issuer_and_key_must_be_those_that_the_world_sees() {
        let kid: KeyId = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap();
        let issuer: IssuerUrl = "https://id.example.com/a".parse().unwrap();
        let rules = |minted: &TokenFacts, visible: &[KeyId]| -> Vec<&str> {
            judge(minted, &issuer, visible).iter().map(|finding| finding.rule).collect()
        };
        let good = TokenFacts {
            issuer: issuer.to_string(),
            kid: kid.to_string(),
            algorithm: "RS256".to_owned(),
            ..TokenFacts::default()
        };
        assert_eq!(rules(&good, std::slice::from_ref(&kid)), Vec::<&str>::new());
        assert_eq!(rules(&good, &[]), ["token-key-invisible"]);
        let slash = TokenFacts { issuer: "https://id.example.com/a/".to_owned(), ..good };
        assert_eq!(rules(&slash, &[kid]), ["token-issuer-differs"]);
    }
}
