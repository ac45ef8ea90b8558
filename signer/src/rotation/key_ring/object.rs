//! The object in its cluster: its spec is read, its status written, Events are told about it.

use std::path::Path;

use chancery_cluster::access::{AccessError, ClusterChoice, client, explain};
use chancery_cluster::cell::ConfigMapsConfig;
use chancery_cluster::limits;
use chancery_core::ring::Step;
use chancery_core::rotation::PlannedStep;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Resource as _};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::status::{BLOCKED, Known, Status};

/// How we call ourselves in Events.
const CONTROLLER: &str = "chancery.dev/key-ring";

/// A `KeyRing` that is followed.
pub struct KeyRingObject {
    api: Api<DynamicObject>,
    recorder: Recorder,
    resource: ApiResource,
    namespace: String,
    name: String,
    /// As it was read in this round.
    read: Option<DynamicObject>,
}

impl std::fmt::Debug for KeyRingObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRingObject").field("place", &self.place()).finish_non_exhaustive()
    }
}

/// Which spec an object has: it changes with every change of the spec, and with another object of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecVersion {
    uid: Option<String>,
    /// `metadata.generation`.
    pub generation: i64,
}

impl KeyRingObject {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When the cluster cannot be reached by what is configured.
    pub async fn open(at: &ConfigMapsConfig, base: &Path) -> Result<Self, KeyRingError> {
        let choice = ClusterChoice { kubeconfig: at.kubeconfig.as_deref(), context: None, base };
        let access = choice.config().await?;
        let namespace = at.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
        let client = client(access)?;
        let kind = GroupVersionKind::gvk("chancery.dev", "v1alpha1", "KeyRing");
        let resource = ApiResource::from_gvk_with_plural(&kind, "keyrings");
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: None };
        Ok(Self {
            api: Api::namespaced_with(client.clone(), &namespace, &resource),
            recorder: Recorder::new(client, reporter),
            resource,
            namespace,
            name: at.name.clone(),
            read: None,
        })
    }

    /// Where it is, for a person.
    pub fn place(&self) -> String {
        format!("KeyRing {}/{}", self.namespace, self.name)
    }

    /// Its spec.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub async fn spec(&mut self) -> Result<(SpecVersion, Map<String, Value>), KeyRingError> {
        let found = self.within_time("get", self.api.get_opt(&self.name)).await?;
        let object = found.ok_or_else(|| KeyRingError::Missing(self.place()))?;
        let version = SpecVersion {
            uid: object.metadata.uid.clone(),
            generation: object.metadata.generation.unwrap_or_default(),
        };
        let spec = object.data.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        self.read = Some(object);
        Ok((version, spec))
    }

    /// Writes the status if it has changed. Of several that rotate, one writes it, and tells what it newly says.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn report(&mut self, known: &Known<'_>) -> Result<(), KeyRingError> {
        let Some(mut object) = self.read.take() else { return Ok(()) };
        let before: Status = object
            .data
            .get("status")
            .cloned()
            .and_then(|status| serde_json::from_value(status).ok())
            .unwrap_or_default();
        let status = Status::new(known, &before, Timestamp::now());
        let regarding = ObjectReference { resource_version: None, ..object.object_ref(&self.resource) };
        if status != before {
            let rendered = serde_json::to_value(&status).unwrap_or_default();
            if let Value::Object(members) = &mut object.data {
                members.insert("status".to_owned(), rendered);
            }
            // On the condition that it still is what was read: losing is normal.
            let parameters = PostParams::default();
            let write = self.api.replace_status(&self.name, &parameters, &object);
            match timeout(limits::CALL, write).await {
                Ok(Ok(_)) => self.tell_blocked(&regarding, (&before, &status)).await?,
                Ok(Err(kube::Error::Api(answer))) if answer.code == 409 => {}
                Ok(Err(error)) => return Err(self.refused("update the status of", explain(&error))),
                Err(_) => return Err(self.silent("update the status of")),
            }
        }
        Ok(())
    }

    /// Tells of a step that this process has taken.
    ///
    /// # Errors
    /// When no Event can be written.
    pub async fn tell(&self, PlannedStep { step, because }: &PlannedStep) -> Result<(), KeyRingError> {
        let (reason, is_alarm) = match step {
            Step::Make(_) | Step::Import(_) => return Ok(()),
            Step::Enter(_) => ("KeyEntered", false),
            Step::Publish(_) => ("KeyPublished", false),
            Step::Activate(_) => ("KeyActivated", false),
            Step::KeepForVerifying(_) => ("KeyVerifyOnly", false),
            Step::Retire(_) => ("KeyRetired", false),
            Step::Withdraw(_) => ("KeyWithdrawn", false),
            Step::Revoke(_) => ("KeyRevoked", true),
            Step::Destroy(_) => ("KeyDestroyed", false),
        };
        let found = self.within_time("get", self.api.get_opt(&self.name)).await?;
        let object = found.ok_or_else(|| KeyRingError::Missing(self.place()))?;
        let regarding = ObjectReference { resource_version: None, ..object.object_ref(&self.resource) };
        let event = Event {
            type_: if is_alarm { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(format!("{step}, since {because}")),
            action: "Rotate".to_owned(),
            // What repeats is one Event with a count; another key is another thing.
            secondary: Some(about(&regarding, step.kid().map(ToString::to_string))),
        };
        self.within_time("write Events about", self.recorder.publish(&event, &regarding)).await
    }

    /// Tells what holds a rotation back, when that is new.
    async fn tell_blocked(
        &self,
        regarding: &ObjectReference,
        (before, status): (&Status, &Status),
    ) -> Result<(), KeyRingError> {
        let Some(now) = status.condition(BLOCKED).filter(|condition| condition.holds()) else {
            return Ok(());
        };
        let is_known = |earlier: &super::status::Condition| earlier.holds() && earlier.reason == now.reason;
        if before.condition(BLOCKED).is_some_and(is_known) {
            return Ok(());
        }
        let event = Event {
            type_: EventType::Warning,
            reason: BLOCKED.to_owned(),
            note: Some(format!("{}: {}", now.reason, now.message).chars().take(1000).collect()),
            action: "Rotate".to_owned(),
            secondary: Some(about(regarding, Some(now.reason.clone()))),
        };
        self.within_time("write Events about", self.recorder.publish(&event, regarding)).await
    }

    async fn within_time<R>(
        &self,
        what: &'static str,
        call: impl Future<Output = kube::Result<R>>,
    ) -> Result<R, KeyRingError> {
        match timeout(limits::CALL, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.refused(what, explain(&error))),
            Err(_) => Err(self.silent(what)),
        }
    }

    fn silent(&self, what: &'static str) -> KeyRingError {
        self.refused(what, format!("the API server did not answer within {} s", limits::CALL.as_secs()))
    }

    fn refused(&self, what: &'static str, cause: String) -> KeyRingError {
        KeyRingError::Refused { what, place: self.place(), cause }
    }
}

fn about(regarding: &ObjectReference, subject: Option<String>) -> ObjectReference {
    ObjectReference { field_path: subject, ..regarding.clone() }
}

/// Why a `KeyRing` is not followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRingError {
    /// The cluster cannot be reached by what is configured.
    #[error("keyRing: {0}")]
    Access(#[from] AccessError),
    /// There is none.
    #[error("{0} does not exist; create it, after its definition (`chancery ring crd | kubectl apply -f -`)")]
    Missing(String),
    /// The API server refused or could not be asked.
    #[error("cannot {what} {place}: {cause}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// Which.
        place: String,
        /// Why not.
        cause: String,
    },
}
