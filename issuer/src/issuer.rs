//! One issuer among those of the process: its sources, index, targets, sinks and views, opened and then spawned.

use std::path::Path;
use std::sync::Arc;

use chancery_core::{Owner, WriterKey};
use chancery_publisher::TargetOpener;
use tokio::sync::{mpsc, watch};

use crate::collect::Collector;
use crate::conditions::ConditionStore;
use crate::config::{ConfigError, IssuerConfig};
use crate::index::Index;
use crate::known_keys::KnownKeys;
use crate::leadership::Leading;
use crate::metrics::Metrics;
use crate::outside::Outside;
use crate::pace::Pace;
use crate::published_history::PublishedHistory;
use crate::reconcile::Reconciler;
use crate::roster::OpenIssuer;
use crate::source::{Source, SourceEvent, SourceHealth};
use crate::state::{Recorder, Saved, StateStore};
use crate::tasks::Tasks;
use crate::uploads::Uploader;
use crate::visibility::{Keeper, ObservationEvent};

mod watchers;
mod writers;

pub use watchers::verifier;
#[cfg(feature = "kube")]
pub(crate) use watchers::verifier_of;

/// Readings waiting for the collector; a source that is faster waits. What goes through a channel is boxed here: each keeps
/// room for 32 messages, and most hold none.
const EVENTS: usize = 64;
/// What is found at the targets, waiting for the collector.
const FINDINGS: usize = 16;

/// What the tasks of one issuer have in common, and what ties the issuers together.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub metrics: Arc<Metrics>,
    /// Opens targets; those of several issuers share connections.
    pub opener: Arc<TargetOpener>,
    pub leading: Leading,
    pub shutdown: watch::Receiver<bool>,
    pub conditions: Arc<ConditionStore>,
}

/// Where one issuer's configuration came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    pub config: &'a IssuerConfig,
    pub line: u64,
    pub path: &'a Path,
    pub base: &'a Path,
    pub state: Option<&'a StateStore>,
    pub writer_key: Option<&'a Arc<WriterKey>>,
}

impl Opening<'_> {
    /// What is known of the issuer from before, and who records what comes.
    async fn known(&self) -> Result<(Saved, Option<Recorder>), ConfigError> {
        let IssuerConfig { url, owner, .. } = self.config;
        let Some(state) = self.state else {
            let owner = owner.clone().unwrap_or_else(|| Owner::of_issuer(url));
            return Ok((Saved::begin(url.clone(), owner), None));
        };
        let established = state.establish(url, owner.as_ref()).await;
        let recorder = established.map_err(|problem| ConfigError::refuse(self.path, self.line, &problem))?;
        Ok((recorder.saved().clone(), Some(recorder)))
    }
}

/// Opens the sources of an issuer of the configuration at `path`, whose relative paths start at `base`.
pub(crate) async fn open_sources(
    config: &IssuerConfig,
    path: &Path,
    base: &Path,
) -> Result<Vec<Source>, ConfigError> {
    let mut sources = Vec::new();
    for (position, source) in config.sources.iter().enumerate() {
        let opened = Source::open(&source.value, position, &config.url, base).await;
        let line = source.referenced.line();
        sources.push(opened.map_err(|problem| ConfigError::refuse(path, line, &problem))?);
    }
    Ok(sources)
}

/// One issuer, ready to run.
#[derive(Debug)]
pub(crate) struct Issuer {
    sources: Vec<Source>,
    events: mpsc::Sender<Box<SourceEvent>>,
    health: SourceHealth,
    collector: Collector,
    reconcilers: Vec<Reconciler>,
    uploaders: Vec<Uploader>,
    outside: Option<Outside>,
    keeper: Keeper,
    /// Whoever sees the keys somewhere says so here. Kept open, since there may be nobody at all.
    observations: mpsc::Sender<Box<ObservationEvent>>,
    pace: Pace,
}

impl Issuer {
    /// Opens everything one issuer names.
    pub async fn open(opening: Opening<'_>, shared: &Shared) -> Result<Self, ConfigError> {
        let Opening { config, path, base, state, .. } = opening;
        let sources = open_sources(config, path, base).await?;
        let (saved, recorder) = opening.known().await?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let (sender, publications) = watch::channel(None);
        let (published, publishings) = watch::channel(0);
        let (finder, findings) = mpsc::channel(FINDINGS);
        let pace = Pace {
            every: config.verify.every,
            publications: publications.clone(),
            leading: shared.leading.clone(),
            shutdown: shared.shutdown.clone(),
        };
        let history = Arc::new(PublishedHistory::default());
        let heard = watchers::KeeperChannels { publications: publications.clone(), history: history.clone() };
        let (keeper, observations) = watchers::keeper(opening, shared, heard).await?;
        let told = writers::Told {
            published,
            findings: finder,
            history: history.clone(),
            observations: observations.clone(),
        };
        let reconcilers = writers::reconcilers(opening, &saved, shared, &told).await?;
        let uploaders = writers::uploaders(opening, &saved.owner, shared).await?;
        let channels = watchers::OutsideChannels {
            publications,
            published: publishings,
            observations: observations.clone(),
            history,
        };
        let outside = watchers::outside(opening, shared, channels)?;
        let (index, known) = (Index::new(config.into(), &saved.record), KnownKeys::default());
        let collector = Collector {
            issuer: config.url.clone(),
            index,
            events: receiver,
            contacts: saved.targets.clone(),
            recorder,
            shares_state: state.is_some_and(StateStore::is_shared),
            findings: (!config.targets.is_empty()).then_some(findings),
            leading: shared.leading.clone(),
            publications: sender,
            metrics: shared.metrics.clone(),
            known: known.clone(),
        };
        let health = watchers::source_health(config, shared, &keeper).telling(&known);
        Ok(Self {
            sources,
            events,
            health,
            collector,
            reconcilers,
            uploaders,
            outside,
            keeper,
            observations,
            pace,
        })
    }

    /// What it shows to the servers, now and later.
    pub fn shown(&self) -> OpenIssuer {
        let publications = self.pace.publications.clone();
        let visibility = self.keeper.snapshots.subscribe();
        OpenIssuer { publications, visibility, known: self.collector.known.clone() }
    }

    /// Starts its tasks. `changed` is told when there is something else to serve.
    pub fn spawn(self, changed: &mpsc::Sender<()>) -> IssuerTasks {
        let mut tasks = IssuerTasks::default();
        for source in self.sources {
            let name = format!("source {}", source.id().name);
            tasks.watching.spawn(name, source.run(self.events.clone(), self.health.clone()));
        }
        tasks.watching.spawn("the collector of keys", self.collector.run(changed.clone()));
        for reconciler in self.reconcilers {
            let name = format!("the writer to target {}", reconciler.name);
            tasks.writing.spawn(name, self.pace.clone().run(reconciler));
        }
        for uploader in self.uploaders {
            let copies = watchers::observe_copies(uploader.view(), self.observations.clone());
            tasks.watching.spawn("the view of a sink", copies);
            tasks.writing.spawn("the writer to a sink", self.pace.clone().run(uploader));
        }
        if let Some(outside) = self.outside {
            tasks.watching.spawn("the outside view", outside.run());
        }
        let (keeper, observations) = (self.keeper, self.observations);
        match keeper.is_needed(&observations) {
            false => keeper.rest(),
            true => tasks.watching.spawn("the visibility record", async move {
                keeper.run().await;
                drop(observations);
            }),
        }
        tasks
    }
}

/// The tasks of one issuer, by how they end.
#[derive(Debug, Default)]
pub(crate) struct IssuerTasks {
    /// Reconcilers and uploaders: end between two rounds, once they are told to.
    pub writing: Tasks,
    /// Whoever only watches: ended where it stands.
    pub watching: Tasks,
}

impl IssuerTasks {
    /// Resolves when a task ended that should have run on, with its name.
    pub async fn lost(&mut self) -> String {
        tokio::select! {
            lost = self.writing.ended() => lost,
            lost = self.watching.ended() => lost,
        }
    }
}
