//! A registration as configuration and arguments name it, and how it becomes a registrar.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use chancery_core::trust::aws::USUAL_AUDIENCE;
use chancery_core::trust::azure::{Cloud, Identity};
use chancery_core::trust::gcp::names::{Project, ResourceId};
use chancery_core::{IssuerUrl, Jwks, Owner};
use serde::{Deserialize, Deserializer, de};

use super::{Registrar, TrustError};
use crate::target::AzureCredential;

/// One cloud that is to trust an issuer. Exactly one of the clouds is given.
///
/// ```yaml
/// - aws:
///     region: eu-central-1
/// - azure:
///     managedIdentity: /subscriptions/.../userAssignedIdentities/workloads
///     serviceAccounts: [demo/app]
/// - gcp:
///     project: my-project
///     pool: clusters
///     provider: cluster-a
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Registration {
    /// An IAM OIDC provider.
    pub aws: Option<AwsRegistration>,
    /// Federated identity credentials of Microsoft Entra.
    pub azure: Option<AzureRegistration>,
    /// A workload identity pool and its OIDC provider.
    pub gcp: Option<GcpRegistration>,
}

/// The IAM OIDC provider of an AWS account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct AwsRegistration {
    /// Audiences of the tokens that AWS takes.
    pub audiences: Vec<String>,
    /// The mark of what is ours, as the tag `chancery-owner`; derived from the issuer URL when missing.
    #[serde(deserialize_with = "optional")]
    pub owner: Option<Owner>,
    /// Whether a provider without that tag is taken over.
    pub adopt: bool,
    /// SHA-1 digests in hex; only for an issuer whose certificate leads to no public root.
    pub thumbprints: Vec<String>,
    /// A region of the account's partition; that of the environment or the profile, otherwise `us-east-1`.
    pub region: Option<String>,
    /// A profile of the AWS configuration.
    pub profile: Option<String>,
    /// Another server than Amazon's for both IAM and STS.
    pub endpoint: Option<String>,
}

impl Default for AwsRegistration {
    fn default() -> Self {
        Self {
            audiences: vec![USUAL_AUDIENCE.to_owned()],
            owner: None,
            adopt: false,
            thumbprints: Vec::new(),
            region: None,
            profile: None,
            endpoint: None,
        }
    }
}

/// Federated identity credentials of one identity. Exactly one of `managedIdentity` and `application` is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AzureRegistration {
    /// ServiceAccounts whose tokens are trusted, `NAMESPACE/NAME`.
    pub service_accounts: Vec<ServiceAccount>,
    /// The resource id of a user-assigned managed identity.
    #[serde(default)]
    pub managed_identity: Option<String>,
    /// The client id of an application.
    #[serde(default)]
    pub application: Option<String>,
    /// `public`, `us-government` or `china`.
    #[serde(default, deserialize_with = "parsed")]
    pub cloud: Cloud,
    /// The audience of the tokens; the cloud's own when missing.
    #[serde(default)]
    pub audience: Option<String>,
    /// Azure Resource Manager or Microsoft Graph; the cloud's own when missing.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// Where credentials come from; what the environment is made for when missing.
    #[serde(default)]
    pub credential: Option<AzureCredential>,
}

/// A ServiceAccount, `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ServiceAccount(String);

impl ServiceAccount {
    /// The `sub` of its tokens.
    pub fn subject(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServiceAccount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self(format!("system:serviceaccount:{namespace}:{name}")))
            }
            _ => Err(format!("{text:?} came; expected NAMESPACE/NAME of a ServiceAccount")),
        }
    }
}

impl TryFrom<String> for ServiceAccount {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// A workload identity pool and its OIDC provider, made when there are none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GcpRegistration {
    /// Id or number of the project.
    pub project: Project,
    /// Id of the pool.
    pub pool: ResourceId,
    /// Id of the provider in it.
    pub provider: ResourceId,
    /// Audiences that tokens may have, up to 10; the provider's own name when empty.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// Whether the keys are uploaded, for an issuer that Google cannot read.
    #[serde(default)]
    pub upload_keys: bool,
    /// The mark in the descriptions; derived from the issuer URL when missing.
    #[serde(default, deserialize_with = "optional")]
    pub owner: Option<Owner>,
    /// A file of credentials as gcloud writes them; Application Default Credentials when missing.
    #[serde(default)]
    pub credentials_file: Option<PathBuf>,
    /// Another address than Google's.
    #[serde(default)]
    pub endpoint: Option<String>,
}

impl Registration {
    /// What a person calls the cloud.
    ///
    /// # Errors
    /// When none is given or more than one.
    pub fn cloud(&self) -> Result<&'static str, TrustError> {
        match (&self.aws, &self.azure, &self.gcp) {
            (Some(_), None, None) => Ok("aws"),
            (None, Some(_), None) => Ok("azure"),
            (None, None, Some(_)) => Ok("gcp"),
            _ => Err(TrustError::Unreachable {
                what: "a registration names no cloud or several".to_owned(),
                remedy: "expected exactly one of `aws`, `azure` and `gcp`",
            }),
        }
    }

    /// Lets relative paths start at `folder`.
    pub fn start_paths_at(&mut self, folder: &Path) {
        let files = self.gcp.iter_mut().filter_map(|gcp| gcp.credentials_file.as_mut());
        files.for_each(|path| *path = folder.join(&*path));
    }

    /// Who registers `issuer`, whose keys are `jwks`. Nobody is asked yet.
    ///
    /// # Errors
    /// When the credentials cannot be used, or this build lacks the cloud.
    pub async fn registrar(
        &self,
        issuer: &IssuerUrl,
        jwks: Option<&Jwks>,
    ) -> Result<Box<dyn Registrar>, TrustError> {
        self.cloud()?;
        match (&self.aws, &self.azure, &self.gcp) {
            (Some(aws), ..) => aws.registrar(issuer).await,
            (_, Some(azure), _) => azure.registrar(issuer),
            (_, _, Some(gcp)) => gcp.registrar(issuer, jwks),
            (None, None, None) => Err(not_built("a cloud")),
        }
    }
}

impl AwsRegistration {
    /// Who registers `issuer`. Nobody is asked yet.
    ///
    /// # Errors
    /// When there is no source of credentials.
    #[cfg(feature = "s3")]
    pub async fn registrar(&self, issuer: &IssuerUrl) -> Result<Box<dyn Registrar>, TrustError> {
        use super::aws::{AwsOptions, AwsRegistrar};
        let wanted = chancery_core::trust::aws::Wanted {
            issuer: issuer.clone(),
            audiences: self.audiences.clone(),
            owner: self.owner.clone().unwrap_or_else(|| Owner::of_issuer(issuer)),
            thumbprints: self.thumbprints.clone(),
            adopt: self.adopt,
        };
        let options = AwsOptions {
            region: self.region.clone(),
            profile: self.profile.clone(),
            endpoint: self.endpoint.clone(),
        };
        Ok(Box::new(AwsRegistrar::connect(wanted, &options).await?))
    }

    #[cfg(not(feature = "s3"))]
    async fn registrar(&self, _: &IssuerUrl) -> Result<Box<dyn Registrar>, TrustError> {
        Err(not_built("aws"))
    }
}

impl AzureRegistration {
    /// Who registers `issuer`. Nobody is asked yet.
    ///
    /// # Errors
    /// When the identity or the credentials cannot be used.
    #[cfg(feature = "azure")]
    pub fn registrar(&self, issuer: &IssuerUrl) -> Result<Box<dyn Registrar>, TrustError> {
        use crate::target::AzureIdentity;
        let (identity, endpoint) = self.identity()?;
        let wanted = chancery_core::trust::azure::Wanted {
            issuer: issuer.clone(),
            subjects: self.service_accounts.iter().map(|account| account.subject().to_owned()).collect(),
            audience: self.audience.clone().unwrap_or_else(|| self.cloud.audience().to_owned()),
            identity,
            endpoint: self.endpoint.clone().unwrap_or(endpoint),
        };
        let credentials = AzureIdentity { credential: self.credential, ..AzureIdentity::default() };
        Ok(Box::new(super::azure::AzureRegistrar::connect(wanted, self.cloud, &credentials)?))
    }

    #[cfg(not(feature = "azure"))]
    fn registrar(&self, _: &IssuerUrl) -> Result<Box<dyn Registrar>, TrustError> {
        self.identity()?;
        Err(not_built("azure"))
    }

    /// The identity, and where it is registered by default.
    fn identity(&self) -> Result<(Identity, String), TrustError> {
        let illegal = |what: String| TrustError::Unreachable {
            what,
            remedy: "name either a managed identity by its resource id or an application by its client id",
        };
        match (&self.managed_identity, &self.application) {
            (Some(id), None) => {
                let identity = Identity::managed(id).map_err(|problem| illegal(problem.to_string()))?;
                Ok((identity, self.cloud.management().to_owned()))
            }
            (None, Some(id)) => {
                let identity = Identity::application(id).map_err(|problem| illegal(problem.to_string()))?;
                Ok((identity, self.cloud.graph().to_owned()))
            }
            _ => Err(illegal("no identity is given, or two".to_owned())),
        }
    }
}

impl GcpRegistration {
    /// Who registers `issuer`, whose keys are `jwks`. Nobody is asked yet.
    ///
    /// # Errors
    /// When the credentials or the endpoint cannot be used.
    #[cfg(feature = "gcp")]
    pub fn registrar(
        &self,
        issuer: &IssuerUrl,
        jwks: Option<&Jwks>,
    ) -> Result<Box<dyn Registrar>, TrustError> {
        let wanted = chancery_core::trust::gcp::Wanted {
            issuer: issuer.clone(),
            owner: self.owner.clone().unwrap_or_else(|| Owner::of_issuer(issuer)),
            project: self.project.clone(),
            pool: self.pool.clone(),
            provider: self.provider.clone(),
            audiences: self.audiences.clone(),
            jwks: jwks.filter(|_| self.upload_keys).cloned(),
        };
        let endpoint = self.endpoint.as_deref().unwrap_or(chancery_core::trust::gcp::ENDPOINT);
        Ok(Box::new(super::gcp::GcpRegistrar::connect(wanted, self.credentials_file.as_deref(), endpoint)?))
    }

    #[cfg(not(feature = "gcp"))]
    fn registrar(&self, _: &IssuerUrl, _: Option<&Jwks>) -> Result<Box<dyn Registrar>, TrustError> {
        Err(not_built("gcp"))
    }
}

fn not_built(cloud: &str) -> TrustError {
    TrustError::Unreachable {
        what: format!("this build cannot reach {cloud}"),
        remedy: "build with the cloud's feature",
    }
}

fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: std::fmt::Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Owner>, D::Error> {
    parsed(deserializer).map(Some)
}
