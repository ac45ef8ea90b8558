//! Looks at the certificate's files when something happened next to them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

use super::{CertificateStanding, Certificates, Reload, TlsConfig};
use crate::listener::CertificateObserver;

/// How long the directories must be quiet before the files are read: a pair is written as two files.
const QUIET: Duration = Duration::from_millis(100);

/// How often the files are read although nothing was heard, for file systems that do not tell.
const POLL: Duration = Duration::from_secs(60);

/// Reloads `certificates` for as long as it is polled, and tells `observer`. Never ends.
pub async fn watch(certificates: Arc<Certificates>, observer: Arc<dyn CertificateObserver>) {
    let Some(files) = &certificates.files else { return std::future::pending().await };
    let changed = Arc::new(Notify::new());
    // Held until the end: dropping it ends the watch.
    let _watcher = watcher(files, changed.clone())
        .inspect_err(|error| {
            warn!(%error, poll_seconds = POLL.as_secs(), "cannot watch the serving certificate's directory, so it is read on a timer");
        });
    loop {
        // The first look is at once: the files may have changed between their first reading and the watch.
        let reader = certificates.clone();
        if let Ok(reload) = spawn_blocking(move || reader.reload(Timestamp::now())).await {
            let standing = certificates.standing(Timestamp::now());
            log(&reload, &standing);
            observer.looked(&files.certificate, &reload, &standing);
        }
        if timeout(POLL, changed.notified()).await.is_ok() {
            wait_for_quiet(&changed).await;
        }
    }
}

/// Ends when nothing happened for [`QUIET`], or soon all the same in a directory that never rests.
async fn wait_for_quiet(changed: &Notify) {
    for _ in 0..10 {
        if timeout(QUIET, changed.notified()).await.is_err() {
            return;
        }
    }
}

fn watcher(files: &TlsConfig, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| is_change(event.kind)) {
            changed.notify_one();
        }
    })?;
    for directory in files.directories() {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Reading the files is an event too, and must not cause the next reading.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

fn log(reload: &Reload, standing: &CertificateStanding) {
    match reload {
        Reload::Unchanged => {}
        Reload::Replaced => {
            info!(expires = %standing.not_after, "new connections get the new serving certificate");
        }
        Reload::Refused(error) => {
            warn!("the new serving certificate cannot be used, so the old one stays: {error}");
        }
    }
}
