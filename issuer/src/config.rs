//! `chancery.yaml`: strict, and refused as a whole before anything starts.
//!
//! An unknown field, a wrong type or a bad URL is refused by the parser, which names the line. What can only be
//! known after parsing (two parts of one name) is refused by `Config::check`. All of this is data: what it names is
//! opened by the rooms above, which name the line too.
//!
//! | room | what is in it |
//! |---|---|
//! | `issuer` | one issuer: its sources, targets, sinks, and how it is looked at from outside |
//! | `migration` | a change of issuer, a file of its own |
//! | `replicas` | the state that replicas share, and the election among them |
//! | `resources` | where objects of a cluster declare issuers, and what those may name |
//! | `report` | where conditions go in a cluster |
//! | `values` | times, markers and URLs |
//! | `check` | what the parts may not be to each other |
//! | `paths` | relative paths |

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::cell::CellStoreConfig;
use chancery_files::{Bounds, Kinds};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use sha2::{Digest as _, Sha256};

use crate::admin::AdminConfig;
use crate::serve::ServeConfig;

mod check;
mod error;
mod issuer;
#[cfg(feature = "kube")]
mod migration;
mod paths;
mod replicas;
mod report;
mod resources;
mod values;

pub(crate) use check::ISSUER_URL_VIEW;
pub use error::ConfigError;
pub use issuer::{IssuerConfig, PublishedTarget, VerifyConfig};
#[cfg(feature = "kube")]
pub use migration::MigrationConfig;
pub use replicas::LeaderElectionConfig;
pub use report::{ReportConfig, ReportConfigMap};
pub use resources::ResourcesConfig;

/// Ten thousand issuers are a tenth of it. A shell's `<(command)` may be the file.
const BOUNDS: Bounds = Bounds { bytes: 64 << 20, time: Duration::from_secs(10), kinds: Kinds::RegularOrPipe };

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The issuers this process publishes, at least one unless objects of a cluster may declare some.
    #[serde(default)]
    pub issuers: Vec<Spanned<IssuerConfig>>,
    /// Where this process serves the documents itself; not at all when missing.
    #[serde(default)]
    pub serve: Vec<Spanned<ServeConfig>>,
    /// Where /livez, /readyz and /metrics are served; not at all when missing.
    pub admin: Option<Spanned<AdminConfig>>,
    /// What must survive a restart; kept in memory only when missing.
    pub state: Option<Spanned<CellStoreConfig>>,
    /// The key that proves what this service writes, 43 base64url characters, shared by all who write for its issuers.
    /// When missing it is made in `state.directory`.
    pub writer_key_file: Option<PathBuf>,
    /// Where conditions are reported in a cluster; on the admin port alone when missing.
    pub report: Option<Spanned<ReportConfig>>,
    /// Where objects of a cluster declare further issuers; nowhere when missing.
    pub resources: Option<Spanned<ResourcesConfig>>,
    /// One publisher among several replicas. In a cluster this is on unless it is switched off.
    pub leader_election: Option<Spanned<LeaderElectionConfig>>,
    /// A digest of all of it but the issuers.
    #[serde(skip)]
    pub shared: [u8; 32],
}

impl Config {
    /// Reads and checks a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Names the file, the line and the remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::File { path: path.to_owned(), source };
        let bytes =
            chancery_files::read(path, BOUNDS).map_err(|error| unreadable(io::Error::other(error)))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(io::Error::other(error)))?;
        Self::parse(&text, path)
    }

    /// Checks the text of the file at `path`, which is not read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Yaml { path: path.to_owned(), error: error.to_string() })?;
        config.check().map_err(|refusal| ConfigError::value(path, refusal.line, refusal.problem))?;
        config.start_paths_at(path.parent().unwrap_or(Path::new("")));
        config.note_digests(text);
        Ok(config)
    }

    /// Notes what was declared, so that two readings of a file can be told apart.
    fn note_digests(&mut self, text: &str) {
        let mut whole: Value = serde_saphyr::from_str(text).unwrap_or_default();
        let issuers = whole.get_mut("issuers").map(Value::take).unwrap_or_default();
        let entries = issuers.as_array().into_iter().flatten();
        for (issuer, entry) in self.issuers.iter_mut().zip(entries) {
            issuer.value.declared = Sha256::digest(entry.to_string()).into();
        }
        self.shared = Sha256::digest(whole.to_string()).into();
    }

    /// Refuses replicas that would not know one id, once it is known that they elect a leader.
    ///
    /// # Errors
    /// Names the line of the state that they do not share.
    pub(crate) fn check_election(&self, path: &Path) -> Result<(), ConfigError> {
        let checked = self.check_replicas(true);
        checked.map_err(|refusal| ConfigError::value(path, refusal.line, refusal.problem))
    }
}
