//! Writes the status of objects: the replica that publishes alone, and only what has changed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::access::explain;
use chancery_cluster::last_said::LastSaid;
use chancery_cluster::limits;
use chancery_core::visibility::Obstacle;
use chancery_core::{IssuerUrl, PublicKey};
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{error, info};

use super::index::SeenObject;
use super::object::IssuerObject;
use super::status::{IssuerStatus, Known};
use super::{Standing, Watched};
use crate::backoff::Backoff;
use crate::conditions::{Condition, Subject};
use crate::config::IssuerConfig;
use crate::metrics::TargetLabels;
use crate::roster::OpenIssuer;

/// Every object that is there.
pub(super) type SeenObjects = Arc<Vec<SeenObject>>;

/// What changes within this time is written together.
const TOGETHER: Duration = Duration::from_secs(1);
/// What says nothing when it changes is looked at so often: keys, and whether they may sign.
const LOOK: Duration = Duration::from_secs(10);
/// The waits between two tries after a failure.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The task that writes.
pub(super) struct StatusWriter {
    api: Api<IssuerObject>,
    seen: watch::Receiver<SeenObjects>,
    watched: Watched,
}

impl fmt::Debug for StatusWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusWriter").field("watched", &self.watched).finish_non_exhaustive()
    }
}

impl StatusWriter {
    /// Writes to the objects of `api`.
    pub fn new(api: Api<IssuerObject>, seen: watch::Receiver<SeenObjects>, watched: Watched) -> Self {
        Self { api, seen, watched }
    }

    /// Runs until the process ends.
    pub async fn run(mut self) {
        let mut changed = self.watched.conditions.subscribe();
        let (mut backoff, mut problem) = (Backoff::new(AGAIN.0, AGAIN.1), LastSaid::default());
        loop {
            changed.mark_unchanged();
            self.seen.mark_unchanged();
            match self.write_all().await {
                Ok(()) => {
                    if problem.forget() {
                        info!("the status of every Issuer object is written again");
                    }
                    backoff.reset();
                    tokio::select! {
                        _ = changed.changed() => {}
                        _ = self.seen.changed() => {}
                        () = self.watched.leading.changed() => {}
                        () = sleep(LOOK) => {}
                    }
                    sleep(TOGETHER).await;
                }
                Err(text) => {
                    if problem.is_new(&text) {
                        error!("{text}");
                    }
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// Writes what is new. One that cannot be written keeps no other from it.
    ///
    /// # Errors
    /// What was said about the last one that could not be written.
    async fn write_all(&mut self) -> Result<(), String> {
        if !self.watched.leading.now() {
            return Ok(());
        }
        let (seen, conditions) = (self.seen.borrow().clone(), self.watched.conditions.conditions());
        let mut standings = BTreeMap::new();
        let mut of_issuers: BTreeMap<&IssuerUrl, Vec<&Condition>> = BTreeMap::new();
        for condition in &conditions {
            match condition.subject.issuer_url() {
                Some(issuer) => of_issuers.entry(issuer).or_default().push(condition),
                None => _ = standings.insert(&condition.subject, condition),
            }
        }
        let opened = self.watched.roster.opened_issuers();
        let mut failed = Ok(());
        for SeenObject { object, good } in seen.iter() {
            // The service may not have heard of it yet.
            let subject = Subject::object(&object.name_any());
            let Some(standing) = standings.get(&subject).copied() else { continue };
            let runs = good.as_ref().filter(|_| Standing::runs(standing.reason)).map(|good| &good.value);
            let url = runs.map(|config| &config.url);
            let known = Known {
                standing,
                conditions: url.and_then(|url| of_issuers.get(url)).cloned().unwrap_or_default(),
                keys: url.and_then(|url| keys(opened.get(url)?)),
                targets: runs.into_iter().flat_map(|config| self.targets(config)).collect(),
            };
            let before = IssuerStatus::read(&object.status);
            let status = IssuerStatus::new(&known, &before, Timestamp::now());
            // Asked again before each: a former leader writes nothing.
            if status != before && self.watched.leading.now() {
                failed = self.write(object, &status).await.and(failed);
            }
        }
        failed
    }

    /// The targets of an issuer, each with its last success.
    fn targets(&self, config: &IssuerConfig) -> Vec<(String, Option<Timestamp>)> {
        let targets = config.targets.iter().map(|target| {
            let name = target.value.to.display_name();
            let success = self.watched.metrics.last_published(&TargetLabels::new(&config.url, &name));
            (name, success)
        });
        targets.collect()
    }

    /// Writes one status, if the object still is what was read: losing is normal, and what it is now is on its way.
    async fn write(&self, object: &IssuerObject, status: &IssuerStatus) -> Result<(), String> {
        let name = object.name_any();
        let refused = |why: String| format!("cannot write the status of the Issuer object {name}: {why}");
        let mut object = object.clone();
        object.status = serde_json::to_value(status).map_err(|error| refused(error.to_string()))?;
        match timeout(limits::CALL, self.api.replace_status(&name, &PostParams::default(), &object)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 404 | 409) => Ok(()),
            Ok(Err(error)) => Err(refused(explain(&error))),
            Err(_) => {
                Err(refused(format!("the API server did not answer within {} s", limits::CALL.as_secs())))
            }
        }
    }
}

/// What an issuer publishes, and what keeps each key from signing.
fn keys(opened: &OpenIssuer) -> Option<Vec<(PublicKey, Vec<Obstacle>)>> {
    let publication = opened.publications.borrow().clone()?;
    let visibility = opened.visibility.borrow();
    let keys = publication.documents.jwks().keys().iter().map(|key| {
        let visible = visibility.is_visible_everywhere(key.key_id(), visibility.usual_wait());
        (key.clone(), visible.err().unwrap_or_default())
    });
    Some(keys.collect())
}
