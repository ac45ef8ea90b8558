//! Which key is seen from outside, where, and for how long without a gap: the record that lets a key sign.
//!
//! A *view* is a place that relying parties read: the issuer URL, the public URL of a target, an uploaded copy. An
//! *edge* is one way to read it: each address of its host, as caches answer there and past them. One reading of all
//! edges of a view is a [`Sighting`].
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. An edge that was read and does not show a key is a gap: the time of that key in that view starts again from
//!    nothing. One edge is enough, whatever the others show: somebody reads it. So is a key that our own writer finds
//!    missing in what stands behind the view, although no edge has been asked in that moment.
//! 2. An edge that could not be read proves neither. Nobody else gets a set without the key from it, so nothing is
//!    lost; but nothing is proven, so no time runs for the view until all its edges are read again. The same holds for
//!    a view without a single edge.
//! 3. Time runs between two sightings in which every edge was read and showed the key: from the end of the first to
//!    the start of the last. What a sighting takes counts only once the next one has confirmed it.
//! 4. Two sightings further apart than the record's patience prove nothing about the time between them. It does not
//!    count, and nor does the time in which this process did not run.
//! 5. An edge is an edge as long as the view lists it: name services hand out other addresses every minute. One that
//!    left with an old set in its hands is covered by the wait itself, which is never shorter than the longest time
//!    for which that set may be kept.
//! 6. The longest time for which a document might be kept by a cache is remembered for good, also over a restart. No
//!    wait is shorter than that, whatever is asked for.
//! 7. Time is an argument. It is accumulated by a monotonic clock of the caller and only ever delays.
//!
//! [`Visibility::is_visible_everywhere`] is what a rotation asks before a key may sign: every view shows the key on
//! every edge now, and has done so for long enough.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::KeyId;

mod obstacle;
mod record;

pub use obstacle::Obstacle;
pub use record::{UnknownVersion, VisibilityRecord};

/// One reading of every edge of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// What a person calls the view.
    pub view: String,
    /// The edges by name, in any order.
    pub edges: BTreeMap<String, EdgeSight>,
    /// From the start of the first read to the end of the last.
    pub took: Duration,
}

impl Sighting {
    /// The sighting of a view with a single edge: a copy of the key set that was read whole, as an uploaded one.
    pub fn of_copy(view: impl Into<String>, kids: impl IntoIterator<Item = KeyId>, took: Duration) -> Self {
        let seen = Seen { kids: kids.into_iter().collect(), ..Seen::default() };
        Self { view: view.into(), edges: [("copy".to_owned(), EdgeSight::Read(seen))].into(), took }
    }

    /// The sighting of a copy that could not be read.
    pub fn of_unreadable_copy(view: impl Into<String>, why: impl Into<String>, took: Duration) -> Self {
        let edges = [("copy".to_owned(), EdgeSight::Unreadable(why.into()))].into();
        Self { view: view.into(), edges, took }
    }
}

/// What one edge said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeSight {
    /// It was read to the end.
    Read(Seen),
    /// No answer that says anything about the keys: no connection, no trust, an error of the server.
    Unreadable(String),
}

/// A reading of one edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The keys that a relying party accepts tokens of after this reading; none when the documents are gone.
    pub kids: BTreeSet<KeyId>,
    /// `Age`: how long the older of the two documents had been in a cache.
    pub age: Option<Duration>,
    /// `Cache-Control`: how long one of them may be kept. `None` when nothing was said.
    pub max_age: Option<Duration>,
}

/// What a sighting changed.
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
    /// The longest time for which a document may be kept has grown.
    LongestMaxAge(Duration),
}

/// The record of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visibility {
    patience: Duration,
    views: BTreeMap<String, View>,
    /// Also of views that are not listed any more.
    longest_max_age: Option<Duration>,
}

/// What is known of one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    keys: BTreeMap<KeyId, KeyTime>,
    edges: BTreeMap<String, EdgeSight>,
    longest_max_age: Option<Duration>,
    /// Time since the end of the last sighting; `None` before the first one of this process.
    unseen_for: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KeyTime {
    visible_for: Duration,
    /// Whether the last sighting showed the key on every edge.
    running: bool,
    /// What that sighting took, if it was not the first such: it is confirmed by the next.
    unconfirmed: Duration,
}

impl KeyTime {
    /// Takes a sighting on every edge, which took `took` and ended `apart` after the last sighting. Whether time
    /// runs only from now on.
    fn seen(&mut self, took: Duration, apart: Option<Duration>) -> bool {
        let appeared = !self.running;
        match apart.filter(|_| self.running) {
            Some(apart) => {
                let confirmed = apart.saturating_add(self.unconfirmed).saturating_sub(took);
                self.visible_for = self.visible_for.saturating_add(confirmed);
                self.unconfirmed = took;
            }
            None => self.unconfirmed = Duration::ZERO,
        }
        self.running = true;
        appeared
    }

    fn pause(&mut self) {
        *self = Self { visible_for: self.visible_for, ..Self::default() };
    }
}

impl Visibility {
    /// An empty record of these views. Two sightings of a view further apart than `patience` do not connect.
    pub fn new<V: Into<String>>(views: impl IntoIterator<Item = V>, patience: Duration) -> Self {
        let views = views.into_iter().map(|view| (view.into(), View::default())).collect();
        Self { patience, views, longest_max_age: None }
    }

    /// Lets time pass.
    pub fn elapse(&mut self, elapsed: Duration) {
        for view in self.views.values_mut() {
            view.unseen_for = view.unseen_for.map(|time| time.saturating_add(elapsed));
        }
    }

    /// Takes a sighting that has just ended, and says what it changed. A view that was not listed is from now on.
    pub fn observe(&mut self, sighting: Sighting) -> Vec<Change> {
        let Sighting { view, edges, took } = sighting;
        let view = self.views.entry(view).or_default();
        let mut changes = view.observe(edges, (took, self.patience));
        if view.longest_max_age > self.longest_max_age {
            self.longest_max_age = view.longest_max_age;
            changes.extend(self.longest_max_age.map(Change::LongestMaxAge));
        }
        changes
    }

    /// Takes what a writer found: that `origin`, which stands behind a view, lacks these keys. It counts as an edge that
    /// does not show them until the view is seen again.
    pub fn found_missing(&mut self, view: &str, origin: &str, kids: &BTreeSet<KeyId>) -> Vec<Change> {
        let Some(view) = self.views.get_mut(view).filter(|_| !kids.is_empty()) else { return Vec::new() };
        let mut changes = Vec::new();
        for kid in kids {
            let lost = view.keys.remove(kid).unwrap_or_default();
            if lost != KeyTime::default() {
                let (kid, edge) = (kid.clone(), origin.to_owned());
                changes.push(Change::Gap { kid, edge, after: lost.visible_for });
            }
        }
        if view.unseen_for.is_some() {
            let shown: BTreeSet<KeyId> =
                read(&view.edges).flat_map(|(_, seen)| &seen.kids).cloned().collect();
            let seen = Seen { kids: shown.difference(kids).cloned().collect(), ..Seen::default() };
            view.edges.insert(origin.to_owned(), EdgeSight::Read(seen));
        }
        changes
    }

    /// Whether every view shows a key on every edge now, and has done so without a gap for `for_at_least`, and for the
    /// longest time for which a document may be kept if that is longer.
    ///
    /// # Errors
    /// Everything that is in the way, by view and edge.
    pub fn is_visible_everywhere(&self, kid: &KeyId, for_at_least: Duration) -> Result<(), Vec<Obstacle>> {
        let needed = self.wait(for_at_least);
        let mut obstacles = Vec::new();
        if self.views.is_empty() {
            obstacles.push(Obstacle::NoView);
        }
        for (name, view) in &self.views {
            obstacles.extend(view.obstacles(kid, (name, needed, self.patience)));
        }
        if obstacles.is_empty() { Ok(()) } else { Err(obstacles) }
    }

    /// The wait that is kept when `asked` is asked for: never shorter than [`Self::longest_max_age`].
    pub fn wait(&self, asked: Duration) -> Duration {
        asked.max(self.longest_max_age().unwrap_or_default())
    }

    /// The longest time for which a document that was ever served may be kept, in any view.
    pub fn longest_max_age(&self) -> Option<Duration> {
        self.longest_max_age
    }

    /// The views by name.
    pub fn views(&self) -> impl Iterator<Item = (&str, &View)> {
        self.views.iter().map(|(name, view)| (name.as_str(), view))
    }
}

impl View {
    /// The keys with the time for which each was seen without a gap.
    pub fn keys(&self) -> impl Iterator<Item = (&KeyId, Duration)> {
        self.keys.iter().map(|(kid, key)| (kid, key.visible_for))
    }

    /// Whether every edge showed the key when they were read last.
    pub fn shows(&self, kid: &KeyId) -> bool {
        self.keys.get(kid).is_some_and(|key| key.running)
    }

    /// What the edges said last; none before the first sighting of this process.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &EdgeSight)> {
        self.edges.iter().map(|(name, edge)| (name.as_str(), edge))
    }

    /// How many edges could be read last.
    pub fn edges_read(&self) -> usize {
        read(&self.edges).count()
    }

    /// The longest time for which a document that was ever served here may be kept.
    pub fn longest_max_age(&self) -> Option<Duration> {
        self.longest_max_age
    }

    /// Time since the last sighting; `None` before the first one of this process.
    pub fn unseen_for(&self) -> Option<Duration> {
        self.unseen_for
    }

    fn observe(
        &mut self,
        edges: BTreeMap<String, EdgeSight>,
        (took, patience): (Duration, Duration),
    ) -> Vec<Change> {
        let apart = self.unseen_for.filter(|apart| *apart <= patience);
        let all_read = !edges.is_empty() && read(&edges).count() == edges.len();
        let shown: BTreeSet<KeyId> = read(&edges).flat_map(|(_, seen)| &seen.kids).cloned().collect();
        let known: BTreeSet<KeyId> = self.keys.keys().chain(&shown).cloned().collect();
        let mut changes = Vec::new();
        for kid in known {
            let key = self.keys.entry(kid.clone()).or_default();
            let missing = read(&edges).find(|(_, seen)| !seen.kids.contains(&kid));
            match missing {
                Some((edge, _)) => {
                    let lost = std::mem::take(key);
                    if lost != KeyTime::default() {
                        changes.push(Change::Gap { kid, edge: edge.clone(), after: lost.visible_for });
                    }
                }
                None if !all_read => key.pause(),
                None if key.seen(took, apart) => changes.push(Change::Appeared { kid }),
                None => {}
            }
        }
        // A key that nobody shows any more is as one that nobody ever showed.
        self.keys.retain(|kid, key| *key != KeyTime::default() || shown.contains(kid));
        self.longest_max_age =
            self.longest_max_age.max(read(&edges).filter_map(|(_, seen)| seen.max_age).max());
        self.edges = edges;
        self.unseen_for = Some(Duration::ZERO);
        changes
    }
}

fn read(edges: &BTreeMap<String, EdgeSight>) -> impl Iterator<Item = (&String, &Seen)> {
    edges.iter().filter_map(|(name, edge)| match edge {
        EdgeSight::Read(seen) => Some((name, seen)),
        EdgeSight::Unreadable(_) => None,
    })
}
