//! A change of issuer, as a file of its own describes it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::cell::CellStoreConfig;
use chancery_core::IssuerUrl;
use chancery_core::migration::{Intent, Party};
use serde::Deserialize;

use super::{BOUNDS, ConfigError, VerifyConfig, values};
use crate::source::kube_apiserver::KubeApiserverSource;

/// Twice what AWS allows clocks to differ.
const USUAL_SKEW: Duration = Duration::from_secs(600);

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MigrationConfig {
    /// The issuer that kube-apiserver has signed for until now, byte for byte.
    pub from: String,
    /// The one that it shall sign for.
    pub to: IssuerUrl,
    /// The replicas of the control plane.
    pub kube_apiserver: KubeApiserverSource,
    /// The longest lifetime of a token.
    #[serde(deserialize_with = "values::duration")]
    pub longest_token: Duration,
    /// How wrong clocks may be.
    #[serde(default = "usual_skew", deserialize_with = "values::duration")]
    pub skew: Duration,
    /// Where it is written down for how long was waited.
    pub state: CellStoreConfig,
    /// Everybody outside who verifies tokens.
    #[serde(default)]
    pub parties: Vec<Party>,
    /// The look from outside, at both issuers.
    #[serde(default)]
    pub verify: VerifyConfig,
    /// Where relative paths start.
    #[serde(skip)]
    pub base: PathBuf,
}

fn usual_skew() -> Duration {
    USUAL_SKEW
}

impl MigrationConfig {
    /// Reads a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let refused = |error: String| ConfigError::Yaml { path: path.to_owned(), error };
        let bytes =
            chancery_files::read(path, BOUNDS).map_err(|error| refused(crate::error_chain(&error)))?;
        let text = String::from_utf8(bytes).map_err(|error| refused(error.to_string()))?;
        let mut config: Self = serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?;
        if config.from == config.to.as_str() {
            return Err(refused("`from` and `to` are the same issuer; expected two".to_owned()));
        }
        config.base = path.parent().unwrap_or(Path::new("")).to_owned();
        let base = &config.base;
        config.verify.ca.iter_mut().for_each(|ca| *ca = base.join(&*ca));
        Ok(config)
    }

    /// What is wanted.
    pub fn intent(&self) -> Intent {
        Intent {
            from: self.from.clone(),
            to: self.to.clone(),
            longest_token: self.longest_token,
            skew: self.skew,
            parties: self.parties.clone(),
        }
    }
}
