//! What a distribution takes to sign with our key from its first start: files, as values.
//!
//! What holds no private key is rendered by [`chancery_render`], with the flags and the steps; here the files with the
//! private half are added, in the form in which each [`Distribution`] takes it. [`chancery_files::place_below`] writes
//! them.

use std::fmt;
use std::str::FromStr;

use chancery_core::{IssuerUrl, PublicKey};
use chancery_files::{Access, NewFile};
use chancery_render::{Keys, Place, RenderError, Request, Stage, readme};
pub use chancery_render::{KubernetesName, KubernetesNameError};
use zeroize::Zeroizing;

use crate::{Key, KeyError, PrivateKey};

mod capi_secret;
mod k3s;

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

    /// What is rendered beside the private files.
    fn rendered_as(self) -> &'static str {
        match self {
            Self::CapiSecret => "cluster-api",
            other => other.as_str(),
        }
    }

    /// Renders the files.
    ///
    /// # Errors
    /// When the distribution cannot take these keys or issuers, with the reason.
    pub fn render(self, request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
        if self == Self::Openshift && !request.further_keys.is_empty() {
            let given = request.further_keys.len() + 1;
            return Err(ExportError::OneKeyOnly { distribution: "the OpenShift installer", given });
        }
        let distribution = self.rendered_as().parse::<chancery_render::Distribution>()?;
        let public = request.public_request();
        let rendered = distribution.render(&public)?;
        let readme = ExportFile::public("README.md", readme::readme(&public, &rendered));
        let files = rendered.files.into_iter().map(|file| ExportFile::public(file.path, file.content));
        Ok(files.chain([self.private_file(request)?, readme]).collect())
    }

    fn private_file(self, request: &ExportRequest<'_>) -> Result<ExportFile, ExportError> {
        let path = match self {
            Self::CapiSecret => return capi_secret::secret(request),
            Self::K3s => return k3s::service_key(request),
            Self::Kubeadm => "pki/sa.key",
            Self::Kind => "sa.key",
            Self::Openshift => "tls/bound-service-account-signing-key.key",
        };
        Ok(ExportFile::private(path, &request.signing_key.to_exposed_pem()?))
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

    /// What is asked of the renderer: everything but the private half.
    fn public_request(&self) -> Request {
        let new = self.signing_key.public_key().clone();
        let old = self.further_keys.iter().map(|key| key.public_key().clone()).collect();
        Request {
            version: None,
            issuer: self.issuer.clone(),
            stage: Stage::New { accepted: self.accepted_issuers.iter().map(IssuerUrl::to_string).collect() },
            keys: Some(Keys { new, old }),
            audiences: Vec::new(),
            place: Place {
                cluster: self.cluster.clone(),
                namespace: self.namespace.clone(),
                directory: self.directory.to_owned(),
                // Of distributions that ask for it; none of those is exported for.
                key_directory: String::new(),
            },
        }
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
    /// The distribution, or its newest version, cannot take this.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A format that nothing is rendered for.
    #[error(transparent)]
    Distribution(#[from] chancery_render::distribution::DistributionError),
    /// The key could not be encoded.
    #[error(transparent)]
    Key(#[from] KeyError),
}

#[cfg(test)]
mod tests;
