//! The part of an issuer's keys that outlives the process.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Decided, Decision, IssuerKeys};
use crate::retention::{RetainedKey, Retention};
use crate::ring::Position;
use crate::withdrawal::{WithdrawalCause, Withdrawals};
use crate::{KeyId, PublicKey, key_file};

/// What must survive a restart: every key seen, imported or withdrawn, and the count of decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// The last decision that was shown to anybody, counted from 1.
    #[serde(default)]
    pub decision: u64,
    /// The keys that it published, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Vec<KeyId>>,
    /// How many revoked keys its markers name.
    #[serde(default)]
    pub revoked: usize,
    /// Every key seen and not withdrawn.
    pub keys: Vec<RecordedKey>,
    /// Keys that stood at a target before we came, as `PUBLIC KEY` PEM blocks.
    #[serde(default, deserialize_with = "public_key_pems")]
    pub imported: Vec<String>,
    /// What the source that decides said last; nothing where there was never one.
    #[serde(default, skip_serializing_if = "RecordedRing::is_none")]
    pub ring: RecordedRing,
    /// Every withdrawn key, the latest last.
    #[serde(default)]
    pub withdrawals: Withdrawals,
}

/// The part of a key ring that outlives whoever read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRing {
    /// How far it had come.
    pub position: Position,
    /// The keys that it showed, as `PUBLIC KEY` PEM blocks.
    #[serde(default, deserialize_with = "public_key_pems")]
    pub keys: Vec<String>,
}

impl RecordedRing {
    /// Whether no ring was followed.
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// One key of a [`KeyRecord`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedKey {
    /// A `PUBLIC KEY` PEM block. Reading a record fails when it is not one, since forgetting a key may reject tokens.
    #[serde(deserialize_with = "public_key_pem")]
    pub public_key: String,
    /// The names of the sources that showed it last.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shown_by: BTreeSet<String>,
    /// Accumulated seconds since the last source dropped it; downtime does not count.
    pub missing_for_seconds: u64,
}

impl KeyRecord {
    /// The record of an issuer that begins, whose first decision has the number `first_decision`; see
    /// [`crate::publication::first_decision`].
    pub fn begin(first_decision: u64) -> Self {
        Self { decision: first_decision.saturating_sub(1), ..Self::default() }
    }

    /// The same but for the time that has passed: a record that differs in nothing else need not be saved at once.
    pub fn is_same_but_for_time(&self, other: &Self) -> bool {
        let timeless = |record: &Self| {
            let mut record = record.clone();
            record.keys.iter_mut().for_each(|key| key.missing_for_seconds = 0);
            record
        };
        timeless(self) == timeless(other)
    }
}

impl IssuerKeys {
    /// The keys as they were before a restart. Those that were live are retained until a source shows them again.
    pub fn restore(retention: Duration, record: &KeyRecord) -> Self {
        let mut withdrawals = record.withdrawals.clone();
        let read = |pem: &str| key_file::read_public_keys(pem).keys.into_iter().next();
        let mut recorded: Vec<RetainedKey> = Vec::new();
        for RecordedKey { public_key, shown_by, missing_for_seconds } in &record.keys {
            let Some(key) = read(public_key) else { continue };
            withdrawals.lift(key.key_id(), WithdrawalCause::Expired);
            let missing_for = Duration::from_secs(*missing_for_seconds);
            recorded.push(RetainedKey { key, shown_by: shown_by.clone(), missing_for });
        }
        let KeyRecord { decision: number, published, revoked, .. } = record;
        let decision = Decision { number: *number, published: published.clone(), revoked: *revoked };
        Self {
            retention: Retention::restore(retention, recorded),
            decided: Decided {
                position: record.ring.position,
                keys: record.ring.keys.iter().filter_map(|pem| read(pem)).collect(),
            },
            imported: record.imported.iter().filter_map(|pem| read(pem)).collect(),
            withdrawals,
            decision,
        }
    }

    /// What must survive a restart.
    pub fn record(&self) -> KeyRecord {
        let keys = self.retention.record().into_iter().map(|retained| RecordedKey {
            public_key: retained.key.to_pem(),
            shown_by: retained.shown_by,
            missing_for_seconds: retained.missing_for.as_secs(),
        });
        KeyRecord {
            decision: self.decision.number,
            published: self.decision.published.clone(),
            revoked: self.decision.revoked,
            keys: keys.collect(),
            imported: self.imported.iter().map(PublicKey::to_pem).collect(),
            ring: RecordedRing {
                position: self.decided.position,
                keys: self.decided.keys.iter().map(PublicKey::to_pem).collect(),
            },
            withdrawals: self.withdrawals.clone(),
        }
    }
}

fn public_key_pem<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_public_key(String::deserialize(deserializer)?).map_err(de::Error::custom)
}

fn public_key_pems<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.into_iter().map(|text| one_public_key(text).map_err(de::Error::custom)).collect()
}

fn one_public_key(text: String) -> Result<String, String> {
    let read = key_file::read_public_keys(&text);
    if read.keys.len() == 1 && read.skipped.is_empty() {
        return Ok(text);
    }
    let reason =
        read.skipped.first().map_or_else(|| format!("{} keys", read.keys.len()), ToString::to_string);
    Err(format!("expected one PUBLIC KEY PEM block, found {reason}"))
}
