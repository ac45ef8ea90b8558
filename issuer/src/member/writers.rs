//! Whoever writes for one issuer: a reconciler for each target, an uploader for each sink.

use std::sync::Arc;

use chancery_core::Owner;
use chancery_publisher::publish::LastSeen;
use tokio::sync::{mpsc, watch};

use super::watchers::view_before;
use super::{Opening, Shared};
use crate::collect::Lesson;
use crate::config::ConfigError;
use crate::held::Held;
use crate::pace::LastProblem;
use crate::reconcile::{Notices, Reconciler};
use crate::state::Saved;
use crate::uploads::{Uploader, open_sink};
use crate::visibility::Observation;

/// Whom reconcilers tell what they did and found.
#[derive(Debug)]
pub(super) struct Told {
    pub published: watch::Sender<u64>,
    pub lessons: mpsc::Sender<Lesson>,
    pub held: Arc<Held>,
    pub observations: mpsc::Sender<Observation>,
}

pub(super) async fn reconcilers(
    opening: Opening<'_>,
    saved: &Saved,
    (shared, told): (&Shared, &Told),
) -> Result<Vec<Reconciler>, ConfigError> {
    let issuer = &opening.config.url;
    let mut reconcilers = Vec::new();
    for target in &opening.config.targets {
        let name = target.value.to.display_name();
        let store = target
            .value
            .to
            .open()
            .await
            .map_err(|problem| ConfigError::refuse(opening.path, target.referenced.line(), &problem))?;
        let heard = (shared.board.clone(), told.held.clone(), shared.metrics.clone());
        let behind = (told.observations.clone(), view_before(&target.value));
        reconcilers.push(Reconciler {
            issuer: issuer.clone(),
            notices: Notices::new(issuer, &name, heard, behind),
            known: saved.targets.get(&name).cloned(),
            adopted: false,
            name,
            store,
            owner: saved.owner.clone(),
            adopt: target.value.to.adopt,
            lessons: told.lessons.clone(),
            published: told.published.clone(),
            metrics: shared.metrics.clone(),
            seen: LastSeen::default(),
            problem: LastProblem::default(),
        });
    }
    Ok(reconcilers)
}

pub(super) async fn uploaders(
    opening: Opening<'_>,
    owner: &Owner,
    shared: &Shared,
) -> Result<Vec<Uploader>, ConfigError> {
    let Opening { config, path, base, .. } = opening;
    let mut uploaders = Vec::new();
    for sink in &config.sinks {
        let opened = open_sink(&sink.value, &config.url, base).await;
        let opened = opened.map_err(|problem| ConfigError::refuse(path, sink.referenced.line(), &problem))?;
        let ours = (&sink.value, owner.clone());
        uploaders.push(Uploader::new(&config.url, ours, opened, shared.metrics.clone()));
    }
    Ok(uploaders)
}
