//! What a distribution takes to sign with our key from its first start: files, as values.
//!
//! One renderer per [`Distribution`], each a pure function from a [`ExportRequest`] to [`ExportFile`]s. The README beside
//! the files carries the kube-apiserver flags and the steps. [`chancery_files::place_below`] writes them.

use std::fmt;
use std::str::FromStr;

use chancery_core::{IssuerUrl, PublicKey};
use chancery_files::{Access, NewFile};
use zeroize::Zeroizing;

use crate::{Key, KeyError, PrivateKey};

mod accepted;
mod capi_secret;
mod flags;
mod k3s;
mod kind;
mod kubeadm;
mod name;
mod openshift;
mod readme;
mod yaml;

pub use name::{KubernetesName, KubernetesNameError};

/// The distributions that keys are exported for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// kubeadm: `pki/sa.key`, `pki/sa.pub` and a ClusterConfiguration v1beta4.
    Kubeadm,
    /// kind: the pair and a cluster configuration that mounts it.
    Kind,
    /// Cluster API: the Secret `<cluster>-sa` and a patch for the control plane.
    CapiSecret,
    /// k3s and RKE2: `server/tls/service.key` and a drop-in configuration.
    K3s,
    /// The OpenShift installer: `tls/` and `manifests/`.
    Openshift,
}

impl Distribution {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::Kubeadm, Self::Kind, Self::CapiSecret, Self::K3s, Self::Openshift];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kubeadm => "kubeadm",
            Self::Kind => "kind",
            Self::CapiSecret => "capi-secret",
            Self::K3s => "k3s",
            Self::Openshift => "openshift",
        }
    }

    /// Renders the files.
    ///
    /// # Errors
    /// When the distribution cannot take these keys or issuers, with the reason.
    pub fn render(self, request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
        match self {
            Self::Kubeadm => kubeadm::render(request),
            Self::Kind => kind::render(request),
            Self::CapiSecret => capi_secret::render(request),
            Self::K3s => k3s::render(request),
            Self::Openshift => openshift::render(request),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|distribution| distribution.as_str() == text);
        found.ok_or_else(|| DistributionError(text.to_owned()))
    }
}

/// A name that is no distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a format that is exported; expected kubeadm, kind, capi-secret, k3s or openshift")]
pub struct DistributionError(String);

/// What is to be exported.
#[derive(Debug)]
pub struct ExportRequest<'a> {
    /// The key that signs.
    pub signing_key: &'a PrivateKey,
    /// Further keys whose tokens are accepted, in order, without the signing key.
    pub further_keys: &'a [Key],
    /// The issuer that new tokens name.
    pub issuer: &'a IssuerUrl,
    /// Further issuers whose tokens are accepted, as during a migration.
    pub accepted_issuers: &'a [IssuerUrl],
    /// The name of the cluster.
    pub cluster: &'a KubernetesName,
    /// The namespace of the cluster's objects, for Cluster API.
    pub namespace: &'a KubernetesName,
    /// The absolute path of the folder that the files go to, for formats that name it.
    pub directory: &'a str,
}

impl ExportRequest<'_> {
    /// The public keys to verify with, the signing key's first.
    fn public_keys(&self) -> impl Iterator<Item = &PublicKey> {
        let further = self.further_keys.iter().map(Key::public_key);
        std::iter::once(self.signing_key.public_key()).chain(further)
    }

    /// The public keys as one file of several PEM blocks, which kube-apiserver reads whole.
    fn public_pems(&self) -> String {
        self.public_keys().map(PublicKey::to_pem).collect()
    }

    /// All issuers in flag order: the first signs.
    fn issuers(&self) -> impl Iterator<Item = &IssuerUrl> {
        std::iter::once(self.issuer).chain(self.accepted_issuers)
    }
}

/// A file of an export.
pub struct ExportFile {
    /// Relative to the folder of the export, with `/`.
    pub path: String,
    /// Who may read it.
    pub access: Access,
    /// Its content.
    pub bytes: Zeroizing<Vec<u8>>,
}

impl ExportFile {
    fn private(path: impl Into<String>, text: &str) -> Self {
        let bytes = Zeroizing::new(text.as_bytes().to_vec());
        Self { path: path.into(), access: Access::Private, bytes }
    }

    fn public(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), access: Access::Public, bytes: Zeroizing::new(text.into()) }
    }
}

impl From<ExportFile> for NewFile {
    fn from(file: ExportFile) -> Self {
        Self { path: file.path.into(), access: file.access, bytes: file.bytes }
    }
}

impl fmt::Debug for ExportFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ExportFile");
        shown.field("path", &self.path).field("access", &self.access).finish_non_exhaustive()
    }
}

/// Why an export cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The distribution takes RSA alone.
    #[error(
        "key {key_id} is {kind}, and {distribution} takes RSA keys alone; make one with `chancery keygen new --algorithm rsa-2048`"
    )]
    RsaOnly {
        /// Who refuses.
        distribution: &'static str,
        /// The key.
        key_id: String,
        /// Its kind.
        kind: String,
    },
    /// The distribution keeps private keys, and one is given as a public key.
    #[error(
        "key {key_id} is given as a public key, and {distribution} keeps the keys it verifies with as private keys; give the file of its private key"
    )]
    PrivateHalfNeeded {
        /// Who refuses.
        distribution: &'static str,
        /// The key.
        key_id: String,
    },
    /// The distribution takes one key.
    #[error(
        "{given} keys are given, and {distribution} takes one at installation; give the signing key alone, the operator keeps the list from then on"
    )]
    OneKeyOnly {
        /// Who refuses.
        distribution: &'static str,
        /// How many came.
        given: usize,
    },
    /// The distribution takes one issuer.
    #[error("{distribution} takes one issuer; give no --accepted-issuer")]
    OneIssuerOnly {
        /// Who refuses.
        distribution: &'static str,
    },
    /// The key could not be encoded.
    #[error(transparent)]
    Key(#[from] KeyError),
}

#[cfg(test)]
mod tests;
