//! A sink as configuration names it.

use std::fmt;
use std::path::Path;

use serde::Deserialize;

mod config_map;
mod error;
mod gcp;
mod http_put;
pub(super) mod request;
mod vault;

pub use config_map::ConfigMapPlace;
pub use error::SinkConfigError;
pub use gcp::GcpProviderPlace;
pub use http_put::{HeaderSource, HttpMethod, HttpPutPlace, HttpRead};
pub use vault::{KubernetesLogin, VaultPlace};

/// One relying party that is given the keys themselves. Exactly one of the places is given.
///
/// ```yaml
/// - name: vault
///   vault:
///     address: https://vault.example.com:8200
///     tokenFile: /var/run/chancery/vault-token
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SinkConfig {
    /// What logs and metrics call it; its place, when not given.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether what is there without an ownership marker is taken over. A foreign marker always stops us.
    #[serde(default)]
    pub adopt: bool,
    /// The JWT auth method of Vault or OpenBao.
    #[serde(default)]
    pub vault: Option<VaultPlace>,
    /// A ConfigMap.
    #[serde(default)]
    pub config_map: Option<ConfigMapPlace>,
    /// An OIDC provider of a workload identity pool of Google Cloud.
    #[serde(default)]
    pub gcp_provider: Option<GcpProviderPlace>,
    /// Anything that takes an HTTP PUT or POST.
    #[serde(default)]
    pub http_put: Option<HttpPutPlace>,
}

/// A place, checked.
#[derive(Clone, Copy, Debug)]
pub enum SinkPlace<'a> {
    /// The JWT auth method of Vault or OpenBao.
    Vault(&'a VaultPlace),
    /// A ConfigMap.
    ConfigMap(&'a ConfigMapPlace),
    /// An OIDC provider of Google Cloud.
    GcpProvider(&'a GcpProviderPlace),
    /// Anything that takes an HTTP PUT or POST.
    HttpPut(&'a HttpPutPlace),
}

impl SinkConfig {
    /// The one place that is given.
    ///
    /// # Errors
    /// When none is given or more than one, or its values cannot be meant so.
    pub fn place(&self) -> Result<SinkPlace<'_>, SinkConfigError> {
        let given = [
            self.vault.as_ref().map(SinkPlace::Vault),
            self.config_map.as_ref().map(SinkPlace::ConfigMap),
            self.gcp_provider.as_ref().map(SinkPlace::GcpProvider),
            self.http_put.as_ref().map(SinkPlace::HttpPut),
        ];
        let mut given = given.into_iter().flatten();
        let Some(place) = given.next() else { return Err(SinkConfigError::NoPlace) };
        let others: Vec<&str> = given.map(SinkPlace::field).collect();
        if !others.is_empty() {
            let given = std::iter::once(place.field()).chain(others).collect::<Vec<_>>().join("` and `");
            return Err(SinkConfigError::SeveralPlaces { given });
        }
        match place {
            SinkPlace::Vault(vault) => vault.check()?,
            SinkPlace::ConfigMap(config_map) => config_map.check()?,
            // Its ids are checked as they are read.
            SinkPlace::GcpProvider(_) => {}
            SinkPlace::HttpPut(http_put) => http_put.check(self.adopt)?,
        }
        Ok(place)
    }

    /// What a person calls it: its name, otherwise its place.
    pub fn display_name(&self) -> String {
        let place = || self.place().map_or_else(|_| "sink".to_owned(), |place| place.to_string());
        self.name.clone().unwrap_or_else(place)
    }

    /// Lets relative paths start at `folder`. The kubeconfig keeps its own: it is opened with the folder at hand.
    pub fn start_paths_at(&mut self, folder: &Path) {
        let vault = self.vault.iter_mut().flat_map(VaultPlace::paths_mut);
        let http_put = self.http_put.iter_mut().flat_map(HttpPutPlace::paths_mut);
        let gcp = self.gcp_provider.iter_mut().flat_map(GcpProviderPlace::paths_mut);
        for path in vault.chain(http_put).chain(gcp) {
            *path = folder.join(&*path);
        }
    }
}

impl SinkPlace<'_> {
    /// The field that names it in configuration.
    fn field(self) -> &'static str {
        match self {
            Self::Vault(_) => "vault",
            Self::ConfigMap(_) => "configMap",
            Self::GcpProvider(_) => "gcpProvider",
            Self::HttpPut(_) => "httpPut",
        }
    }
}

impl fmt::Display for SinkPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vault(vault) => vault.fmt(f),
            Self::ConfigMap(config_map) => config_map.fmt(f),
            Self::GcpProvider(provider) => provider.fmt(f),
            Self::HttpPut(http_put) => http_put.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
