//! Relying parties, and what each one accepts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A kind of relying party: whoever verifies our tokens with the keys we publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum RelyingParty {
    /// Another kube-apiserver, by structured authentication (KEP-3331) or the `--oidc-*` flags.
    Kubernetes,
    /// AWS: an IAM OIDC provider and STS `AssumeRoleWithWebIdentity`.
    Aws,
    /// Azure: an Entra federated identity credential.
    Azure,
    /// Google Cloud: a workload identity pool provider.
    Gcp,
    /// HashiCorp Vault or OpenBao, JWT auth method.
    Vault,
    /// MinIO STS `AssumeRoleWithWebIdentity`.
    Minio,
    /// The common denominator: what every relying party we know takes, including those we have no profile of.
    Common,
}

impl RelyingParty {
    /// All relying parties, in the order in which they are printed.
    pub const ALL: [Self; 7] =
        [Self::Kubernetes, Self::Aws, Self::Azure, Self::Gcp, Self::Vault, Self::Minio, Self::Common];

    /// The lower-case name, as it is given on the command line and in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::Vault => "vault",
            Self::Minio => "minio",
            Self::Common => "common",
        }
    }
}

impl fmt::Display for RelyingParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RelyingParty {
    type Err = RelyingPartyError;

    /// Reads a name as [`RelyingParty::as_str`] writes it; `openbao` is another name of `vault`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|party| party.as_str() == text);
        known
            .or_else(|| (text == "openbao").then_some(Self::Vault))
            .ok_or_else(|| RelyingPartyError(text.to_owned()))
    }
}

impl TryFrom<String> for RelyingParty {
    type Error = RelyingPartyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RelyingParty> for &'static str {
    fn from(party: RelyingParty) -> Self {
        party.as_str()
    }
}

/// A name that is none of [`RelyingParty::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "relying party {0:?} is not known; expected one of kubernetes, aws, azure, gcp, vault (or openbao), minio, common"
)]
pub struct RelyingPartyError(String);
