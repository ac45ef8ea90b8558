//! The selected objects of a cluster, kept complete by a watch.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use chancery_cluster::access::explain;
use futures_util::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout};

use crate::backoff::Backoff;

/// client-go's reflector waits so long after its first failure, and at most so long.
const PAUSES: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// How often a watch that has nothing to say is taken as a reading.
const QUIET: Duration = Duration::from_secs(30);

type Events<K> = Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>;

/// Every selected object by its name. Nothing is asked before the first [`next`](Self::next).
pub(crate) struct Objects<K> {
    events: Events<K>,
    complete: BTreeMap<String, K>,
    listing: BTreeMap<String, K>,
    backoff: Backoff,
    /// When to try again after a failure.
    resume: Option<Instant>,
}

impl<K> fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("names", &self.complete.keys()).finish_non_exhaustive()
    }
}

impl<K> Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    /// The objects of `api` that `watched` selects.
    pub fn new(api: Api<K>, watched: watcher::Config) -> Self {
        Self::from_events(watcher::watcher(api, watched).fuse().boxed(), Backoff::new(PAUSES.0, PAUSES.1))
    }

    fn from_events(events: Events<K>, backoff: Backoff) -> Self {
        Self { events, complete: BTreeMap::new(), listing: BTreeMap::new(), backoff, resume: None }
    }

    /// The same as [`next`](Self::next), or `None` when nothing was heard for a while: a watch that is broken says so,
    /// so that a quiet one means that everything is as it was.
    pub async fn next_or_quiet(&mut self) -> Option<Result<&BTreeMap<String, K>, String>> {
        timeout(QUIET, self.next()).await.ok()
    }

    /// All objects, as soon as they have changed, or at first as soon as they are known.
    ///
    /// # Errors
    /// Why they cannot be watched. The next call waits a while and tries again. A call may be dropped and made again.
    pub async fn next(&mut self) -> Result<&BTreeMap<String, K>, String> {
        if let Some(resume) = self.resume {
            sleep_until(resume).await;
            self.resume = None;
        }
        loop {
            match self.events.next().await {
                Some(Ok(Event::Init)) => self.listing.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    self.listing.insert(object.name_any(), object);
                }
                Some(Ok(event)) => {
                    self.backoff.reset();
                    self.take(event);
                    return Ok(&self.complete);
                }
                Some(Err(error)) => {
                    self.resume = Some(Instant::now() + self.backoff.next_pause());
                    return Err(explain_watch(&error));
                }
                None => {
                    self.resume = Some(Instant::now() + PAUSES.1);
                    return Err("the watch has ended; restart this process".to_owned());
                }
            }
        }
    }

    fn take(&mut self, event: Event<K>) {
        match event {
            Event::Apply(object) => {
                self.complete.insert(object.name_any(), object);
            }
            Event::Delete(object) => {
                self.complete.remove(&object.name_any());
            }
            Event::InitDone => self.complete = std::mem::take(&mut self.listing),
            Event::Init | Event::InitApply(_) => {}
        }
    }
}

fn explain_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => format!("cannot list: {}", explain(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            format!("cannot watch: {}", explain(error))
        }
        watcher::Error::WatchError(status) => format!("cannot watch: {} ({})", status.message, status.code),
        error @ watcher::Error::NoResourceVersion => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn config_map(name: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object
    }

    #[tokio::test]
    async fn a_listing_counts_when_it_is_complete() {
        let failure = || Err(watcher::Error::NoResourceVersion);
        let events: Vec<watcher::Result<Event<ConfigMap>>> = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(config_map("a"))),
            failure(),
            Ok(Event::Init),
            Ok(Event::InitApply(config_map("b"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(config_map("c"))),
            Ok(Event::Delete(config_map("b"))),
            failure(),
            Ok(Event::Init),
            Ok(Event::InitDone),
        ];
        let at_once = Backoff::new(Duration::ZERO, Duration::ZERO);
        let mut objects = Objects::from_events(futures_util::stream::iter(events).boxed(), at_once);
        let mut seen = Vec::new();
        for _ in 0..7 {
            let names = |objects: &BTreeMap<String, ConfigMap>| objects.keys().cloned().collect::<String>();
            seen.push(objects.next().await.map_or("failed".to_owned(), names));
        }
        assert_eq!(seen, ["failed", "b", "bc", "c", "failed", "", "failed"]);
    }
}
