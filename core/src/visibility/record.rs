//! The part of the record that outlives the process.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{KeyTime, View, Visibility};
use crate::KeyId;

/// The only version there is.
const VERSION: u32 = 1;

/// What of a [`Visibility`] is kept in a file: the times, rounded down to whole seconds, and the cache headers. What
/// was seen last is not: it must be seen again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VisibilityRecord {
    /// The version of this form, 1.
    #[serde(deserialize_with = "known_version")]
    version: u32,
    /// The longest time for which a document that was ever served may be kept, in whole seconds.
    longest_max_age_seconds: Option<u64>,
    /// The views by name.
    views: BTreeMap<String, ViewRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ViewRecord {
    longest_max_age_seconds: Option<u64>,
    /// For each key the time for which it was seen without a gap, in whole seconds.
    visible_seconds: BTreeMap<KeyId, u64>,
}

/// A version of the record that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the visibility record has version {0}; expected {VERSION}. Run the release that wrote it, or remove it: every wait then starts again"
)]
pub struct UnknownVersion(u32);

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => Err(de::Error::custom(UnknownVersion(other))),
    }
}

impl Default for VisibilityRecord {
    /// Nothing was ever seen.
    fn default() -> Self {
        Self { version: VERSION, longest_max_age_seconds: None, views: BTreeMap::new() }
    }
}

impl Visibility {
    /// The record as it was before a restart, for these views: those that are not listed any more are forgotten, up to
    /// how long their documents may be kept. Time does not run for anybody before everything was seen again.
    pub fn restore<V: Into<String>>(
        views: impl IntoIterator<Item = V>,
        patience: Duration,
        record: &VisibilityRecord,
    ) -> Self {
        let mut restored = Self::new(views, patience);
        restored.longest_max_age = record.longest_max_age_seconds.map(Duration::from_secs);
        for (name, view) in &mut restored.views {
            if let Some(recorded) = record.views.get(name) {
                *view = View::from(recorded);
            }
        }
        restored
    }

    /// What must survive a restart.
    pub fn record(&self) -> VisibilityRecord {
        let views = self.views.iter().map(|(name, view)| (name.clone(), ViewRecord::from(view)));
        VisibilityRecord {
            version: VERSION,
            longest_max_age_seconds: self.longest_max_age.map(rounded_up),
            views: views.collect(),
        }
    }
}

impl From<&ViewRecord> for View {
    fn from(record: &ViewRecord) -> Self {
        let time =
            |seconds: &u64| KeyTime { visible_for: Duration::from_secs(*seconds), ..KeyTime::default() };
        Self {
            keys: record.visible_seconds.iter().map(|(kid, seconds)| (kid.clone(), time(seconds))).collect(),
            longest_max_age: record.longest_max_age_seconds.map(Duration::from_secs),
            ..Self::default()
        }
    }
}

impl From<&View> for ViewRecord {
    fn from(view: &View) -> Self {
        let seen = view.keys().filter(|(_, visible_for)| visible_for.as_secs() > 0);
        Self {
            longest_max_age_seconds: view.longest_max_age.map(rounded_up),
            visible_seconds: seen.map(|(kid, visible_for)| (kid.clone(), visible_for.as_secs())).collect(),
        }
    }
}

/// What makes others wait is never rounded down.
fn rounded_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
