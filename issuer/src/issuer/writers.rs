//! Whoever writes for one issuer: a reconciler for each target, an uploader for each sink.

use std::sync::Arc;

use chancery_cluster::last_said::LastSaid;
use chancery_core::Owner;
use chancery_publisher::publish::LastSeen;
use chancery_publisher::writer_key_file::first_decision_now;
use tokio::sync::{mpsc, watch};

use super::watchers::view_before;
use super::{Opening, Shared};
use crate::collect::TargetFinding;
use crate::config::ConfigError;
use crate::published_history::PublishedHistory;
use crate::reconcile::{NoticeChannels, Notices, Reconciler, Writer};
use crate::state::Saved;
use crate::uploads::{OpenSink, Uploader, open_sink};
use crate::visibility::ObservationEvent;

/// Whom reconcilers tell what they did and found.
#[derive(Debug)]
pub(super) struct Told {
    pub published: watch::Sender<u64>,
    pub findings: mpsc::Sender<Box<TargetFinding>>,
    pub history: Arc<PublishedHistory>,
    pub observations: mpsc::Sender<Box<ObservationEvent>>,
}

pub(super) async fn reconcilers(
    opening: Opening<'_>,
    saved: &Saved,
    shared: &Shared,
    told: &Told,
) -> Result<Vec<Reconciler>, ConfigError> {
    let issuer = &opening.config.url;
    let mut reconcilers = Vec::new();
    for target in &opening.config.targets {
        let name = target.value.to.display_name();
        let opened = shared.opener.open(&target.value.to).await;
        let store = opened
            .map_err(|problem| ConfigError::refuse(opening.path, target.referenced.line(), &problem))?;
        let channels = NoticeChannels {
            conditions: shared.conditions.clone(),
            history: told.history.clone(),
            metrics: shared.metrics.clone(),
            observations: told.observations.clone(),
            view: view_before(&target.value),
        };
        reconcilers.push(Reconciler {
            issuer: issuer.clone(),
            notices: Notices::new(issuer, &name, channels),
            writer: writer(opening, saved, &name),
            name,
            store,
            owner: saved.owner.clone(),
            adopt: target.value.to.adopt,
            findings: told.findings.clone(),
            published: told.published.clone(),
            metrics: shared.metrics.clone(),
            seen: LastSeen::default(),
            problem: LastSaid::default(),
        });
    }
    Ok(reconcilers)
}

/// How we write to the target of this name.
fn writer(opening: Opening<'_>, saved: &Saved, target: &str) -> Writer {
    match (opening.state, opening.writer_key) {
        (Some(_), Some(writer_key)) => {
            Writer::Stateful { writer_key: writer_key.clone(), contact: saved.targets.get(target).cloned() }
        }
        (_, writer_key) => {
            Writer::Stateless { writer_key: writer_key.cloned(), first_decision: first_decision_now() }
        }
    }
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
        let sink = OpenSink { config: &sink.value, owner: owner.clone(), sink: opened };
        uploaders.push(Uploader::new(&config.url, sink, shared.metrics.clone(), shared.conditions.clone()));
    }
    Ok(uploaders)
}
