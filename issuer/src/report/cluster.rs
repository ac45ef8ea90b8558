//! Writes the report of the replica that publishes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::access::{AccessError, ClusterChoice, explain};
use chancery_cluster::last_said::LastSaid;
use chancery_core::marker::MarkerField;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::api::PostParams;
use kube::runtime::events::{Event, EventType, Recorder, Reporter as Controller};
use kube::{Api, Resource as _};
use tokio::sync::watch;
use tracing::{error, info};

use super::text;
use crate::backoff::Backoff;
use crate::conditions::{ConditionStore, Transition};
use crate::config::ReportConfig;
use crate::leadership::{Leading, host_name};

/// What changes within this time is written together.
const TOGETHER: Duration = Duration::from_secs(1);
/// Of more that could not be told, the oldest is dropped.
const UNTOLD: usize = 256;

/// The task that reports.
#[derive(Debug)]
pub struct ConditionReporter {
    config: ReportConfig,
    conditions: Arc<ConditionStore>,
    changed: watch::Receiver<u64>,
    leading: Leading,
    cluster: Cluster,
    untold: Vec<Transition>,
}

struct Cluster {
    config_maps: Api<ConfigMap>,
    recorder: Recorder,
    /// What was written last.
    written: Option<(BTreeMap<String, String>, ObjectReference)>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("written", &self.written).finish_non_exhaustive()
    }
}

impl ConditionReporter {
    /// A reporter to the cluster of the kubeconfig, or the one in which this process is a pod. Connects to nothing yet:
    /// an issuer must start also while its cluster is down.
    ///
    /// # Errors
    /// When the cluster cannot be reached by what is configured.
    pub async fn open(
        config: &ReportConfig,
        base: &Path,
        conditions: Arc<ConditionStore>,
        leading: Leading,
    ) -> Result<Self, ReportError> {
        let choice = ClusterChoice { kubeconfig: config.kubeconfig.as_deref(), context: None, base };
        let client = choice.client().await?;
        let controller = Controller { controller: config.owner.clone(), instance: Some(host_name()) };
        let cluster = Cluster {
            config_maps: Api::namespaced(client.clone(), &config.config_map.namespace),
            recorder: Recorder::new(client, controller),
            written: None,
        };
        let changed = conditions.subscribe();
        Ok(Self { config: config.clone(), conditions, changed, leading, cluster, untold: Vec::new() })
    }

    /// Runs until the process ends.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let mut problem = LastSaid::default();
        loop {
            self.changed.mark_unchanged();
            match self.report().await {
                Ok(()) => {
                    if problem.forget() {
                        info!("the report is written again");
                    }
                    backoff.reset();
                    tokio::select! {
                        changed = self.changed.changed() => if changed.is_err() { return },
                        () = self.leading.changed() => {}
                    }
                    tokio::time::sleep(TOGETHER).await;
                }
                Err(error) => {
                    let text = error.to_string();
                    if problem.is_new(&text) {
                        error!("cannot report: {text}");
                    }
                    tokio::time::sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// Writes what changed. Another replica reports while we do not publish.
    async fn report(&mut self) -> Result<(), ReportError> {
        self.untold.extend(self.conditions.take_untold());
        if !self.leading.now() {
            self.untold.clear();
            self.cluster.written = None;
            return Ok(());
        }
        let excess = self.untold.len().saturating_sub(UNTOLD);
        self.untold.drain(..excess);
        let data = text::data(&self.conditions.conditions());
        let regarding = match &self.cluster.written {
            Some((written, regarding)) if *written == data => regarding.clone(),
            _ => self.write(data).await?,
        };
        if !self.config.events {
            self.untold.clear();
        }
        while let Some(transition) = self.untold.first() {
            self.tell(transition, &regarding).await?;
            self.untold.remove(0);
        }
        Ok(())
    }

    async fn write(&mut self, data: BTreeMap<String, String>) -> Result<ObjectReference, ReportError> {
        let name = &self.config.config_map.name;
        let fail = |error: kube::Error| self.failed("write", &error);
        let found = self.cluster.config_maps.get_opt(name).await.map_err(fail)?;
        let mut config_map = found.ok_or_else(|| ReportError::Missing(self.place()))?;
        may_write(&config_map, &self.config.owner).map_err(|found| ReportError::Foreign {
            place: self.place(),
            found,
            owner: self.config.owner.clone(),
        })?;
        let annotations = config_map.metadata.annotations.get_or_insert_default();
        annotations.insert(MarkerField::Owner.name().to_owned(), self.config.owner.clone());
        config_map.data.get_or_insert_default().extend(data.clone());
        // The resourceVersion that was read goes along: a write in between is a conflict, and everything is read again.
        let written = self.cluster.config_maps.replace(name, &PostParams::default(), &config_map).await;
        let regarding = written.map_err(fail)?.object_ref(&());
        self.cluster.written = Some((data, regarding.clone()));
        Ok(regarding)
    }

    async fn tell(&self, transition: &Transition, regarding: &ObjectReference) -> Result<(), ReportError> {
        let event = Event {
            type_: if transition.alarm { EventType::Warning } else { EventType::Normal },
            reason: transition.reason.to_owned(),
            note: Some(text::note(transition)),
            action: transition.condition.as_str().to_owned(),
            // What repeats is one Event with a count. It is the same thing only if it is about the same subject.
            secondary: Some(ObjectReference {
                field_path: Some(transition.subject.to_string()),
                resource_version: None,
                ..regarding.clone()
            }),
        };
        // The version would tell two Events about the same thing apart.
        let regarding = ObjectReference { resource_version: None, ..regarding.clone() };
        let told = self.cluster.recorder.publish(&event, &regarding).await;
        told.map_err(|error| self.failed("write Events about", &error))
    }

    fn place(&self) -> String {
        format!("ConfigMap {}/{}", self.config.config_map.namespace, self.config.config_map.name)
    }

    fn failed(&self, what: &'static str, error: &kube::Error) -> ReportError {
        ReportError::Refused { what, place: self.place(), cause: explain(error) }
    }
}

/// Whether the ConfigMap is ours, or nobody's and empty. Otherwise what it carries.
fn may_write(config_map: &ConfigMap, owner: &str) -> Result<(), String> {
    let annotations = config_map.metadata.annotations.as_ref();
    let marker = annotations.and_then(|annotations| annotations.get(MarkerField::Owner.name()));
    let has_data = config_map.data.as_ref().is_some_and(|data| !data.is_empty());
    match marker {
        Some(theirs) if theirs == owner => Ok(()),
        Some(theirs) => Err(format!("the annotation {}: {theirs}", MarkerField::Owner.name())),
        None if has_data => Err("data, and nobody's annotation".to_owned()),
        None => Ok(()),
    }
}

/// Why conditions cannot be reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The cluster cannot be reached by what is configured.
    #[error("report: {0}")]
    Cluster(#[from] AccessError),
    /// There is no such ConfigMap.
    #[error("{0} does not exist; make an empty one (`kubectl create configmap`), since we have no right to")]
    Missing(String),
    /// It is somebody else's.
    #[error(
        "{place} carries {found}; expected an empty one or one of {owner}. Give the report a ConfigMap of its own"
    )]
    Foreign {
        /// Which one.
        place: String,
        /// What it carries.
        found: String,
        /// Who we are.
        owner: String,
    },
    /// The API server refused.
    #[error("cannot {what} {place}: {cause}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// On which ConfigMap.
        place: String,
        /// What the API server said.
        cause: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_config_map_or_our_own_is_written() {
        let config_map = |owner: Option<&str>, data: bool| -> ConfigMap {
            let annotations = owner.map(|owner| serde_json::json!({ "chancery-owner": owner }));
            let data = if data { serde_json::json!({ "a": "b" }) } else { serde_json::json!({}) };
            let object = serde_json::json!({ "metadata": { "annotations": annotations }, "data": data });
            serde_json::from_value(object).unwrap()
        };
        for (owner, data, may) in
            [(None, false, true), (None, true, false), (Some("us"), true, true), (Some("them"), false, false)]
        {
            assert_eq!(may_write(&config_map(owner, data), "us").is_ok(), may, "{owner:?} {data}");
        }
    }
}
