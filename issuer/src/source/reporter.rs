//! Sends what a source says, when it says something new.

use chancery_core::PublicKey;
use chancery_core::residence::SourceId;
use tokio::sync::mpsc;

use super::SourceEvent;
use super::parts::Reading;

/// The voice of one source. A receiver that is gone is not noticed here: it ends [`Source::run`](super::Source::run).
#[derive(Debug)]
pub(super) struct Reporter {
    source: SourceId,
    events: mpsc::Sender<SourceEvent>,
    listed: Option<(Vec<PublicKey>, Vec<String>)>,
    error: Option<String>,
}

impl Reporter {
    pub fn new(source: SourceId, events: mpsc::Sender<SourceEvent>) -> Self {
        Self { source, events, listed: None, error: None }
    }

    /// The voice of another source at the same place.
    #[cfg(feature = "kube")]
    pub fn sibling(&self, name: &str) -> Self {
        let source = SourceId { position: self.source.position, name: name.to_owned() };
        Self::new(source, self.events.clone())
    }

    /// Says what the parts show, then what is wrong with some of them.
    pub async fn report(&mut self, reading: Reading) {
        let Reading { keys, skipped, error } = reading;
        let shown = (keys, skipped);
        // Of a source that has shown nothing yet, a failure does not say that it is empty.
        let unknown = self.listed.is_none() && shown.0.is_empty() && error.is_some();
        let changed = !unknown && self.listed.as_ref() != Some(&shown);
        let recovered = error.is_none() && self.error.take().is_some();
        if changed || recovered {
            let (keys, skipped) = shown.clone();
            self.send(SourceEvent::Listed { source: self.source.clone(), keys, skipped }).await;
            self.listed = Some(shown);
            self.error = None;
        }
        if let Some(error) = error {
            self.fail(error).await;
        }
    }

    /// Says that nothing can be read.
    pub async fn fail(&mut self, error: String) {
        if self.error.as_ref() != Some(&error) {
            self.send(SourceEvent::Failed { source: self.source.clone(), error: error.clone() }).await;
            self.error = Some(error);
        }
    }

    /// Says that there is such a source, before it is read.
    #[cfg(feature = "kube")]
    pub async fn found(&self) {
        self.send(SourceEvent::Found { source: self.source.clone() }).await;
    }

    /// Says that the source is not there any more.
    #[cfg(feature = "kube")]
    pub async fn gone(&self) {
        self.send(SourceEvent::Gone { source: self.source.clone() }).await;
    }

    async fn send(&self, event: SourceEvent) {
        let _ = self.events.send(event).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::key;

    fn reading(keys: &[PublicKey], error: Option<&str>) -> Reading {
        Reading { keys: keys.to_vec(), skipped: Vec::new(), error: error.map(str::to_owned) }
    }

    /// The events of a series of readings, in short.
    async fn told(readings: Vec<Reading>) -> Vec<String> {
        let (events, mut received) = mpsc::channel(16);
        let mut reporter = Reporter::new(SourceId { position: 0, name: "s".to_owned() }, events);
        for reading in readings {
            reporter.report(reading).await;
        }
        drop(reporter);
        let mut told = Vec::new();
        while let Some(event) = received.recv().await {
            told.push(match event {
                SourceEvent::Listed { keys, .. } => format!("listed {}", keys.len()),
                SourceEvent::Failed { error, .. } => format!("failed {error}"),
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
            (vec![reading(&first, None), reading(&first, None)], vec!["listed 1"]),
            (vec![reading(&first, None), reading(&both, None)], vec!["listed 1", "listed 2"]),
            (vec![reading(&[], None), reading(&[], None)], vec!["listed 0"]),
            (vec![reading(&[], Some("x")), reading(&[], Some("x"))], vec!["failed x"]),
            (
                vec![reading(&first, None), reading(&first, Some("x")), reading(&first, Some("y"))],
                vec!["listed 1", "failed x", "failed y"],
            ),
            (
                vec![reading(&first, Some("x")), reading(&first, None)],
                vec!["listed 1", "failed x", "listed 1"],
            ),
            (
                vec![reading(&first, Some("x")), reading(&both, Some("x"))],
                vec!["listed 1", "failed x", "listed 2", "failed x"],
            ),
        ] {
            assert_eq!(told(readings).await, expected);
        }
    }
}
