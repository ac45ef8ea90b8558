//! What is fed into the record: what the edges of a view said, and what a writer found behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::KeyId;

/// One reading of every edge of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What a person calls the view.
    pub view: String,
    /// The edges by name, in any order.
    pub edges: BTreeMap<String, EdgeObservation>,
    /// From the start of the first read to the end of the last.
    pub took: Duration,
}

impl Observation {
    /// Of a view with a single edge: a copy of the key set that was read whole, as an uploaded one.
    pub fn of_copy(view: impl Into<String>, kids: impl IntoIterator<Item = KeyId>, took: Duration) -> Self {
        let keys = EdgeKeys { kids: kids.into_iter().collect(), ..EdgeKeys::default() };
        Self { view: view.into(), edges: [("copy".to_owned(), EdgeObservation::Read(keys))].into(), took }
    }

    /// Of a copy that could not be read.
    pub fn of_unreadable_copy(view: impl Into<String>, why: impl Into<String>, took: Duration) -> Self {
        let edges = [("copy".to_owned(), EdgeObservation::Unreadable(why.into()))].into();
        Self { view: view.into(), edges, took }
    }

    /// Leaves of each edge's keys those to `keep`, and the number of the others: whoever answers there chooses how
    /// many keys he shows, and a record of what we publish needs none of them.
    pub fn keep_only(&mut self, keep: impl Fn(&KeyId) -> bool) {
        for edge in self.edges.values_mut() {
            if let EdgeObservation::Read(keys) = edge {
                let before = keys.kids.len();
                keys.kids.retain(&keep);
                keys.others = keys.others.saturating_add(before - keys.kids.len());
            }
        }
    }
}

/// What one edge said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeObservation {
    /// It was read to the end.
    Read(EdgeKeys),
    /// No answer that says anything about the keys: no connection, no trust, an error of the server.
    Unreadable(String),
}

/// The keys at one edge, and how caches keep them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeKeys {
    /// The keys that a relying party accepts tokens of after this reading; none when the documents are gone.
    pub kids: BTreeSet<KeyId>,
    /// How many more keys are there that do not concern us.
    pub others: usize,
    /// `Age`: how long the older of the two documents had been in a cache.
    pub age: Option<Duration>,
    /// `Cache-Control`: how long one of them may be kept. `None` when nothing was said.
    pub lifetime: Option<Duration>,
}

/// What a writer found in the object store behind a view, before or after it wrote there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginObservation {
    /// The view.
    pub view: String,
    /// What a person calls the origin.
    pub origin: String,
    /// Every key that it held.
    pub kids: BTreeSet<KeyId>,
}
