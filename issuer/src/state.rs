//! What must survive a restart, for each issuer: its id, which keys this writer has seen and which it has withdrawn.
//!
//! Without it a key that vanished from its source before a restart is foreign afterwards: it stays published until
//! somebody withdraws it by hand. That is safe, but not tidy. And without it the id is derived from the issuer URL, so
//! that a cluster that was made anew under the same URL passes for the old one.
//!
//! | store | for |
//! |---|---|
//! | [`directory`] | one process with a volume of its own |
//! | `config_map` | replicas in a cluster, which share what they know |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::marker::Edition;
use chancery_core::residence::Record;
use chancery_core::{IssuerUrl, Owner};
use chancery_publisher::default_owner;
use rustls::crypto::aws_lc_rs::default_provider;
use serde::{Deserialize, Serialize};

use crate::config::StateConfig;

#[cfg(feature = "kube")]
mod config_map;
mod directory;

pub(crate) use directory::replace;

/// The state of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Saved {
    /// Whose state it is, so that a file under a wrong name is not taken for another's.
    pub issuer: IssuerUrl,
    /// The id in the marker of everything that is published.
    #[serde(with = "owner_as_text")]
    pub owner: Owner,
    /// The JWKS on each target that we last wrote or whose decisions we last adopted, by the target's name.
    #[serde(default)]
    pub targets: BTreeMap<String, Edition>,
    /// The keys.
    #[serde(default)]
    pub record: Record,
}

impl Saved {
    /// The state of an issuer of which nothing is known yet.
    pub fn begin(issuer: IssuerUrl, owner: Owner) -> Self {
        Self { issuer, owner, targets: BTreeMap::new(), record: Record::default() }
    }
}

/// Where the state of the issuers is kept.
#[derive(Clone, Debug)]
pub enum StateStore {
    /// One file for each issuer.
    Directory(directory::StateDirectory),
    /// One entry of a ConfigMap for each issuer.
    #[cfg(feature = "kube")]
    ConfigMap(Box<config_map::StateConfigMap>),
}

/// What came of saving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was saved.
    Saved,
    /// It was not, since another replica has saved something else in between.
    Changed(Saved),
}

impl StateStore {
    /// The store that a configuration names; relative paths start at `base`.
    ///
    /// # Errors
    /// When it cannot be reached, or this build lacks it.
    pub async fn open(config: &StateConfig, base: &Path) -> Result<Self, StateError> {
        match (&config.directory, &config.config_map) {
            (Some(directory), None) => Ok(Self::Directory(directory::StateDirectory::open(directory)?)),
            #[cfg(feature = "kube")]
            (None, Some(place)) => {
                Ok(Self::ConfigMap(Box::new(config_map::StateConfigMap::open(place, base).await?)))
            }
            #[cfg(not(feature = "kube"))]
            (None, Some(_)) => {
                let _ = base;
                Err(StateError::NotBuilt)
            }
            _ => Err(StateError::OnePlace),
        }
    }

    /// The state of an issuer; begun with a random id, or the one that is `configured`, when there is none yet.
    ///
    /// # Errors
    /// When it is there but cannot be read: starting without it would turn our own keys into foreign ones. When it
    /// was kept for another id than the configured one.
    pub async fn establish(
        &self,
        issuer: &IssuerUrl,
        configured: Option<&Owner>,
    ) -> Result<Saved, StateError> {
        let saved = match self.load(issuer).await? {
            Some(saved) => saved,
            None => {
                let owner = configured.cloned().unwrap_or_else(random_owner);
                let begun = Saved::begin(issuer.clone(), owner);
                match self.save(&begun, None).await? {
                    Kept::Saved => begun,
                    Kept::Changed(theirs) => theirs,
                }
            }
        };
        match configured {
            Some(configured) if *configured != saved.owner => Err(StateError::OtherOwner {
                issuer: issuer.to_string(),
                saved: saved.owner,
                configured: configured.clone(),
            }),
            _ => Ok(saved),
        }
    }

    /// The state of an issuer, `None` when there is none yet.
    ///
    /// # Errors
    /// When it is there but cannot be read.
    pub async fn load(&self, issuer: &IssuerUrl) -> Result<Option<Saved>, StateError> {
        let saved = match self {
            Self::Directory(directory) => directory.load(issuer)?,
            #[cfg(feature = "kube")]
            Self::ConfigMap(config_map) => config_map.load(issuer).await?,
        };
        match saved {
            Some(saved) if saved.issuer != *issuer => {
                Err(StateError::OtherIssuer { issuer: issuer.to_string(), found: saved.issuer.to_string() })
            }
            saved => Ok(saved),
        }
    }

    /// Replaces the state of an issuer whole, if it is still what was `known` where others write it too.
    ///
    /// # Errors
    /// When the store cannot be written. The old state is whole then.
    pub async fn save(&self, saved: &Saved, known: Option<&Saved>) -> Result<Kept, StateError> {
        match self {
            Self::Directory(directory) => {
                // It has no other writer whose work could be lost.
                let _ = known;
                directory.save(saved).map(|()| Kept::Saved)
            }
            #[cfg(feature = "kube")]
            Self::ConfigMap(config_map) => config_map.save(saved, known).await,
        }
    }

    /// The directory, for what is kept beside the state.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory) => Some(directory.path()),
            #[cfg(feature = "kube")]
            Self::ConfigMap(_) => None,
        }
    }

    /// Whether other replicas read and write it too: then the leader alone may.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Directory(_))
    }
}

/// The name of an issuer's state: letters, digits, hyphens and underscores.
fn name_of(issuer: &IssuerUrl) -> String {
    format!("{}.json", default_owner(issuer))
}

fn read(bytes: &[u8], place: impl FnOnce() -> String) -> Result<Saved, StateError> {
    serde_json::from_slice(bytes).map_err(|source| StateError::Unreadable { place: place(), source })
}

/// `chancery-` and 128 random bits: a cluster that was made anew must not pass for the one before it.
pub fn random_owner() -> Owner {
    let mut bytes = [0; 16];
    #[expect(clippy::expect_used, reason = "a system without random numbers serves no TLS either")]
    default_provider().secure_random.fill(&mut bytes).expect("random numbers");
    #[expect(clippy::expect_used, reason = "base64url and a hyphen are a legal marker")]
    format!("chancery-{}", URL_SAFE_NO_PAD.encode(bytes)).parse().expect("a legal marker")
}

mod owner_as_text {
    use chancery_core::Owner;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(owner: &Owner, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(owner.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Owner, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Nowhere or at two places.
    #[error("`state` names no place or two; expected one of `directory` and `configMap`")]
    OnePlace,
    /// The configured place is not a directory.
    #[error("state directory {} does not exist; create it, writable for this process alone", .0.display())]
    NoDirectory(PathBuf),
    /// A record that is not ours or was damaged.
    #[error(
        "{place} cannot be read; restore it from a backup, or remove it and run `chancery publish restore`, which goes on from what is published"
    )]
    Unreadable {
        /// Which file or entry.
        place: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The state of another issuer.
    #[error("the state of {issuer} is that of {found}; put each issuer's state back under its own name")]
    OtherIssuer {
        /// Whose state was wanted.
        issuer: String,
        /// Whose it is.
        found: String,
    },
    /// The state of another id.
    #[error(
        "the state of {issuer} was kept for the owner {saved}, and the configuration says {configured}; set `owner` to {saved}, or move the state away if {configured} is a new issuer"
    )]
    OtherOwner {
        /// Whose state.
        issuer: String,
        /// The id in it.
        saved: Owner,
        /// The id in the configuration.
        configured: Owner,
    },
    /// The file system refused.
    #[error("state file {} cannot be used", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The cluster cannot be reached by what configuration and environment say.
    #[cfg(feature = "kube")]
    #[error("state: {0}")]
    Access(#[from] crate::source::SourceError),
    /// The API server refused.
    #[cfg(feature = "kube")]
    #[error("state {place} cannot be used; grant get and update on it, and create on configmaps: {source}")]
    Cluster {
        /// Which ConfigMap.
        place: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// A build without the feature `kube`.
    #[error("`state.configMap` needs a cluster, which this build cannot reach; build with `--features kube`")]
    NotBuilt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_issuer_keeps_the_id_it_began_with() {
        let directory = tempfile::tempdir().unwrap();
        let config = StateConfig { directory: Some(directory.path().to_owned()), config_map: None };
        let state = StateStore::open(&config, Path::new("")).await.unwrap();
        let issuer: IssuerUrl = "https://id.example.com/a".parse().unwrap();
        assert_eq!(state.load(&issuer).await.unwrap(), None);

        let mut saved = state.establish(&issuer, None).await.unwrap();
        assert_ne!(saved.owner, default_owner(&issuer));
        assert_ne!(saved.owner, random_owner());
        let kid = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap();
        saved.record = Record { tombstones: vec![kid], ..Record::default() };
        assert_eq!(state.save(&saved, None).await.unwrap(), Kept::Saved);
        assert_eq!(state.establish(&issuer, Some(&saved.owner)).await.unwrap(), saved);

        let other = state.establish(&issuer, Some(&random_owner())).await.unwrap_err().to_string();
        assert!(other.contains(saved.owner.as_str()), "{other}");
        let path = directory.path().join(name_of(&issuer));
        std::fs::rename(&path, directory.path().join(name_of(&"https://b.example.com".parse().unwrap())))
            .unwrap();
        let moved = state.load(&"https://b.example.com".parse().unwrap()).await;
        assert!(matches!(moved, Err(StateError::OtherIssuer { .. })));
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(state.load(&issuer).await, Err(StateError::Unreadable { .. })));
    }

    #[tokio::test]
    async fn exactly_one_place_that_exists() {
        let missing = StateConfig { directory: Some("/no/such/directory".into()), config_map: None };
        assert!(matches!(StateStore::open(&missing, Path::new("")).await, Err(StateError::NoDirectory(_))));
        let nowhere = StateConfig { directory: None, config_map: None };
        assert!(matches!(StateStore::open(&nowhere, Path::new("")).await, Err(StateError::OnePlace)));
    }
}
