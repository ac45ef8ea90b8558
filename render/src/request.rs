//! What is asked for.

use std::fmt;
use std::str::FromStr;

use chancery_core::{IssuerUrl, PublicKey};
use serde::Serialize;

use crate::name::KubernetesName;
use crate::version::Version;

/// What is to be rendered, for one distribution.
#[derive(Clone, Debug)]
pub struct Request {
    /// The distribution's version; without one, its newest form is taken.
    pub version: Option<Version>,
    /// The issuer that the cluster has, or shall have.
    pub issuer: IssuerUrl,
    /// Where the cluster stands.
    pub stage: Stage,
    /// The public keys, if the files are to hold them.
    pub keys: Option<Keys>,
    /// Audiences that kube-apiserver takes beside its issuers. Empty: `--api-audiences` stays what it is.
    pub audiences: Vec<String>,
    /// Names and folders.
    pub place: Place,
}

/// Where the cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is made with the issuer.
    New {
        /// Further issuers whose tokens are accepted, in order.
        accepted: Vec<String>,
    },
    /// It runs, and is to have another issuer.
    Change {
        /// The issuer that it signs for before the change, and further ones that it accepts; as the flags have them.
        from: Vec<String>,
        /// `--service-account-jwks-uri` before the change, if it is set.
        from_jwks_uri: Option<String>,
        /// How far the change goes.
        phase: Phase,
    },
}

/// The phases of a change that kube-apiserver takes part in, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Both issuers and keys are accepted; the old ones sign.
    Accept,
    /// Both are accepted; the new ones sign.
    Switch,
    /// The same, until the last token of the old ones is dead.
    Wait,
    /// The new ones alone.
    Drop,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Accept, Self::Switch, Self::Wait, Self::Drop];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Switch => "switch",
            Self::Wait => "wait",
            Self::Drop => "drop",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Phase {
    type Err = PhaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|phase| phase.as_str() == text);
        found.ok_or_else(|| PhaseError(text.to_owned()))
    }
}

/// A name that is no phase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a phase; expected accept, switch, wait or drop, in this order")]
pub struct PhaseError(String);

/// The public keys of a cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The one that signs, or shall sign.
    pub new: PublicKey,
    /// Those that signed before, the one that signs today first; and of a new cluster further ones that are accepted.
    pub old: Vec<PublicKey>,
}

/// Names and folders.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name of the cluster.
    pub cluster: KubernetesName,
    /// The namespace of the cluster's objects.
    pub namespace: KubernetesName,
    /// The absolute path of the folder on this machine that the files go to.
    pub directory: String,
    /// The folder of the key files on a control-plane node, where it is not given by the distribution.
    pub key_directory: String,
}
