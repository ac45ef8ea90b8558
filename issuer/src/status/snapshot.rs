//! What the process knew at one moment, as plain data: no lock, no channel, no clock.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::visibility::{Obstacle, VisibilityRecord};
use chancery_core::{IssuerUrl, KeyId};
use jiff::Timestamp;

use crate::conditions::{Condition, PartKind};
use crate::index::Publication;
use crate::known_keys::KnownOfKeys;
use crate::roster::{Declared, Progress};

/// What holds for the whole process.
#[derive(Clone, Debug)]
pub struct ReplicaSnapshot {
    /// When all of it was read.
    pub at: Timestamp,
    /// Which build runs.
    pub version: &'static str,
    /// Whether this replica publishes. What targets and sinks hold is known to that one alone.
    pub publishes: bool,
    /// The serving certificates.
    pub certificates: Vec<CertificateSnapshot>,
    /// What is said of `Issuer` objects whose spec of now is not followed; its subject names the object.
    pub objects: Vec<Condition>,
}

/// What is known of one serving certificate.
#[derive(Clone, Debug)]
pub struct CertificateSnapshot {
    /// Its condition, whose subject names its file.
    pub condition: Condition,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// What is known of one issuer: enough to say how it stands.
#[derive(Clone, Debug)]
pub struct IssuerSnapshot {
    /// How far it is.
    pub progress: Progress,
    /// What the configuration says of it.
    pub declared: Arc<Declared>,
    /// What it publishes.
    pub publication: Option<Arc<Publication>>,
    /// What else is known of its keys.
    pub known: KnownOfKeys,
    /// What is seen of it from outside.
    pub seen: Seen,
    /// Its conditions, those that are good perhaps left out.
    pub conditions: Vec<Condition>,
}

/// Everything else that is known of one issuer.
#[derive(Clone, Debug)]
pub struct IssuerDetails {
    /// How it stands.
    pub issuer: IssuerSnapshot,
    /// When each of its parts was last read or found up to date.
    pub last_good: Vec<LastGood>,
    /// When it was last looked at from outside.
    pub last_look: Option<Timestamp>,
}

/// When a part was last read or found up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastGood {
    /// Which kind of part.
    pub kind: PartKind,
    /// Which of that kind.
    pub name: String,
    /// When.
    pub at: Timestamp,
}

/// What is seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The visibility record.
    pub record: VisibilityRecord,
    /// Why it says nothing about now, if it does not.
    pub obstacle: Option<Obstacle>,
    /// The wait that is meant when nobody asks for one.
    pub usual_wait: Duration,
}

impl Seen {
    /// Everything that keeps a key from signing.
    pub fn obstacles(&self, kid: &KeyId) -> Vec<Obstacle> {
        match &self.obstacle {
            Some(obstacle) => vec![obstacle.clone()],
            None => self.record.is_visible_everywhere(kid, self.usual_wait).err().unwrap_or_default(),
        }
    }
}

impl IssuerSnapshot {
    /// Its URL.
    pub fn url(&self) -> &IssuerUrl {
        &self.progress.issuer
    }

    /// The ids of the keys that it publishes, in their order.
    pub fn kids(&self) -> impl Iterator<Item = &KeyId> {
        let published = self.publication.iter().flat_map(|publication| publication.documents.jwks().keys());
        published.map(chancery_core::PublicKey::key_id)
    }
}
