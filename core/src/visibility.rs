//! Which key is seen from outside, where, and for how long without a gap: the record that lets a key sign.
//!
//! A *view* is a place that relying parties read: the issuer URL, the public URL of a target, an uploaded copy. An
//! *edge* is one way to read it: each address of each host on the way to the keys, as caches answer there and past
//! them. One reading of all edges of a view is an [`Observation`]. What a writer finds in the object store behind a
//! view is an [`OriginObservation`].
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. An edge that was read and does not show a key is a gap: the time of that key in that view starts again from
//!    nothing. One edge is enough, whatever the others show: somebody reads it. So is an origin that our writer read
//!    without the key, although no edge has been asked in that moment; and it stays one of the edges, with what it held
//!    last, as long as that reading is not older than the longest gap.
//! 2. An observation in which an edge could not be read, or that has no edge, proves nothing but the gaps that it found:
//!    it counts as if it had not been made.
//! 3. Time runs between two observations that read every edge and found the key at each: from the end of the first to
//!    the start of the last. What an observation takes counts only once the next one has confirmed it.
//! 4. Two observations further apart than the *longest gap* prove nothing about the time between them: it was not
//!    observed. It does not count, nor does the time in which no writer of the record ran. What was seen before stays in
//!    the accumulated time of the key, but its *unbroken* time starts again: in an interval that nobody observed, a
//!    cache may have taken up a set without the key.
//! 5. The longest time for which an answer may be kept by a cache (`max-age`, RFC 9111, and what RFC 5861 adds to it) is
//!    remembered over restarts, and over views that are not listed any more, until nobody who obeys it can hold the
//!    answer: until it has passed twice, by rule 6, in observations that did not see it served.
//! 6. A cache that we do not see (another site of a CDN, an address that the name service does not list any more) may hand
//!    out an old answer until its time is over, to a relying party that keeps it for as long again. So a key must have
//!    been visible for the longest such time beside the wait that is asked for, see [`VisibilityRecord::wait`].
//! 7. The time that the longest caches need must be unbroken. A wait of more than [`UNBROKEN_AT_MOST`] is caution
//!    beyond every cache that is known, and the rest of it may be accumulated.
//! 8. Time is an argument. It is accumulated by a monotonic clock of the caller and only ever delays.
//!
//! [`VisibilityRecord::is_visible_everywhere`] is what a rotation asks before a key may sign: every view shows the key on
//! every edge now, and has done so for long enough. A process that does not observe, but reads the record that another
//! one writes, asks through a [`RecordReader`].

use std::collections::BTreeMap;
use std::time::Duration;

use crate::KeyId;

mod lifetimes;
mod observation;
mod obstacle;
mod proven;
mod reader;
mod record;
mod view;

pub use lifetimes::{LONGEST_LIFETIME, UNBROKEN_AT_MOST};
pub use observation::{EdgeKeys, EdgeObservation, Observation, OriginObservation};
pub use obstacle::Obstacle;
pub use reader::RecordReader;
pub use record::{EdgeRecord, KeyRecord, ViewRecord, VisibilityRecord};

use lifetimes::CacheLifetimes;
use view::ObservedView;

/// What an observation changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Every edge of the view shows the key now, and its time starts.
    Appeared {
        /// The key.
        kid: KeyId,
    },
    /// A key that every edge had shown is missing, and its time starts again.
    Gap {
        /// The key.
        kid: KeyId,
        /// One of the edges that do not show it.
        edge: String,
        /// The time that is lost.
        after: Duration,
    },
    /// Another time is now the longest for which an answer may be kept; `None` when none is remembered any more.
    LongestLifetime(Option<Duration>),
}

/// The record of one issuer in the hands of its one writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visibility {
    bounds: Bounds,
    /// Boxed: a node of the map has room for eleven, and most issuers have one.
    views: BTreeMap<String, Box<ObservedView>>,
    /// Of views that are not listed any more.
    former: CacheLifetimes,
    /// How many observations were taken, over restarts.
    observations: u64,
}

/// What holds for every view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    longest_gap: Duration,
    longest_lifetime: Duration,
}

impl Visibility {
    /// An empty record of these views. Two observations of a view further apart than `longest_gap` do not connect.
    pub fn new<V: Into<String>>(views: impl IntoIterator<Item = V>, longest_gap: Duration) -> Self {
        let views = views.into_iter().map(|view| (view.into(), Box::default())).collect();
        let bounds = Bounds { longest_gap, longest_lifetime: LONGEST_LIFETIME };
        Self { bounds, views, former: CacheLifetimes::default(), observations: 0 }
    }

    /// Takes no header's word for more than `limit`, neither from now on nor of what is remembered: the way out after a
    /// header that was far too long was served by mistake and every cache that may hold it was purged, or when caches
    /// are known not to keep anything for so long.
    pub fn limit_lifetimes(&mut self, limit: Duration) {
        self.bounds.longest_lifetime = limit.min(LONGEST_LIFETIME);
        self.former.limit_to(self.bounds.longest_lifetime);
        self.views.values_mut().for_each(|view| view.limit_lifetimes(self.bounds.longest_lifetime));
    }

    /// Lets time pass.
    pub fn elapse(&mut self, elapsed: Duration) {
        self.former.pass(elapsed);
        self.views.values_mut().for_each(|view| view.elapse(elapsed));
    }

    /// Takes an observation that has just ended, and says what it changed. A view that was not listed is from now on.
    pub fn observe(&mut self, observation: Observation) -> Vec<Change> {
        let Observation { view, edges, took } = observation;
        let before = self.longest_lifetime();
        let observed = self.views.entry(view).or_default();
        let mut changes = observed.observe(edges, took, self.bounds);
        self.observations = self.observations.saturating_add(1);
        let longest = self.longest_lifetime();
        changes.extend((longest != before).then_some(Change::LongestLifetime(longest)));
        changes
    }

    /// Takes what a writer found behind a view, and says which keys lost their time by it.
    pub fn observe_origin(&mut self, observation: OriginObservation) -> Vec<Change> {
        let OriginObservation { view, origin, kids } = observation;
        let Some(view) = self.views.get_mut(&view) else { return Vec::new() };
        self.observations = self.observations.saturating_add(1);
        view.observe_origin(origin, kids)
    }

    /// Forgets keys that nobody publishes any more; one that comes back starts from nothing.
    pub fn keep_only(&mut self, keep: impl Fn(&KeyId) -> bool) {
        self.views.values_mut().for_each(|view| view.keep_only(&keep));
    }

    /// Everything that is known, as it is written down and asked.
    pub fn record(&self) -> VisibilityRecord {
        VisibilityRecord::of(self)
    }

    /// The longest time for which an answer may still be held by a cache, of whatever view.
    fn longest_lifetime(&self) -> Option<Duration> {
        let views = self.views.values().map(|view| view.lifetimes().longest());
        views.chain([self.former.longest()]).max().flatten()
    }
}
