//! Who is shown a token of the next key, as a policy file names it.

use std::path::PathBuf;

use chancery_core::profile::RelyingParty;
use chancery_core::rotation::DeclaredCanary;
use serde::Deserialize;

/// Whose tokens canaries are when nothing is said: an account that nobody has to make.
const USUAL_SUBJECT: &str = "system:serviceaccount:chancery-system:canary";

/// One relying party. Exactly one of `apiServer`, `sts` and `oidc` says how it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CanaryConfig {
    /// A name that no other one has.
    pub name: String,
    /// The row of the table of relying parties that it stands for.
    pub party: Option<RelyingParty>,
    /// `aud` of the tokens.
    pub audience: String,
    /// `sub` of the tokens.
    pub subject: Option<String>,
    api_server: Option<ApiServerConfig>,
    sts: Option<StsConfig>,
    oidc: Option<OidcConfig>,
}

/// A kube-apiserver that trusts the issuer, asked by a TokenReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiServerConfig {
    /// Credentials, address and authority.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it.
    pub context: Option<String>,
    /// Whose tokens canaries are, where the issuer is that cluster's own: it looks for the account.
    pub service_account: Option<ServiceAccountConfig>,
}

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountConfig {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A Security Token Service: AWS's, MinIO's, or another that knows `AssumeRoleWithWebIdentity`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StsConfig {
    /// Its endpoint.
    pub url: String,
    /// The role; MinIO may be without.
    pub role_arn: Option<String>,
    /// The authority of its certificate, PEM, where that is not one of this machine's.
    pub ca: Option<PathBuf>,
}

/// Any verifier that answers 401 or 403 to a token that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// What whoever has a good token may read.
    pub url: String,
    /// As of an STS.
    pub ca: Option<PathBuf>,
}

/// How one is asked.
#[derive(Clone, Copy, Debug)]
pub enum CanaryPlace<'a> {
    /// By a TokenReview.
    ApiServer(&'a ApiServerConfig),
    /// By an exchange.
    Sts(&'a StsConfig),
    /// By a read.
    Oidc(&'a OidcConfig),
}

impl CanaryConfig {
    /// What of it decides.
    ///
    /// # Errors
    /// What is missing, or there twice.
    pub fn declared(&self) -> Result<DeclaredCanary, CanaryConfigError> {
        let has_name = !self.name.is_empty() && self.name.bytes().all(|byte| byte.is_ascii_graphic());
        if !has_name {
            return Err(CanaryConfigError::Name(self.name.clone()));
        }
        let place = self.place()?;
        let has_account = matches!(place, CanaryPlace::ApiServer(server) if server.service_account.is_some());
        if has_account && self.subject.is_some() {
            return Err(CanaryConfigError::TwoSubjects(self.name.clone()));
        }
        if self.audience.is_empty() {
            return Err(CanaryConfigError::NoAudience(self.name.clone()));
        }
        // One that asks for its own accounts has the keys from its signer.
        let is_outside = matches!(place, CanaryPlace::ApiServer(_)) && !has_account;
        let of_its_kind = is_outside.then_some(RelyingParty::Kubernetes);
        Ok(DeclaredCanary { name: self.name.clone(), party: self.party.or(of_its_kind) })
    }

    /// How it is asked.
    ///
    /// # Errors
    /// When that is said twice, or not at all.
    pub fn place(&self) -> Result<CanaryPlace<'_>, CanaryConfigError> {
        let places = [
            self.api_server.as_ref().map(CanaryPlace::ApiServer),
            self.sts.as_ref().map(CanaryPlace::Sts),
            self.oidc.as_ref().map(CanaryPlace::Oidc),
        ];
        let mut named = places.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(place), None) => Ok(place),
            _ => Err(CanaryConfigError::OnePlace(self.name.clone())),
        }
    }

    /// `sub` of the tokens.
    pub fn subject(&self) -> String {
        let account = self.api_server.as_ref().and_then(|server| server.service_account.as_ref());
        match (account, &self.subject) {
            (Some(ServiceAccountConfig { namespace, name }), _) => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
            (None, Some(subject)) => subject.clone(),
            (None, None) => USUAL_SUBJECT.to_owned(),
        }
    }
}

/// What is wrong with what is said of one of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanaryConfigError {
    /// Its name.
    #[error("{0:?} is no name of a canary; expected letters, digits and signs without a space")]
    Name(String),
    /// Nowhere, or at several places.
    #[error("canary {0} is asked nowhere or in several ways; expected one of `apiServer`, `sts` and `oidc`")]
    OnePlace(String),
    /// For nobody.
    #[error("canary {0} has an empty `audience`; expected the one that the relying party takes tokens for")]
    NoAudience(String),
    /// Whose token.
    #[error("canary {0} has a `subject` and a `serviceAccount`, which is one; remove either")]
    TwoSubjects(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(yaml: &str) -> Result<(DeclaredCanary, String), String> {
        let config: CanaryConfig = serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
        config.declared().map(|declared| (declared, config.subject())).map_err(|error| error.to_string())
    }

    #[test]
    fn each_kind_is_read_and_an_api_server_is_one_of_kubernetes() {
        let read = |yaml: &str| {
            let (declared, subject) = declared(yaml).unwrap();
            (declared.party.map(RelyingParty::as_str), subject)
        };
        let usual = || USUAL_SUBJECT.to_owned();
        assert_eq!(
            read("{ name: b, apiServer: { kubeconfig: b.conf }, audience: b }"),
            (Some("kubernetes"), usual())
        );
        assert_eq!(
            read("{ name: a, apiServer: { serviceAccount: { namespace: n, name: c } }, audience: a }"),
            (None, "system:serviceaccount:n:c".to_owned())
        );
        let sts = "{ name: m, party: minio, sts: { url: 'https://m/', roleArn: r, ca: ca.pem }, audience: m, subject: s }";
        assert_eq!(read(sts), (Some("minio"), "s".to_owned()));
        assert_eq!(read("{ name: o, oidc: { url: 'https://o/' }, audience: o }"), (None, usual()));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (yaml, complaint) in [
            ("{ name: x, audience: x }", "canary x is asked nowhere"),
            ("{ name: x, audience: x, oidc: { url: 'https://o/' }, apiServer: {} }", "in several ways"),
            ("{ name: x, audience: '', oidc: { url: 'https://o/' } }", "empty `audience`"),
            ("{ name: 'x y', audience: x, oidc: { url: 'https://o/' } }", "no name of a canary"),
            (
                "{ name: x, audience: x, subject: s, apiServer: { serviceAccount: { namespace: n, name: c } } }",
                "remove either",
            ),
            ("{ name: x, audience: x, oidc: { url: 'https://o/' }, party: nobody }", "nobody"),
            ("{ name: x, audience: x, oidc: { url: 'https://o/', token: t } }", "token"),
        ] {
            let refused = declared(yaml).unwrap_err();
            assert!(refused.contains(complaint), "{refused}");
        }
    }
}
