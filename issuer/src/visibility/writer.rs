//! The record in the hands of the replica that publishes.

use std::collections::BTreeSet;

use chancery_cluster::cell::{Cell, CellError, LaterFields, Stored, Swap, Version};
use chancery_core::visibility::{Change, Visibility};
use chancery_core::{IssuerUrl, KeyId};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{ObservationEvent, RecordSettings, VisibilityDocument};
use crate::published_history::PublishedHistory;

/// What this replica observes, and what it knows of the document.
pub(super) struct Writer {
    issuer: IssuerUrl,
    record: Visibility,
    later: LaterFields,
    version: Option<Version>,
    /// Up to when time was let pass.
    counted: Instant,
    /// The keys that were seen for any time, by view: one that is missed then was there.
    seen_once: BTreeSet<(String, KeyId)>,
    written: Option<Written>,
}

/// What was written last.
struct Written {
    at: Instant,
    history: u64,
}

impl Writer {
    /// Goes on from what is stored.
    pub fn begin(
        issuer: &IssuerUrl,
        settings: &RecordSettings,
        stored: Option<Stored<VisibilityDocument>>,
        history: &PublishedHistory,
    ) -> Self {
        let (document, version) = match stored {
            Some(stored) => (stored.document, Some(stored.version)),
            None => (VisibilityDocument::begin(issuer.clone()), None),
        };
        let views = settings.views.iter().map(String::as_str);
        let mut record = Visibility::restore(views, settings.longest_gap, &document.record);
        if let Some(limit) = settings.longest_lifetime {
            record.limit_lifetimes(limit);
        }
        history.restore(&document.published);
        let mut writer = Self {
            issuer: issuer.clone(),
            record,
            later: document.later,
            version,
            counted: Instant::now(),
            seen_once: BTreeSet::new(),
            written: None,
        };
        writer.note_seen();
        writer
    }

    pub fn record(&self) -> &Visibility {
        &self.record
    }

    /// Up to when time was let pass.
    pub fn counted(&self) -> Instant {
        self.counted
    }

    pub fn was_seen(&self, view: &str, kid: &KeyId) -> bool {
        self.seen_once.contains(&(view.to_owned(), kid.clone()))
    }

    /// Whether a view was ever read from outside.
    pub fn was_looked_at(&self, view: &str) -> bool {
        let record = self.record.record();
        record.views().any(|(name, view_record)| name == view && view_record.read_seconds_ago.is_some())
    }

    /// Takes an event about the keys that are `wanted`, and returns its view. What it changes is written at once.
    pub fn take(&mut self, event: ObservationEvent, wanted: impl Fn(&KeyId) -> bool) -> String {
        self.record.keep_only(&wanted);
        let (view, changes) = match event {
            ObservationEvent::Edges { mut observation, ended } => {
                self.record.elapse(ended.saturating_duration_since(self.counted));
                self.counted = self.counted.max(ended);
                observation.keep_only(&wanted);
                (observation.view.clone(), self.record.observe(observation))
            }
            ObservationEvent::Origin(mut observation) => {
                observation.kids.retain(&wanted);
                (observation.view.clone(), self.record.observe_origin(observation))
            }
        };
        if !changes.is_empty() {
            self.written = None;
        }
        changes.iter().for_each(|change| self.say(&view, change));
        self.note_seen();
        view
    }

    fn note_seen(&mut self) {
        for (name, view) in self.record.record().views() {
            let seen = view.keys.iter().filter(|(_, key)| key.visible_seconds > 0);
            self.seen_once.extend(seen.map(|(kid, _)| (name.to_owned(), kid.clone())));
        }
    }

    fn say(&self, view: &str, change: &Change) {
        let issuer = &self.issuer;
        match change {
            Change::Appeared { kid } => info!(%issuer, view, %kid, "every edge shows this key"),
            Change::Gap { kid, edge, after } => {
                warn!(%issuer, view, %kid, edge, seconds = after.as_secs(), "a key is not shown any more, its time starts again");
            }
            Change::LongestLifetime(Some(longest)) => {
                info!(%issuer, view, seconds = longest.as_secs(), "a cache may hold for so long what was served; no key may sign sooner after its publication than twice that");
            }
            Change::LongestLifetime(None) => info!(%issuer, view, "no cache may hold anything any more"),
        }
    }

    /// Whether something is to be written: a change, or nothing for as long as `pace`.
    pub fn is_due(&self, settings: &RecordSettings, history: &PublishedHistory) -> bool {
        self.written.as_ref().is_none_or(|written| {
            written.at.elapsed() >= settings.pace() || written.history != history.revision()
        })
    }

    /// Writes what is known. Where another replica has written since, what it says counts from now on.
    pub async fn write(
        &mut self,
        cell: &Cell<VisibilityDocument>,
        settings: &RecordSettings,
        history: &PublishedHistory,
    ) -> Result<(), CellError> {
        let written = Written { at: Instant::now(), history: history.revision() };
        let document = VisibilityDocument {
            issuer: self.issuer.clone(),
            record: self.record.record(),
            published: history.record(),
            later: self.later.clone(),
        };
        match cell.swap(&document, self.version.as_ref()).await? {
            Swap::Swapped(version) => (self.version, self.written) = (Some(version), Some(written)),
            Swap::Lost(None) => self.version = None,
            // A write of ours whose answer was lost, or of one that has stood down since.
            Swap::Lost(Some(older))
                if older.document.record.observations() <= document.record.observations() =>
            {
                self.version = Some(older.version);
            }
            Swap::Lost(Some(theirs)) => {
                info!(issuer = %self.issuer, "another replica has written the visibility record; going on from there");
                *self = Self::begin(&self.issuer, settings, Some(theirs), history);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chancery_cluster::cell::{CellStore, StoreMode};
    use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation, OriginObservation};

    use super::*;
    use crate::visibility::VISIBILITY;

    const KID: &str = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU";

    fn settings() -> RecordSettings {
        RecordSettings {
            views: vec!["issuer URL".to_owned()],
            longest_gap: Duration::from_secs(180),
            every: Duration::from_secs(60),
            longest_lifetime: None,
            usual_wait: Duration::from_secs(960),
        }
    }

    fn issuer() -> IssuerUrl {
        "https://id.example.com".parse().unwrap()
    }

    /// A look that ends so many seconds after the writer began, and shows the key with a `max-age` of a minute.
    fn look(writer: &Writer, seconds: u64) -> ObservationEvent {
        let keys = EdgeKeys {
            kids: [KID.parse().unwrap()].into(),
            lifetime: Some(Duration::from_secs(60)),
            ..EdgeKeys::default()
        };
        let edges = [("192.0.2.1".to_owned(), EdgeObservation::Read(keys))].into();
        let view = "issuer URL".to_owned();
        let observation = Observation { view, edges, took: Duration::ZERO };
        ObservationEvent::Edges { observation, ended: writer.counted() + Duration::from_secs(seconds) }
    }

    fn seconds_visible(writer: &Writer) -> (u64, u64) {
        let record = writer.record().record();
        let key = record.views().next().unwrap().1.keys[&KID.parse().unwrap()];
        (key.visible_seconds, key.unbroken_seconds)
    }

    #[tokio::test]
    async fn whoever_publishes_next_goes_on_from_what_was_accumulated_and_remembers_the_caches() {
        let directory = tempfile::tempdir().unwrap();
        let store = CellStore::directory(directory.path(), StoreMode::ReadWrite).await.unwrap();
        let cell = store.cell::<VisibilityDocument>(issuer().as_str(), VISIBILITY);
        let (settings, history) = (settings(), PublishedHistory::default());
        let mut first = Writer::begin(&issuer(), &settings, cell.load().await.unwrap(), &history);
        for _ in 0..3 {
            let event = look(&first, 60);
            first.take(event, |_| true);
        }
        assert!(first.is_due(&settings, &history));
        first.write(&cell, &settings, &history).await.unwrap();
        assert!(!first.is_due(&settings, &history), "nothing has changed since");

        let mut second = Writer::begin(&issuer(), &settings, cell.load().await.unwrap(), &history);
        assert_eq!((seconds_visible(&first), seconds_visible(&second)), ((120, 120), (120, 0)));
        assert_eq!(second.record().record().longest_lifetime(), Some(Duration::from_secs(60)));
        assert!(second.was_seen("issuer URL", &KID.parse().unwrap()));
        for _ in 0..2 {
            let event = look(&second, 60);
            second.take(event, |_| true);
        }
        second.write(&cell, &settings, &history).await.unwrap();
        assert_eq!(seconds_visible(&second), (180, 60));

        // The first one has slept meanwhile: what it knew is older.
        first.write(&cell, &settings, &history).await.unwrap();
        assert_eq!(seconds_visible(&first), (180, 0));
    }

    #[test]
    fn what_a_writer_of_ours_finds_is_no_look_from_outside() {
        let mut writer = Writer::begin(&issuer(), &settings(), None, &PublishedHistory::default());
        let (view, origin, kids) =
            ("issuer URL".to_owned(), "target www".to_owned(), [KID.parse().unwrap()].into());
        writer.take(ObservationEvent::Origin(OriginObservation { view, origin, kids }), |_| true);
        assert!(!writer.was_looked_at("issuer URL"));
        let event = look(&writer, 60);
        writer.take(event, |_| true);
        assert!(writer.was_looked_at("issuer URL") && !writer.was_looked_at("another"));
    }

    #[tokio::test]
    async fn a_write_whose_answer_was_lost_costs_no_time() {
        let directory = tempfile::tempdir().unwrap();
        let store = CellStore::directory(directory.path(), StoreMode::ReadWrite).await.unwrap();
        let cell = store.cell::<VisibilityDocument>(issuer().as_str(), VISIBILITY);
        let (settings, history) = (settings(), PublishedHistory::default());
        let mut writer = Writer::begin(&issuer(), &settings, None, &history);
        for _ in 0..3 {
            let event = look(&writer, 60);
            writer.take(event, |_| true);
        }
        writer.write(&cell, &settings, &history).await.unwrap();
        writer.version = None;
        let event = look(&writer, 60);
        writer.take(event, |_| true);
        for _ in 0..2 {
            writer.write(&cell, &settings, &history).await.unwrap();
        }
        assert_eq!(seconds_visible(&writer), (180, 180));
        let stored = cell.load().await.unwrap().unwrap().document;
        assert_eq!(stored.record, writer.record().record());
    }
}
