//! `chancery.yaml`: strict, and refused as a whole before anything starts.
//!
//! An unknown field, a wrong type or a bad URL is refused by the parser, which names the line. What can only be
//! known after parsing (a missing file, a kind that was not built in, two issuers at one place) is refused by
//! `Config::check` and by the parts that open it, which name the line too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::profile::RelyingParty;
use chancery_core::{CachePolicy, IssuerUrl, Owner};
use chancery_publisher::sink::SinkConfig;
use chancery_publisher::target::TargetConfig;
use chancery_publisher::trust::Registration;
use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use crate::admin::AdminConfig;
use crate::report::ReportConfig;
use crate::serve::ServeConfig;
use crate::source::SourceConfig;

/// Anything shorter would do nothing else than look.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The issuers this process publishes, at least one.
    pub issuers: Vec<Spanned<IssuerConfig>>,
    /// Where this process serves the documents itself; not at all when missing.
    #[serde(default)]
    pub serve: Vec<Spanned<ServeConfig>>,
    /// Where /livez, /readyz and /metrics are served; not at all when missing.
    pub admin: Option<Spanned<AdminConfig>>,
    /// What must survive a restart; kept in memory only when missing.
    pub state: Option<Spanned<StateConfig>>,
    /// Where conditions are reported in a cluster; on the admin port alone when missing.
    pub report: Option<Spanned<ReportConfig>>,
    /// One publisher among several replicas. In a cluster this is on unless it is switched off.
    pub leader_election: Option<Spanned<LeaderElectionConfig>>,
}

/// One issuer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IssuerConfig {
    /// The issuer URL, equal to kube-apiserver's first `--service-account-issuer` byte for byte.
    pub url: IssuerUrl,
    /// The issuer id in the marker on what we publish. When missing it is what the state keeps, a random one at
    /// first; without a state it is derived from the URL.
    #[serde(default, deserialize_with = "owner")]
    pub owner: Option<Owner>,
    /// `max-age` of the documents in seconds. Relying parties may not look for a new key any sooner.
    #[serde(default = "default_max_age")]
    pub max_age_seconds: u32,
    /// How long a key stays published after the last source dropped it, as `7d` or `36h`.
    #[serde(default = "default_residence", deserialize_with = "duration")]
    pub residence: Duration,
    /// Where the keys come from, at least one.
    pub sources: Vec<Spanned<SourceConfig>>,
    /// Where relying parties read from, besides this process.
    #[serde(default)]
    pub targets: Vec<Spanned<PublishedTarget>>,
    /// Relying parties that are given the keys themselves.
    #[serde(default)]
    pub sinks: Vec<Spanned<SinkConfig>>,
    /// Clouds that are to trust the issuer. The service leaves them alone; `chancery publish restore` makes them again.
    #[serde(default)]
    pub registrations: Vec<Spanned<Registration>>,
    /// The look from outside.
    #[serde(default)]
    pub verify: VerifyConfig,
}

impl IssuerConfig {
    /// The cache policy of the documents.
    pub fn cache(&self) -> CachePolicy {
        CachePolicy::of_seconds(self.max_age_seconds)
    }
}

/// A target and the public address at which relying parties read it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PublishedTarget {
    /// The target itself.
    pub to: TargetConfig,
    /// The URL below which this target is read when it is not the issuer URL: a mirror, or the bucket behind a CDN.
    pub public_url: Option<String>,
}

/// How the documents are read back as an anonymous relying party.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct VerifyConfig {
    /// Whether to look at all. Off only where this process cannot reach the issuer URL.
    pub enabled: bool,
    /// Time between two looks when nothing changes.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// PEM certificates of a private CA that relying parties trust, instead of the public ones.
    pub ca: Option<PathBuf>,
    /// The relying parties that matter; all of them when empty. A private issuer cannot please the public clouds.
    #[serde(rename = "for")]
    pub parties: Vec<RelyingParty>,
    /// `HOST:PORT:ADDRESS` overrides, for clusters whose own DNS answers differently from the world's.
    pub resolve: Vec<String>,
}

impl Default for VerifyConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            every: Duration::from_secs(60),
            ca: None,
            parties: Vec::new(),
            resolve: Vec::new(),
        }
    }
}

/// Where what must survive a restart is kept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StateConfig {
    /// A directory of this process alone.
    pub directory: Option<PathBuf>,
    /// A ConfigMap that the replicas share.
    pub config_map: Option<StateConfigMapConfig>,
}

/// A ConfigMap that holds the state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StateConfigMapConfig {
    /// Its namespace; the pod's own when missing.
    pub namespace: Option<String>,
    /// Its name. It is made when it is not there.
    pub name: String,
    /// A kubeconfig, outside a cluster.
    pub kubeconfig: Option<PathBuf>,
}

/// Leader election by a Lease.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct LeaderElectionConfig {
    /// On, off, or on in a cluster when missing.
    pub enabled: Option<bool>,
    /// The Lease's namespace; the pod's own when missing.
    pub namespace: Option<String>,
    /// The Lease's name; `chancery-issuer` when missing.
    pub name: Option<String>,
    /// What this replica calls itself; the host name when missing.
    pub identity: Option<String>,
    /// A kubeconfig, outside a cluster.
    pub kubeconfig: Option<PathBuf>,
    /// client-go's default when missing: 15 s.
    #[serde(deserialize_with = "optional_duration")]
    pub lease_duration: Option<Duration>,
    /// client-go's default when missing: 10 s.
    #[serde(deserialize_with = "optional_duration")]
    pub renew_deadline: Option<Duration>,
    /// client-go's default when missing: 2 s.
    #[serde(deserialize_with = "optional_duration")]
    pub retry_period: Option<Duration>,
}

/// Ten minutes; see [`CachePolicy`].
fn default_max_age() -> u32 {
    600
}

/// Seven days: an observed key may have signed tokens of a lifetime nobody told us, and a day or two of
/// investigation must fit in before it goes.
fn default_residence() -> Duration {
    Duration::from_secs(7 * 24 * 60 * 60)
}

/// A time such as `7d`, `36h` or `90s`, where a day has 24 hours.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let days = SpanRelativeTo::days_are_24_hours();
    let read = text.parse::<Span>().ok().and_then(|span| span.to_duration(days).ok()?.try_into().ok());
    read.ok_or_else(|| {
        de::Error::custom(format!("{text:?} is not a time; expected one such as 7d, 36h or 90s"))
    })
}

fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn owner<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Owner>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

impl Config {
    /// Reads and checks a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Names the file, the line and the remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Checks the text of the file at `path`, which is not read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Yaml { path: path.to_owned(), error: error.to_string() })?;
        config.check().map_err(|(line, problem)| ConfigError::value(path, line, problem))?;
        config.start_paths_at(path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// What the types alone cannot say.
    fn check(&self) -> Result<(), (u64, String)> {
        if self.issuers.is_empty() {
            return Err((
                1,
                "`issuers` is empty; list at least one issuer with its url and sources".to_owned(),
            ));
        }
        let mut seen = BTreeSet::new();
        for issuer in &self.issuers {
            let line = issuer.referenced.line();
            if !seen.insert(&issuer.value.url) {
                let problem = format!("issuer {} is listed twice; merge the two entries", issuer.value.url);
                return Err((line, problem));
            }
            for target in &issuer.value.targets {
                let checked = target.value.to.location();
                checked.map_err(|problem| (target.referenced.line(), problem.to_string()))?;
            }
            check_sinks(&issuer.value.sinks)?;
            for registration in &issuer.value.registrations {
                let cloud = registration.value.cloud();
                cloud.map_err(|problem| (registration.referenced.line(), problem.to_string()))?;
            }
            if issuer.value.verify.every < SHORTEST_PERIOD {
                let problem = format!(
                    "`verify.every` is {:?}; expected 1s or more, such as 60s",
                    issuer.value.verify.every
                );
                return Err((line, problem));
            }
            if issuer.value.sources.is_empty() {
                let problem =
                    format!("issuer {} has no `sources`; say where its keys come from", issuer.value.url);
                return Err((line, problem));
            }
        }
        self.check_replicas()?;
        let is_shown = |issuer: &IssuerConfig| !issuer.targets.is_empty() || !issuer.sinks.is_empty();
        if self.serve.is_empty() && !self.issuers.iter().any(|issuer| is_shown(&issuer.value)) {
            let problem = "there is neither a `serve` section nor a target nor a sink, so nobody could read the documents";
            return Err((1, problem.to_owned()));
        }
        Ok(())
    }

    /// Replicas that take turns must know one id, or the second is a stranger on the first one's targets.
    fn check_replicas(&self) -> Result<(), (u64, String)> {
        let elects =
            self.leader_election.as_ref().is_some_and(|election| election.value.enabled == Some(true));
        let Some(state) = self.state.as_ref().filter(|state| elects && state.value.directory.is_some())
        else {
            return Ok(());
        };
        match self.issuers.iter().find(|issuer| issuer.value.owner.is_none()) {
            Some(issuer) => Err((
                state.referenced.line(),
                format!(
                    "replicas that elect a leader do not share a `state.directory`, so each would give {} an id of its own; \
                     keep the state in a `configMap`, or set the issuer's `owner`",
                    issuer.value.url
                ),
            )),
            None => Ok(()),
        }
    }

    /// Sources keep their own paths: they are opened with the folder at hand.
    fn start_paths_at(&mut self, folder: &Path) {
        let start = |path: &mut PathBuf| *path = folder.join(&*path);
        for issuer in &mut self.issuers {
            issuer.value.verify.ca.iter_mut().for_each(start);
            for target in &mut issuer.value.targets {
                target.value.to.directory.iter_mut().for_each(|directory| start(&mut directory.path));
                let s3 = target.value.to.s3.iter_mut();
                s3.filter_map(|s3| s3.credentials_file.as_mut()).for_each(start);
                let azure = target.value.to.azure_blob.iter_mut();
                azure
                    .flat_map(|azure| [&mut azure.token_file, &mut azure.sas_file])
                    .flatten()
                    .for_each(start);
                let gcs = target.value.to.gcs.iter_mut();
                gcs.filter_map(|gcs| gcs.credentials_file.as_mut()).for_each(start);
            }
        }
        for registration in self.issuers.iter_mut().flat_map(|issuer| &mut issuer.value.registrations) {
            registration.value.start_paths_at(folder);
        }
        for sink in self.issuers.iter_mut().flat_map(|issuer| &mut issuer.value.sinks) {
            sink.value.start_paths_at(folder);
        }
        for serve in &mut self.serve {
            serve.value = serve.value.clone().below(folder);
        }
        self.state.iter_mut().filter_map(|state| state.value.directory.as_mut()).for_each(start);
    }
}

/// Metrics and logs tell sinks apart by name.
fn check_sinks(sinks: &[Spanned<SinkConfig>]) -> Result<(), (u64, String)> {
    let mut names = BTreeSet::new();
    for sink in sinks {
        let line = sink.referenced.line();
        sink.value.place().map_err(|problem| (line, problem.to_string()))?;
        let name = sink.value.display_name();
        if names.contains(&name) {
            return Err((line, format!("two sinks are called {name:?}; give each a `name` of its own")));
        }
        names.insert(name);
    }
    Ok(())
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}; give the path of a chancery.yaml with --config", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The YAML is malformed, has an unknown field or a value of the wrong kind; the text names line and column.
    #[error("{}: {error}", path.display())]
    Yaml {
        /// Which file.
        path: PathBuf,
        /// The parser's words, with line and column.
        error: String,
    },
    /// A value that cannot be used.
    #[error("{}: line {line}: {problem}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Line in it, counted from 1.
        line: u64,
        /// What came, what was expected, what to do.
        problem: String,
    },
}

impl ConfigError {
    /// A value in `line` of the file at `path` cannot be used, for the reason in `problem`.
    pub(crate) fn value(path: &Path, line: u64, problem: String) -> Self {
        Self::Value { path: path.to_owned(), line, problem }
    }

    /// What `line` of the file at `path` names cannot be opened.
    pub(crate) fn refuse(path: &Path, line: u64, problem: &dyn std::error::Error) -> Self {
        Self::value(path, line, crate::chain(problem))
    }
}
