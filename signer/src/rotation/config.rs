//! A rotation policy, as a YAML file: whose ring, where everything is, and when keys change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::cell::{CellStoreConfig, ConfigMapsConfig};
use chancery_core::IssuerUrl;
use chancery_core::profile::RelyingParty;
use chancery_core::ring::TokenLifetimes;
use chancery_core::rotation::calendar::Calendar;
use chancery_core::rotation::{KeySupply, Overlap, Policy, PolicyError, Settings};
use chancery_files::{Bounds, FileError};
use chancery_keygen::KeySpec;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use super::api_servers::ApiServersConfig;
use super::bundles::OfflineConfig;
use super::canary::config::{CanaryConfig, CanaryConfigError};
use super::census::CensusConfig;
use super::custody::CustodyConfig;
use super::schedule::{ScheduleConfig, ScheduleError};
use super::times::Time;

/// A policy has a few hundred bytes.
const BOUNDS: Bounds = Bounds::regular(1 << 20, Duration::from_secs(10));

/// The time between two looks when nothing is said.
const USUAL_LOOK: Duration = Duration::from_secs(10);

/// A policy, checked: what there is to know of one ring.
#[derive(Clone, Debug)]
pub struct RotationConfig {
    /// Whose keys.
    pub issuer: IssuerUrl,
    /// Where the ring is.
    pub ring: CellStoreConfig,
    /// Where the private halves are.
    pub keys: CustodyConfig,
    /// The state of the issuer, in which its visibility record is; without it no key ever becomes active.
    pub visibility: Option<CellStoreConfig>,
    /// Every signer there should be, and where it is heard; in the ring's own place when nothing is said.
    pub signers: BTreeMap<String, Option<CellStoreConfig>>,
    /// The kube-apiservers that are looked at.
    pub api_servers: Option<ApiServersConfig>,
    /// The cluster in which copies of tokens are counted.
    pub census: Option<CensusConfig>,
    /// What is made.
    pub key: KeySpec,
    /// Who may vouch for keys that are made elsewhere, if they are: then none is made.
    pub offline: Option<OfflineConfig>,
    /// What core decides by.
    pub policy: Policy,
    /// Who is shown a token of the next key before it signs.
    pub canaries: Vec<CanaryConfig>,
    /// The maintenance windows, if the schedule has any.
    pub calendar: Option<Calendar>,
    /// The time between two looks.
    pub look: Duration,
    /// Where relative paths start.
    pub base: PathBuf,
    /// The object whose spec says what its owner decides, if there is one, and whose status shows the ring.
    pub key_ring: Option<ConfigMapsConfig>,
    /// The text of the file.
    text: String,
}

/// What of a policy the spec of a `KeyRing` says in its place.
const SPEC: [&str; 11] = [
    "issuer",
    "schedule",
    "key",
    "parties",
    "wait",
    "lifetimes",
    "skew",
    "overlap",
    "keysAtMost",
    "rollbackWindow",
    "verifyOnly",
];

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RotationFile {
    issuer: IssuerUrl,
    ring: CellStoreConfig,
    keys: CustodyConfig,
    visibility: Option<CellStoreConfig>,
    signers: Vec<ExpectedSigner>,
    api_servers: Option<ApiServersConfig>,
    census: Option<CensusConfig>,
    #[serde(default)]
    schedule: ScheduleConfig,
    #[serde(default, deserialize_with = "key_spec")]
    key: KeySpec,
    offline: Option<OfflineConfig>,
    #[serde(default)]
    parties: Vec<RelyingParty>,
    #[serde(default)]
    canaries: Vec<CanaryConfig>,
    wait: Option<Time>,
    #[serde(default)]
    lifetimes: LifetimesConfig,
    skew: Option<Time>,
    #[serde(default)]
    overlap: OverlapConfig,
    keys_at_most: Option<usize>,
    rollback_window: Option<Time>,
    #[serde(default)]
    verify_only: bool,
    #[serde(default)]
    trial: bool,
    look: Option<Time>,
    key_ring: Option<ConfigMapsConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ExpectedSigner {
    name: String,
    acknowledgements: Option<CellStoreConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct LifetimesConfig {
    external: Option<Time>,
    api_server: Option<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OverlapConfig {
    minimum: Option<Time>,
    maximum: Option<Time>,
}

impl RotationConfig {
    /// Reads and checks a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, RotationConfigError> {
        let bytes = chancery_files::read(path, BOUNDS)?;
        let unreadable = |error: String| RotationConfigError::Yaml { path: path.to_owned(), error };
        let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&text, path)
    }

    /// Checks the text of the file at `path`, which is not read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, RotationConfigError> {
        let file: RotationFile = serde_saphyr::from_str(text)
            .map_err(|error| RotationConfigError::Yaml { path: path.to_owned(), error: error.to_string() })?;
        Self::check(file, text, path)
    }

    /// The same policy, with the spec of the `KeyRing` at `place` for what its owner decides. What the file says of that
    /// does not count.
    ///
    /// # Errors
    /// When it cannot be kept, or belongs to another issuer.
    pub fn with_spec(&self, spec: Map<String, Value>, place: &str) -> Result<Self, RotationConfigError> {
        let path = Path::new(place);
        let unreadable = |error: String| RotationConfigError::Yaml { path: path.to_owned(), error };
        let mut file: Map<String, Value> =
            serde_saphyr::from_str(&self.text).map_err(|error| unreadable(error.to_string()))?;
        file.retain(|field, _| !SPEC.contains(&field.as_str()));
        if let Some(unknown) = spec.keys().find(|field| !SPEC.contains(&field.as_str())) {
            return Err(unreadable(format!("no field of a spec is called {unknown:?}")));
        }
        file.extend(spec);
        let file: RotationFile =
            serde_json::from_value(Value::Object(file)).map_err(|error| unreadable(error.to_string()))?;
        if file.issuer != self.issuer {
            let (found, expected) = (Box::new(file.issuer), Box::new(self.issuer.clone()));
            let problem = Refusal::OtherIssuer { found, expected };
            return Err(RotationConfigError::Value { path: path.to_owned(), problem });
        }
        let spec = Self::check(file, &self.text, path)?;
        Ok(Self { base: self.base.clone(), ..spec })
    }

    fn check(file: RotationFile, text: &str, path: &Path) -> Result<Self, RotationConfigError> {
        let refused = |problem: Refusal| RotationConfigError::Value { path: path.to_owned(), problem };
        let dates = file.schedule.dates(Timestamp::now()).map_err(|error| refused(error.into()))?;
        let canaries = file.canaries.iter().map(CanaryConfig::declared).collect::<Result<_, _>>();
        let canaries = canaries.map_err(|error| refused(error.into()))?;
        let settings = Settings { canaries, ..file.settings(dates.schedule) };
        let policy = Policy::new(settings).map_err(|error| refused(error.into()))?;
        let look = file.look.map_or(USUAL_LOOK, |look| look.0);
        if look < Duration::from_millis(100) {
            return Err(refused(Refusal::Look(look)));
        }
        let mut signers = BTreeMap::new();
        for ExpectedSigner { name, acknowledgements } in file.signers {
            if signers.insert(name.clone(), acknowledgements).is_some() {
                return Err(refused(Refusal::TwoSigners(name)));
            }
        }
        if let Some(name) = file.api_servers.as_ref().and_then(ApiServersConfig::twice) {
            return Err(refused(Refusal::TwoApiServers(name.to_owned())));
        }
        Ok(Self {
            issuer: file.issuer,
            ring: file.ring,
            keys: file.keys,
            visibility: file.visibility,
            signers,
            api_servers: file.api_servers,
            census: file.census,
            key: file.key,
            offline: file.offline,
            policy,
            canaries: file.canaries,
            calendar: dates.calendar,
            look,
            base: path.parent().unwrap_or(Path::new("")).to_owned(),
            key_ring: file.key_ring,
            text: text.to_owned(),
        })
    }
}

impl RotationFile {
    fn settings(&self, schedule: chancery_core::rotation::Schedule) -> Settings {
        let usual = Settings::default();
        let or = |time: &Option<Time>, usual: Duration| time.map_or(usual, |time| time.0);
        let seconds = |time: &Option<Time>, usual: u64| time.map_or(usual, |time| time.0.as_secs());
        let lifetimes = TokenLifetimes {
            external_seconds: seconds(&self.lifetimes.external, usual.lifetimes.external_seconds),
            api_server_seconds: seconds(&self.lifetimes.api_server, usual.lifetimes.api_server_seconds),
        };
        let imported = self.offline.as_ref();
        let imported = imported.map(|offline| KeySupply::Imported { fewest: offline.fewest });
        Settings {
            schedule,
            supply: imported.unwrap_or(usual.supply),
            algorithm: super::making::algorithm(self.key),
            parties: self.parties.clone(),
            shortest_wait: or(&self.wait, usual.shortest_wait),
            is_trial: self.trial,
            lifetimes,
            skew: or(&self.skew, usual.skew),
            overlap: Overlap {
                minimum: or(&self.overlap.minimum, usual.overlap.minimum),
                maximum: or(&self.overlap.maximum, usual.overlap.maximum),
            },
            keys_at_most: self.keys_at_most.unwrap_or(usual.keys_at_most),
            rollback_window: or(&self.rollback_window, usual.rollback_window),
            verify_only: self.verify_only,
            ..usual
        }
    }
}

fn key_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeySpec, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// Why a policy is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotationConfigError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The YAML is malformed, has an unknown field or a value of the wrong kind.
    #[error("{}: {error}", path.display())]
    Yaml {
        /// Which file.
        path: PathBuf,
        /// The parser's words, with line and column.
        error: String,
    },
    /// Values that cannot be used.
    #[error("{}: {problem}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// What came, what was expected, what to do.
        problem: Refusal,
    },
}

/// What is wrong with the values of a policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Values that contradict each other.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A canary.
    #[error(transparent)]
    Canary(#[from] CanaryConfigError),
    /// No time to look.
    #[error("a `look` of {0:?} does nothing else than look; expected 100ms or more, such as 10s")]
    Look(Duration),
    /// An object of another ring.
    #[error("it is for issuer {found}, and the policy for {expected}; name the KeyRing of that issuer")]
    OtherIssuer {
        /// Whose it is.
        found: Box<IssuerUrl>,
        /// Whose it should be.
        expected: Box<IssuerUrl>,
    },
    /// A name twice.
    #[error(
        "two signers are called {0:?}; expected a name of its own for each, as it is given with `chancery signer --name`"
    )]
    TwoSigners(String),
    /// A kube-apiserver twice.
    #[error("two `servers` of `apiServers` are called {0:?}; expected the name of its node for each")]
    TwoApiServers(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: &str = "
issuer: https://id.example.com/a
ring: { directory: ring }
keys: { directory: keys, passphraseFile: passphrase }
signers: [{ name: a }, { name: b, acknowledgements: { directory: b } }]
";

    #[test]
    fn the_shortest_policy_has_the_defaults_of_the_core() {
        let config = RotationConfig::parse(SHORTEST, Path::new("/etc/chancery/rotation.yaml")).unwrap();
        assert_eq!(config.policy.settings(), &Settings::default());
        assert_eq!(config.signers.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(config.base, Path::new("/etc/chancery"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let refused = |more: &str| {
            let text = format!("{SHORTEST}{more}");
            RotationConfig::parse(&text, Path::new("p.yaml")).unwrap_err().to_string()
        };
        assert!(refused("wait: soon").contains("is not a time"));
        assert!(refused("waits: 1h").contains("waits"));
        assert!(refused("key: rsa-1024").contains("rsa-2048"));
        assert!(refused("overlap: { maximum: 1h }").contains("overlap"));
        assert!(refused("look: 1ms").contains("`look`"));
        assert!(refused("canaries: [{ name: x, audience: x }]").contains("canary x is asked nowhere"));
        let one = "{ name: x, audience: x, oidc: { url: 'https://x/' } }";
        assert!(refused(&format!("canaries: [{one}, {one}]")).contains("two canaries"));
        let servers = |servers: &str| refused(&format!("apiServers: {{ kubeconfig: k, {servers} }}"));
        assert!(servers("servers: [{ name: a, server: 'http://a' }]").contains("not the address"));
        assert!(servers("serviceAccount: default").contains("kube-system/default"));
        let one = "{ name: a, server: 'https://10.0.0.1:6443' }";
        assert!(servers(&format!("servers: [{one}, {one}]")).contains("two `servers`"));
        let twice = SHORTEST.replace("name: b", "name: a");
        assert!(
            RotationConfig::parse(&twice, Path::new("")).unwrap_err().to_string().contains("two signers")
        );
    }

    #[test]
    fn a_spec_says_what_its_owner_decides_and_nothing_else() {
        let file = format!("{SHORTEST}keyRing: {{ name: main }}\nkey: p-384\nwait: 90d\n");
        let config = RotationConfig::parse(&file, Path::new("/etc/chancery/rotation.yaml")).unwrap();
        let with = |spec: Value| config.with_spec(spec.as_object().cloned().unwrap(), "KeyRing a/b");
        let issuer = "https://id.example.com/a";
        let followed = with(serde_json::json!({ "issuer": issuer, "keysAtMost": 7 })).unwrap();
        assert_eq!(followed.policy.settings(), &Settings { keys_at_most: 7, ..Settings::default() });
        assert_eq!((followed.base, followed.signers.len()), (config.base.clone(), 2));
        for (spec, why) in [
            (serde_json::json!({ "issuer": "https://id.example.com/b" }), "KeyRing a/b: it is for issuer"),
            (serde_json::json!({ "issuer": issuer, "trial": true }), "no field of a spec is called"),
            (serde_json::json!({ "issuer": issuer, "overlap": { "maximum": "1h" } }), "KeyRing a/b: tokens"),
            (serde_json::json!({ "keysAtMost": 7 }), "issuer"),
        ] {
            let refused = with(spec).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let definition: Value = serde_saphyr::from_str(crate::rotation::KEY_RING_DEFINITION).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let defined = definition.pointer(spec).unwrap().as_object().unwrap();
        assert!(SPEC.iter().all(|field| defined.contains_key(*field)) && defined.len() == SPEC.len());
    }
}
