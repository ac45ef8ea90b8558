//! The composition root: opens everything a configuration names, then runs it until it is told to stop.
//!
//! Everything that can be refused is refused by [`Issuer::open`], before a key is published or a request answered.
//! After that every task matters: losing one ends the process with a sentence, so that its supervisor starts it anew.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::admin::{Admin, Observations};
use crate::conditions::Board;
use crate::config::{Config, ConfigError};
use crate::index::Publication;
use crate::leadership::Leadership;
use crate::member::{Member, Opening, Shared};
use crate::metrics::Metrics;
use crate::report::Reporter;
use crate::serve::{Documents, ExtraHost, HostPolicy, Server};
use crate::state::StateStore;
use crate::tasks::Tasks;

/// How long writes under way and requests in flight may take after the signal to stop.
const DRAIN: Duration = Duration::from_secs(15);

/// A service whose every part is open and none runs yet.
#[derive(Debug)]
pub struct Issuer {
    members: Vec<Member>,
    documents: Documents,
    servers: Vec<Server>,
    admin: Option<Admin>,
    reporter: Option<Reporter>,
    leadership: Leadership,
    shutdown: watch::Sender<bool>,
    metrics: Arc<Metrics>,
}

impl Issuer {
    /// Opens everything `config` names; relative paths in it start at the folder of `path`, where it was read.
    ///
    /// # Errors
    /// Names the line of what cannot be opened, and the remedy.
    pub async fn open(config: Config, path: &Path) -> Result<Self, RunError> {
        let base = path.parent().unwrap_or(Path::new(""));
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        let (shutdown, stopping) = watch::channel(false);
        let election = config.leader_election.as_ref();
        let leadership = Leadership::open(election.map(|election| &election.value), base)
            .await
            .map_err(|problem| ConfigError::refuse(path, line_of(election), &problem))?;
        let board = Arc::new(Board::default());
        let (leading, shared_board) = (leadership.leading(), board.clone());
        let shared = Shared { metrics: metrics.clone(), leading, shutdown: stopping, board: shared_board };

        let state = match &config.state {
            Some(state) => Some(
                StateStore::open(&state.value, base)
                    .await
                    .map_err(|problem| ConfigError::refuse(path, state.referenced.line(), &problem))?,
            ),
            None => None,
        };
        let mut members = Vec::new();
        for issuer in &config.issuers {
            let line = issuer.referenced.line();
            let opening = Opening { config: &issuer.value, line, path, base, state: state.as_ref() };
            members.push(Member::open(opening, &shared).await?);
        }

        let documents = documents(&config).map_err(|problem| ConfigError::refuse(path, 1, &problem))?;
        let mut servers = Vec::new();
        for serve in &config.serve {
            let server = Server::bind(&serve.value, documents.clone(), metrics.clone()).await;
            servers.push(
                server.map_err(|problem| ConfigError::refuse(path, serve.referenced.line(), &problem))?,
            );
        }
        let admin = match &config.admin {
            Some(admin) => Some(
                Admin::bind(&admin.value, documents.clone(), metrics.clone(), watched(&members, &board))
                    .await
                    .map_err(|problem| ConfigError::refuse(path, admin.referenced.line(), &problem))?,
            ),
            None => None,
        };
        let reporter = match &config.report {
            Some(report) => Some(
                Reporter::open(&report.value, base, (board, leadership.leading()))
                    .await
                    .map_err(|problem| ConfigError::refuse(path, report.referenced.line(), &problem))?,
            ),
            None => None,
        };
        Ok(Self { members, documents, servers, admin, reporter, leadership, shutdown, metrics })
    }

    /// How many issuers it has.
    pub fn issuers(&self) -> usize {
        self.members.len()
    }

    /// Runs until `stop` resolves, then drains.
    ///
    /// # Errors
    /// When a task ended that should have run on.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { members, documents, servers, admin, reporter, leadership, shutdown, metrics } = self;
        let mut tasks = Tasks::default();
        let (changed, changes) = mpsc::channel(1);
        let mut publications = Vec::new();
        for member in members {
            publications.push(member.publications());
            member.spawn(&mut tasks, &changed);
        }
        tasks.watching.spawn(serve_changes(documents, publications, changes));
        for server in servers {
            tasks.serving.spawn(server.run(shutdown.subscribe()));
        }
        if let Some(admin) = admin {
            tasks.serving.spawn(admin.run(shutdown.subscribe()));
        }
        if let Some(reporter) = reporter {
            tasks.watching.spawn(reporter.run());
        }
        let (release, released) = watch::channel(false);
        let leadership = tokio::spawn(leadership.run(released, metrics));

        tokio::select! {
            () = stop => {}
            lost = tasks.lost() => return Err(RunError::Lost(lost)),
        }
        info!("stopping: finishing writes and requests in flight");
        shutdown.send_replace(true);
        let drained = timeout(DRAIN, async {
            tasks.writing.join_all().await;
            // Another replica may write as soon as the Lease is free, so our own writes end first.
            release.send_replace(true);
            tokio::join!(leadership, tasks.serving.join_all())
        });
        if drained.await.is_err() {
            warn!(seconds = DRAIN.as_secs(), "stopping without waiting any longer");
        }
        Ok(())
    }
}

/// What operators may look at beside the documents and the metrics.
fn watched(members: &[Member], board: &Arc<Board>) -> Observations {
    Observations { visibility: members.iter().map(Member::visibility).collect(), board: board.clone() }
}

fn documents(config: &Config) -> Result<Documents, crate::serve::TableError> {
    let issuers: Vec<_> = config.issuers.iter().map(|issuer| issuer.value.url.clone()).collect();
    let extra: Vec<ExtraHost> =
        config.serve.iter().flat_map(|s| s.value.extra_hosts.iter().cloned()).collect();
    Documents::new(HostPolicy::new(&issuers, &extra)?)
}

/// Rebuilds what is served whenever an issuer's publication changed.
async fn serve_changes(
    documents: Documents,
    publications: Vec<watch::Receiver<Option<Arc<Publication>>>>,
    mut changes: mpsc::Receiver<()>,
) {
    while changes.recv().await.is_some() {
        let current = publications.iter().filter_map(|publication| {
            publication.borrow().as_ref().map(|publication| publication.documents.clone())
        });
        if let Err(problem) = documents.replace(&current.collect::<Vec<_>>()) {
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
pub enum RunError {
    /// Something the configuration names cannot be used.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// A task ended.
    #[error(
        "a part of the service ended although it should run on ({0}); the process stops so that its supervisor starts it anew"
    )]
    Lost(String),
}
