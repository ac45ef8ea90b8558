//! One issuer of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::profile::RelyingParty;
use chancery_core::{CachePolicy, IssuerUrl, Owner};
use chancery_publisher::sink::SinkConfig;
use chancery_publisher::target::TargetConfig;
use chancery_publisher::trust::Registration;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::values;
use crate::source::SourceConfig;

/// One issuer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IssuerConfig {
    /// The issuer URL, equal to kube-apiserver's first `--service-account-issuer` byte for byte.
    pub url: IssuerUrl,
    /// The issuer id in the marker on what we publish. When missing it is what the state keeps, a random one at
    /// first; without a state it is derived from the URL.
    #[serde(default, deserialize_with = "values::owner")]
    pub owner: Option<Owner>,
    /// `max-age` of the documents in seconds. Relying parties may not look for a new key any sooner.
    #[serde(default = "default_max_age")]
    pub max_age_seconds: u32,
    /// How long a key stays published after the last source dropped it, as `7d` or `36h`.
    #[serde(default = "default_retention", deserialize_with = "values::retention")]
    pub retention: Duration,
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
    /// A digest of the entry, by which a changed one is known.
    #[serde(skip)]
    pub declared: [u8; 32],
}

impl IssuerConfig {
    /// The cache policy of the documents.
    pub fn cache(&self) -> CachePolicy {
        CachePolicy::of_seconds(self.max_age_seconds)
    }
}

/// A target and the public address at which relying parties read it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PublishedTarget {
    /// The target itself.
    pub to: TargetConfig,
    /// The URL below which this target is read when it is not the issuer URL: a mirror, or the bucket behind a CDN.
    pub public_url: Option<String>,
}

/// How the documents are read back as an anonymous relying party.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct VerifyConfig {
    /// Whether to look at all. Off only where this process cannot reach the issuer URL.
    pub enabled: bool,
    /// Time between two looks when nothing changes.
    #[serde(deserialize_with = "values::period")]
    pub every: Duration,
    /// PEM certificates of a private CA that relying parties trust, instead of the public ones.
    pub ca: Option<PathBuf>,
    /// The relying parties that matter; the platforms and `common` when empty. A private issuer cannot please the public
    /// clouds.
    #[serde(rename = "for")]
    pub parties: Vec<RelyingParty>,
    /// `HOST:PORT:ADDRESS` overrides, for clusters whose own DNS answers differently from the world's.
    pub resolve: Vec<String>,
    /// Hosts that a JWKS is read at although they are in a network where the issuer is not.
    pub allow_jwks_hosts: Vec<String>,
    /// No header is believed to let a cache keep anything for longer: set after a far too long one was served by
    /// mistake and every cache that may hold it was purged.
    #[serde(deserialize_with = "values::optional_duration")]
    pub longest_cache: Option<Duration>,
}

impl Default for VerifyConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            every: Duration::from_secs(60),
            ca: None,
            parties: Vec::new(),
            resolve: Vec::new(),
            allow_jwks_hosts: Vec::new(),
            longest_cache: None,
        }
    }
}

/// Ten minutes; see [`CachePolicy`].
fn default_max_age() -> u32 {
    600
}

/// Seven days: an observed key may have signed tokens of a lifetime nobody told us, and a day or two of
/// investigation must fit in before it goes.
fn default_retention() -> Duration {
    Duration::from_secs(7 * 24 * 60 * 60)
}
