//! The composition root: opens what a configuration names, then runs it until it is told to stop.
//!
//! What is malformed in the file, and what all issuers share (ports, the serving certificate, the state, the election,
//! the report), is refused by [`Service::open`]. What one issuer names is opened when the service runs: an issuer that
//! cannot be opened is not accepted, which its condition and readiness say, and is tried again, while the others run.
//!
//! After that every task matters: losing one ends the process with a sentence that names it, after the same drain as a
//! signal to stop, so that its supervisor starts it anew.

use std::path::Path;
use std::sync::Arc;

use chancery_cluster::cell::StoreMode;
use chancery_cluster::listener::Connections;
use chancery_core::WriterKey;
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::admin::{Admin, Observations};
use crate::conditions::ConditionStore;
use crate::config::{Config, ConfigError, IssuerConfig};
use crate::leadership::{Leadership, Leading};
use crate::metrics::Metrics;
use crate::report::ConditionReporter;
use crate::resource::{Declarations, DeclaredIssuer, IssuerObjects, Watched};
use crate::roster::Roster;
use crate::serve::{Documents, ExtraHost, HostPolicy, Server, ServerParts, TableError};
use crate::state::{StateStore, establish_writer_key};
use crate::tasks::Tasks;

mod check;
mod control;
mod issuers;
mod objects;

pub use check::check;
pub use control::{ControlError, Reloaded, ServiceControl};

use control::Change;
use issuers::{DRAIN, Issuers, Parts};

/// A service whose shared parts are open, and none runs yet.
#[derive(Debug)]
pub struct Service {
    configs: Vec<Spanned<IssuerConfig>>,
    issuers: Issuers,
    shared: [u8; 32],
    documents: Documents,
    roster: Roster,
    servers: Vec<Server>,
    admin: Option<Admin>,
    reporter: Option<ConditionReporter>,
    objects: Option<IssuerObjects>,
    leadership: Leadership,
    shutdown: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    control: ServiceControl,
    changes: mpsc::Receiver<Change>,
    changed: mpsc::Receiver<()>,
}

impl Service {
    /// Opens what the issuers of `config` share; relative paths in it start at the folder of `path`, where it was read.
    ///
    /// # Errors
    /// Names the line of what cannot be opened, and the remedy.
    pub async fn open(config: Config, path: &Path) -> Result<Self, ServiceError> {
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        let OpenedShared { leadership, state, writer_key } =
            open_shared(&config, path, StoreMode::ReadWrite).await?;
        let conditions = Arc::new(ConditionStore::default());
        let (sender, changed) = mpsc::channel(1);
        let roster = Roster::default();
        let documents = documents(&config).map_err(|problem| ConfigError::refuse(path, 1, &problem))?;
        let parts = Parts {
            path: path.to_owned(),
            state,
            writer_key,
            metrics: metrics.clone(),
            leading: leadership.leading(),
            conditions: conditions.clone(),
            roster: roster.clone(),
            changed: sender,
        };
        let issuers = Issuers::new(parts, documents.clone(), extra_hosts(&config));
        let listening = ServerParts {
            documents: documents.clone(),
            metrics: metrics.clone(),
            conditions: conditions.clone(),
            connections: Connections::default(),
        };
        let servers = bind(&config, path, &listening).await?;
        let admin = open_admin(&config, path, &listening, &roster).await?;
        let reporter = open_reporter(&config, path, conditions.clone(), leadership.leading()).await?;
        let (leading, counted) = (leadership.leading(), metrics.clone());
        let watched = Watched { conditions, roster: roster.clone(), metrics: counted, leading };
        let objects = open_objects(&config, path, watched).await?;
        if objects.is_some() {
            roster.awaits_objects();
        }
        let (control, changes) = ServiceControl::new();
        let (shutdown, shared) = (watch::Sender::new(false), config.shared);
        let configs = config.issuers;
        Ok(Self {
            configs,
            issuers,
            shared,
            documents,
            roster,
            servers,
            admin,
            reporter,
            objects,
            leadership,
            shutdown,
            metrics,
            control,
            changes,
            changed,
        })
    }

    /// Adds and removes issuers while the service runs.
    pub fn control(&self) -> ServiceControl {
        self.control.clone()
    }

    /// What is served now.
    pub fn documents(&self) -> Documents {
        self.documents.clone()
    }

    /// The issuers and what each of them shows.
    pub fn roster(&self) -> Roster {
        self.roster.clone()
    }

    /// Runs until `stop` resolves, then drains.
    ///
    /// # Errors
    /// When a part ended that should have run on; it was drained all the same.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServiceError> {
        let Self { configs, mut issuers, shared, servers, admin, reporter, objects, shutdown, .. } = self;
        let (mut serving, mut watching) = (Tasks::default(), Tasks::default());
        let declarations = objects.as_ref().map(IssuerObjects::declarations);
        watching.spawn("the table of documents", serve_changes(self.documents, self.roster, self.changed));
        for server in servers {
            serving.spawn(format!("the server at {}", server.address()), server.run(shutdown.subscribe()));
        }
        if let Some(admin) = admin {
            serving.spawn("the operators' port", admin.run(shutdown.subscribe()));
        }
        if let Some(reporter) = reporter {
            watching.spawn("the report", reporter.run());
        }
        if let Some(objects) = objects {
            watching.spawn("the Issuer objects", objects.run());
        }
        let (release, released) = watch::channel(false);
        let mut election = tokio::spawn(self.leadership.run(released, self.metrics));
        issuers.start(configs);

        let mut told = Told { changes: self.changes, declarations, shared };
        let ended = {
            tokio::pin!(stop);
            loop {
                tokio::select! {
                    () = &mut stop => break Ok(()),
                    lost = issuers.lost() => break Err(ServiceError::Lost(lost)),
                    lost = serving.ended() => break Err(ServiceError::Lost(lost)),
                    lost = watching.ended() => break Err(ServiceError::Lost(lost)),
                    _ = &mut election => break Err(ServiceError::Lost("the leader election".to_owned())),
                    news = told.next() => tokio::select! {
                        () = told.apply(&mut issuers, news) => {}
                        () = &mut stop => break Ok(()),
                    },
                }
            }
        };
        match &ended {
            Ok(()) => info!("stopping: finishing writes and requests in flight"),
            Err(lost) => error!("{lost}"),
        }
        shutdown.send_replace(true);
        let drained = timeout(DRAIN, async {
            issuers.drain().await;
            // Another replica may write as soon as the Lease is free, so our own writes end first.
            release.send_replace(true);
            tokio::join!(joined(election), serving.join_all());
        });
        if drained.await.is_err() {
            warn!(seconds = DRAIN.as_secs(), "stopping without waiting any longer");
        }
        ended
    }
}

/// Waits for the election, which may have ended before.
async fn joined(election: JoinHandle<()>) {
    if !election.is_finished() {
        let _ = election.await;
    }
}

/// Whoever tells a running service which issuers it is to have.
struct Told {
    changes: mpsc::Receiver<Change>,
    declarations: Option<Declarations>,
    /// Of the configuration that it was started with.
    shared: [u8; 32],
}

/// What a service was told.
enum News {
    Change(Change),
    Declared(Arc<Vec<DeclaredIssuer>>),
}

impl Told {
    async fn next(&mut self) -> News {
        loop {
            tokio::select! {
                Some(change) = self.changes.recv() => return News::Change(change),
                Some(objects) = declared(&mut self.declarations) => return News::Declared(objects),
                else => std::future::pending::<()>().await,
            }
        }
    }

    /// Does what was asked for, and answers it.
    async fn apply(&self, issuers: &mut Issuers, news: News) {
        // Whoever asked may have gone.
        match news {
            News::Change(Change::Add(config, reply)) => _ = reply.send(issuers.add(*config)),
            News::Change(Change::Remove(url, reply)) => _ = reply.send(issuers.remove(&url).await),
            News::Change(Change::Reload(config, reply)) => {
                let needs_restart = config.shared != self.shared;
                let reloaded = issuers.reload(*config).await;
                _ = reply.send(reloaded.map(|reloaded| Reloaded { needs_restart, ..reloaded }));
            }
            News::Declared(objects) => issuers.declare(objects).await,
        }
    }
}

/// What objects declare, as soon as that is something else; never where none are followed.
async fn declared(declarations: &mut Option<Declarations>) -> Option<Arc<Vec<DeclaredIssuer>>> {
    declarations.as_mut()?.changed().await.ok()?;
    declarations.as_mut()?.borrow_and_update().clone()
}

/// Opens what follows `Issuer` objects, where there may be any.
async fn open_objects(
    config: &Config,
    path: &Path,
    watched: Watched,
) -> Result<Option<IssuerObjects>, ConfigError> {
    let Some(resources) = &config.resources else { return Ok(None) };
    let base = path.parent().unwrap_or(Path::new(""));
    let opened = IssuerObjects::open(&resources.value, base, watched).await;
    opened.map(Some).map_err(|problem| ConfigError::refuse(path, resources.referenced.line(), &problem))
}

/// Takes the operators' port.
async fn open_admin(
    config: &Config,
    path: &Path,
    shared: &ServerParts,
    roster: &Roster,
) -> Result<Option<Admin>, ConfigError> {
    let Some(admin) = &config.admin else { return Ok(None) };
    let observations = Observations { issuers: roster.clone(), conditions: shared.conditions.clone() };
    let bound = Admin::bind(&admin.value, shared.metrics.clone(), observations, &shared.connections).await;
    bound.map(Some).map_err(|problem| ConfigError::refuse(path, admin.referenced.line(), &problem))
}

/// Opens what reports conditions in a cluster.
async fn open_reporter(
    config: &Config,
    path: &Path,
    conditions: Arc<ConditionStore>,
    leading: Leading,
) -> Result<Option<ConditionReporter>, ConfigError> {
    let Some(report) = &config.report else { return Ok(None) };
    let base = path.parent().unwrap_or(Path::new(""));
    let opened = ConditionReporter::open(&report.value, base, conditions, leading).await;
    opened.map(Some).map_err(|problem| ConfigError::refuse(path, report.referenced.line(), &problem))
}

/// What the writers of all issuers stand on.
struct OpenedShared {
    leadership: Leadership,
    state: Option<StateStore>,
    /// Proves what they write; there is always one beside a state.
    writer_key: Option<Arc<WriterKey>>,
}

/// Opens the election, the state and the writer key.
async fn open_shared(config: &Config, path: &Path, mode: StoreMode) -> Result<OpenedShared, ConfigError> {
    let base = path.parent().unwrap_or(Path::new(""));
    let election = config.leader_election.as_ref();
    let leadership = Leadership::open(election.map(|election| &election.value), base)
        .await
        .map_err(|problem| ConfigError::refuse(path, line_of(election), &problem))?;
    if !leadership.is_alone() {
        config.check_election(path)?;
    }
    let state = match &config.state {
        Some(state) => Some(
            StateStore::open(&state.value, base, mode)
                .await
                .map_err(|problem| ConfigError::refuse(path, state.referenced.line(), &problem))?,
        ),
        None => None,
    };
    let writer_key = establish_writer_key(state.as_ref(), config.writer_key_file.as_deref());
    let writer_key = writer_key
        .map_err(|problem| ConfigError::refuse(path, line_of(config.state.as_ref()), &problem))?
        .map(Arc::new);
    Ok(OpenedShared { leadership, state, writer_key })
}

/// Takes the public ports.
async fn bind(config: &Config, path: &Path, shared: &ServerParts) -> Result<Vec<Server>, ConfigError> {
    let mut servers = Vec::new();
    for serve in &config.serve {
        let bound = Server::bind(&serve.value, shared).await;
        let line = serve.referenced.line();
        servers.push(bound.map_err(|problem| ConfigError::refuse(path, line, &problem))?);
    }
    Ok(servers)
}

fn extra_hosts(config: &Config) -> Vec<ExtraHost> {
    config.serve.iter().flat_map(|serve| serve.value.extra_hosts.iter().cloned()).collect()
}

fn documents(config: &Config) -> Result<Documents, TableError> {
    let issuers: Vec<_> = config.issuers.iter().map(|issuer| issuer.value.url.clone()).collect();
    Ok(Documents::new(HostPolicy::new(&issuers, &extra_hosts(config))?))
}

/// Rebuilds what is served whenever an issuer's publication changed, or an issuer came or went.
async fn serve_changes(documents: Documents, roster: Roster, mut changed: mpsc::Receiver<()>) {
    while changed.recv().await.is_some() {
        if let Err(problem) = documents.replace(&roster.documents()) {
            warn!("what was served before stays: {problem}");
        }
    }
}

fn line_of<T>(section: Option<&Spanned<T>>) -> u64 {
    section.map_or(1, |section| section.referenced.line())
}

/// Why the service does not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Something the configuration names cannot be used.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// A task ended.
    #[error(
        "a part of the service ended although it should run on: {0}; the process stops so that its supervisor starts it anew"
    )]
    Lost(String),
}
