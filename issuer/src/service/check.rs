//! The check of a configuration: everything it names is opened, nothing is written and no port is taken.

use std::path::Path;
use std::sync::Arc;

use chancery_cluster::cell::StoreMode;
use chancery_cluster::listener::certificate::ServingPair;
use tokio::sync::{mpsc, watch};

use super::issuers::{Issuers, Parts};
use super::{OpenedShared, ServiceError, documents, extra_hosts, open_objects, open_shared};
use crate::conditions::ConditionStore;
use crate::config::{Config, ConfigError};
use crate::issuer::Issuer;
use crate::metrics::Metrics;
use crate::report::ConditionReporter;
use crate::resource::Watched;
use crate::roster::Roster;

/// Opens everything that `config`, read at `path`, names, also beside a service that runs with it.
///
/// # Errors
/// Names the line of what cannot be opened, and the remedy.
pub async fn check(config: &Config, path: &Path) -> Result<(), ServiceError> {
    let OpenedShared { leadership, state, writer_key } =
        open_shared(config, path, StoreMode::ReadOnly).await?;
    let conditions = Arc::new(ConditionStore::default());
    let documents = documents(config).map_err(|problem| ConfigError::refuse(path, 1, &problem))?;
    for serve in &config.serve {
        let line = serve.referenced.line();
        let opened = serve.value.tls.as_ref().map(ServingPair::read).transpose();
        opened.map_err(|problem| ConfigError::refuse(path, line, &problem))?;
    }
    if let Some(report) = &config.report {
        let base = path.parent().unwrap_or(Path::new(""));
        let opened =
            ConditionReporter::open(&report.value, base, conditions.clone(), leadership.leading()).await;
        opened.map_err(|problem| ConfigError::refuse(path, report.referenced.line(), &problem))?;
    }
    let (metrics, roster) = (Arc::new(Metrics::new("check")), Roster::default());
    let watched = Watched {
        conditions: conditions.clone(),
        roster: roster.clone(),
        metrics: metrics.clone(),
        leading: leadership.leading(),
    };
    open_objects(config, path, watched).await?;
    let (changed, _changes) = mpsc::channel(1);
    let parts = Parts {
        path: path.to_owned(),
        state,
        writer_key,
        metrics,
        leading: leadership.leading(),
        conditions,
        roster,
        changed,
    };
    let issuers = Issuers::new(parts, documents, extra_hosts(config));
    let environment = issuers.environment();
    let (_shutdown, stopping) = watch::channel(false);
    for issuer in &config.issuers {
        Issuer::open(environment.opening(issuer), &environment.shared(stopping.clone())).await?;
    }
    Ok(())
}
