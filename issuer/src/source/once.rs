//! Sources read once, for commands that look and end.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{Source, SourceEvent, SourceHealth};

/// Runs `sources` and hands each event to `take` until that breaks. Returns whether it did within `patience`.
pub async fn read_once(
    sources: Vec<Source>,
    patience: Duration,
    mut take: impl FnMut(SourceEvent) -> ControlFlow<()>,
) -> bool {
    let (events, mut readings) = mpsc::channel(64);
    let mut running = JoinSet::new();
    for source in sources {
        running.spawn(source.run(events.clone(), SourceHealth::default()));
    }
    drop(events);
    let deadline = Instant::now() + patience;
    while let Ok(Some(event)) = timeout_at(deadline, readings.recv()).await {
        if take(*event).is_break() {
            return true;
        }
    }
    false
}
