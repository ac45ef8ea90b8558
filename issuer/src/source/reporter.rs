//! Sends what a source says, when it says something new, and tells operators of every reading.

use chancery_core::KeyRing;
use chancery_core::retention::SourceId;
use chancery_core::ring::RingDecision;
use tokio::sync::mpsc;

use super::SourceEvent;
use super::health::SourceHealth;
use super::parts::Listing;
#[cfg(feature = "kube")]
use chancery_core::token::TokenFacts;

/// The voice of one source. A receiver that is gone is not noticed here: it ends [`Source::run`](super::Source::run).
#[derive(Debug)]
pub(super) struct SourceReporter {
    source: SourceId,
    events: mpsc::Sender<Box<SourceEvent>>,
    health: SourceHealth,
    /// What was listed last, without its error.
    listed: Option<Listing>,
    error: Option<String>,
    /// What was decided last, of a source that decides.
    decided: Option<RingDecision>,
}

impl SourceReporter {
    pub fn new(source: SourceId, events: mpsc::Sender<Box<SourceEvent>>, health: SourceHealth) -> Self {
        Self { source, events, health, listed: None, error: None, decided: None }
    }

    /// The voice of another source at the same place.
    #[cfg(feature = "kube")]
    pub fn sibling(&self, name: &str) -> Self {
        let source = SourceId { position: self.source.position, name: name.to_owned() };
        Self::new(source, self.events.clone(), self.health.clone())
    }

    /// Says what the parts show, then what is wrong with some of them.
    pub async fn report(&mut self, listing: Listing) {
        let error = listing.error.clone();
        let shown = Listing { error: None, ..listing };
        // Of a source that has shown nothing yet, a failure does not say that it is empty.
        let unknown = self.listed.is_none() && shown.keys.is_empty() && error.is_some();
        let changed = !unknown && self.listed.as_ref() != Some(&shown);
        let recovered = error.is_none() && self.error.take().is_some();
        if changed || recovered {
            let Listing { keys, skipped, unread, .. } = shown.clone();
            self.send(SourceEvent::Listed { source: self.source.clone(), keys, skipped, unread }).await;
            self.listed = Some(shown);
            self.error = None;
        }
        match error {
            Some(error) => self.fail(error).await,
            None => self.health.read(&self.source),
        }
    }

    /// Shows operators a ring.
    pub fn shows_ring(&self, ring: &KeyRing) {
        self.health.ring(ring);
    }

    /// Says what is decided. A decision that stays the same is told once.
    pub async fn decide(&mut self, decision: RingDecision) {
        let recovered = self.error.take().is_some();
        if recovered || self.decided.as_ref() != Some(&decision) {
            self.send(SourceEvent::Decided { source: self.source.clone(), decision: decision.clone() }).await;
            self.decided = Some(decision);
        }
        self.health.read(&self.source);
    }

    /// Says that nothing can be read. Each failed reading is counted; it is sent when the error is another one.
    pub async fn fail(&mut self, error: String) {
        let unread = self.listed.iter().flat_map(|listed| &listed.unread);
        self.health.failed(&self.source, &error, unread.count());
        if self.error.as_ref() != Some(&error) {
            self.send(SourceEvent::Failed { source: self.source.clone(), error: error.clone() }).await;
            self.error = Some(error);
        }
    }

    /// Says that what was listed last holds: the source would have told us of a change.
    #[cfg(feature = "kube")]
    pub fn holds(&self) {
        if self.listed.is_some() && self.error.is_none() {
            self.health.read(&self.source);
        }
    }

    /// Whether anybody is told with which key the source signs.
    #[cfg(feature = "kube")]
    pub fn wants_canaries(&self) -> bool {
        self.health.wants_canaries()
    }

    /// Says with which key the source signs, or why that is not known.
    #[cfg(feature = "kube")]
    pub fn canary(&self, canary: Result<TokenFacts, String>) {
        self.health.canary(&self.source, canary);
    }

    /// Says that there is such a source, before it is read.
    #[cfg(feature = "kube")]
    pub async fn found(&self) {
        self.health.found(&self.source);
        self.send(SourceEvent::Found { source: self.source.clone() }).await;
    }

    /// Says that the source is not there any more.
    #[cfg(feature = "kube")]
    pub async fn gone(&self) {
        self.health.gone(&self.source);
        self.send(SourceEvent::Gone { source: self.source.clone() }).await;
    }

    /// Says that whatever [`fail`](Self::fail) said is over, of a source that lists nothing itself.
    #[cfg(feature = "kube")]
    pub fn recovered(&mut self) {
        if self.error.take().is_some() {
            self.health.gone(&self.source);
        }
    }

    async fn send(&self, event: SourceEvent) {
        let _ = self.events.send(Box::new(event)).await;
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::PublicKey;

    use super::*;
    use crate::source::tests::key;

    fn listing(keys: &[PublicKey], error: Option<&str>) -> Listing {
        Listing { keys: keys.to_vec(), error: error.map(str::to_owned), ..Listing::default() }
    }

    /// The events of a series of readings, in short.
    async fn told(readings: Vec<Listing>) -> Vec<String> {
        let (events, mut received) = mpsc::channel(16);
        let source = SourceId { position: 0, name: "s".to_owned() };
        let mut reporter = SourceReporter::new(source, events, SourceHealth::default());
        for reading in readings {
            reporter.report(reading).await;
        }
        drop(reporter);
        let mut told = Vec::new();
        while let Some(event) = received.recv().await {
            told.push(match *event {
                SourceEvent::Listed { keys, .. } => format!("listed {}", keys.len()),
                SourceEvent::Failed { error, .. } => format!("failed {error}"),
                SourceEvent::Decided { decision, .. } => format!("decided {}", decision.keys.len()),
                SourceEvent::Gone { .. } => "gone".to_owned(),
                SourceEvent::Found { .. } => "found".to_owned(),
            });
        }
        told
    }

    #[tokio::test]
    async fn only_news_is_told() {
        let (one, two) = (key(), key());
        let (first, both) = (vec![one.clone()], vec![one, two]);
        for (readings, expected) in [
            (vec![listing(&first, None), listing(&first, None)], vec!["listed 1"]),
            (vec![listing(&first, None), listing(&both, None)], vec!["listed 1", "listed 2"]),
            (vec![listing(&[], None), listing(&[], None)], vec!["listed 0"]),
            (vec![listing(&[], Some("x")), listing(&[], Some("x"))], vec!["failed x"]),
            (
                vec![listing(&first, None), listing(&first, Some("x")), listing(&first, Some("y"))],
                vec!["listed 1", "failed x", "failed y"],
            ),
            (
                vec![listing(&first, Some("x")), listing(&first, None)],
                vec!["listed 1", "failed x", "listed 1"],
            ),
            (
                vec![listing(&first, Some("x")), listing(&both, Some("x"))],
                vec!["listed 1", "failed x", "listed 2", "failed x"],
            ),
        ] {
            assert_eq!(told(readings).await, expected);
        }
    }
}
