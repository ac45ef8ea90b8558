//! What is written to bring an issuer back, place after place: the same for a plan and for doing it.

use std::sync::Arc;

use chancery_core::DocumentKind;
use chancery_core::publication::{Desired, Returning, WriterMemory};
use chancery_core::trust::TrustPlan;
use chancery_core::upload::{self, DesiredUpload, UploadPlan};
use chancery_publisher::publish::{prepare, publish};
use chancery_publisher::sink::{self, JwksSink};
use chancery_publisher::trust::{Registrar, TrustError};
use chancery_publisher::writer_key_file::first_decision_now;

use super::{Restoration, Target};

/// What was done, or is to be done, in one place, or what is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// A target, a sink or a registration, as a person calls it.
    pub place: String,
    /// What was written or called, in order; nothing where all is as it should be.
    pub result: Result<Vec<String>, String>,
}

/// Whether to say what would be done, or to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Plan,
    Apply,
}

#[derive(Debug)]
pub(super) struct Sink {
    pub name: String,
    pub adopt: bool,
    pub sink: Arc<dyn JwksSink>,
}

impl Restoration {
    pub(super) async fn steps(&self, mode: Mode) -> Vec<Step> {
        let mut steps = Vec::new();
        for target in &self.targets {
            steps.push(Step { place: target.name.clone(), result: self.publish_to(target, mode).await });
        }
        for sink in &self.sinks {
            steps.push(Step { place: sink.name.clone(), result: self.upload_to(sink, mode).await });
        }
        for registrar in &self.registrations {
            let result =
                register(registrar.as_ref(), mode).await.map_err(|problem| crate::error_chain(&problem));
            steps.push(Step { place: registrar.describe(), result });
        }
        steps
    }

    async fn publish_to(&self, target: &Target, mode: Mode) -> Result<Vec<String>, String> {
        let desired = self.desired(target).ok_or(NO_KEY)?;
        let kinds: Vec<DocumentKind> = match mode {
            Mode::Plan => {
                let plan = prepare(target.store.as_ref(), desired).await;
                let writes = plan.map_err(|problem| crate::error_chain(&problem))?.writes;
                writes.into_iter().map(|write| write.document.kind).collect()
            }
            Mode::Apply => {
                let outcome = publish(target.store.as_ref(), desired).await;
                outcome.map_err(|problem| crate::error_chain(&problem))?.written
            }
        };
        Ok(kinds.into_iter().map(|kind| kind.path().to_owned()).collect())
    }

    async fn upload_to(&self, place: &Sink, mode: Mode) -> Result<Vec<String>, String> {
        let publication = self.publication.as_ref().ok_or(NO_KEY)?;
        let desired = DesiredUpload {
            jwks: publication.documents.jwks(),
            withdrawals: &publication.withdrawals,
            owner: &self.owner,
            adopt_unmarked: place.adopt,
        };
        let plan = match mode {
            Mode::Plan => {
                let held = place.sink.read().await.map_err(|problem| crate::error_chain(&problem))?;
                upload::plan(desired, &held).map_err(|problem| problem.to_string())?
            }
            Mode::Apply => {
                let done = sink::upload(place.sink.as_ref(), desired).await;
                done.map_err(|problem| crate::error_chain(&problem))?
            }
        };
        Ok(uploaded(&plan))
    }

    fn desired<'a>(&'a self, target: &Target) -> Option<Desired<'a>> {
        let publication = self.publication.as_ref()?;
        let contact = self.contacts.get(&target.name);
        let memory = match (&self.writer_key, contact) {
            (Some(writer_key), Some(contact)) => {
                WriterMemory::Stateful { writer_key, decision: publication.decision, contact: Some(contact) }
            }
            (writer_key, _) => WriterMemory::Stateless {
                writer_key: writer_key.as_ref(),
                returning: Returning::LeftOut,
                may_empty: false,
                first_decision: first_decision_now(),
            },
        };
        Some(Desired {
            documents: &publication.documents,
            withdrawals: &publication.withdrawals,
            owner: &self.owner,
            memory,
            adopt_unmarked: target.adopt,
        })
    }
}

const NO_KEY: &str = "no key was found anywhere, and an empty set is never published; give the configuration a source that shows one";

async fn register(registrar: &dyn Registrar, mode: Mode) -> Result<Vec<String>, TrustError> {
    let plan = registrar.plan().await?;
    if mode == Mode::Apply {
        registrar.apply(&plan).await?;
    }
    Ok(called(&plan))
}

fn uploaded(plan: &UploadPlan) -> Vec<String> {
    plan.upload.iter().map(|jwks| format!("{} keys", jwks.keys().len())).collect()
}

fn called(plan: &TrustPlan) -> Vec<String> {
    plan.calls.iter().map(ToString::to_string).collect()
}
