//! One issuer among those of the process: its sources, index, targets, sinks and views, opened and then spawned.

use std::path::Path;
use std::sync::Arc;

use chancery_core::IssuerUrl;
use chancery_publisher::default_owner;
use tokio::sync::{mpsc, watch};

use crate::collect::Collector;
use crate::conditions::Board;
use crate::config::{ConfigError, IssuerConfig};
use crate::held::Held;
use crate::index::{Index, Publication};
use crate::leadership::Leading;
use crate::metrics::Metrics;
use crate::outside::Outside;
use crate::pace::Pace;
use crate::reconcile::Reconciler;
use crate::source::Source;
use crate::state::{Saved, StateStore};
use crate::tasks::Tasks;
use crate::uploads::Uploader;
use crate::visibility::{Keeper, Observation, Shown};

mod watchers;
mod writers;

pub(crate) use watchers::verifier;

/// Readings waiting for the collector; a source that is faster waits.
const EVENTS: usize = 64;
/// What the targets teach, waiting for the collector.
const LESSONS: usize = 16;

/// What the tasks of one issuer have in common, and what ties the issuers together.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub metrics: Arc<Metrics>,
    pub leading: Leading,
    pub shutdown: watch::Receiver<bool>,
    pub board: Arc<Board>,
}

/// Where one issuer's configuration came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    pub config: &'a IssuerConfig,
    pub line: u64,
    pub path: &'a Path,
    pub base: &'a Path,
    pub state: Option<&'a StateStore>,
}

impl Opening<'_> {
    /// What is known of the issuer from before.
    async fn saved(&self) -> Result<Saved, ConfigError> {
        let IssuerConfig { url, owner, .. } = self.config;
        let Some(state) = self.state else {
            let owner = owner.clone().unwrap_or_else(|| default_owner(url));
            return Ok(Saved::begin(url.clone(), owner));
        };
        let established = state.establish(url, owner.as_ref()).await;
        established.map_err(|problem| ConfigError::refuse(self.path, self.line, &problem))
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
        let opened = Source::open(&source.value, position, base).await;
        let line = source.referenced.line();
        sources.push(opened.map_err(|problem| ConfigError::refuse(path, line, &problem))?);
    }
    Ok(sources)
}

/// One issuer, ready to run.
#[derive(Debug)]
pub(crate) struct Member {
    sources: Vec<Source>,
    events: mpsc::Sender<crate::source::SourceEvent>,
    collector: Collector,
    reconcilers: Vec<Reconciler>,
    uploaders: Vec<Uploader>,
    outside: Option<Outside>,
    keeper: Keeper,
    /// Whoever sees the keys somewhere says so here. Kept open, since there may be nobody at all.
    observations: mpsc::Sender<Observation>,
    pace: Pace,
}

impl Member {
    /// Opens everything one issuer names.
    pub async fn open(opening: Opening<'_>, shared: &Shared) -> Result<Self, ConfigError> {
        let Opening { config, path, base, state, .. } = opening;
        let sources = open_sources(config, path, base).await?;
        let saved = opening.saved().await?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let (sender, publications) = watch::channel(None);
        let (published, publishings) = watch::channel(0);
        let (teach, lessons) = mpsc::channel(LESSONS);
        let pace = Pace {
            every: config.verify.every,
            publications: publications.clone(),
            leading: shared.leading.clone(),
            shutdown: shared.shutdown.clone(),
        };
        let held = Arc::new(Held::default());
        let (keeper, observations) = watchers::keeper(opening, &saved.owner, (shared, &publications))?;
        let told = writers::Told {
            published,
            lessons: teach,
            held: held.clone(),
            observations: observations.clone(),
        };
        let reconcilers = writers::reconcilers(opening, &saved, (shared, &told)).await?;
        let uploaders = writers::uploaders(opening, &saved.owner, shared).await?;
        let observed = observations.clone();
        let seen = watchers::Seen { publications, published: publishings, observations: observed, held };
        let outside = watchers::outside(opening, (shared, seen))?;
        let index =
            Index::new(config.url.clone(), config.cache(), config.residence, (sources.len(), &saved.record));
        let collector = Collector {
            issuer: config.url.clone(),
            index,
            events: receiver,
            known: saved.targets.clone(),
            saved,
            lessons,
            leading: shared.leading.clone(),
            publications: sender,
            state: state.cloned(),
            metrics: shared.metrics.clone(),
        };
        Ok(Self { sources, events, collector, reconcilers, uploaders, outside, keeper, observations, pace })
    }

    /// Whose it is, and what is seen of it, now and later.
    pub fn visibility(&self) -> (IssuerUrl, watch::Receiver<Shown>) {
        (self.keeper.issuer.clone(), self.keeper.shown.subscribe())
    }

    /// What this issuer publishes, now and later.
    pub fn publications(&self) -> watch::Receiver<Option<Arc<Publication>>> {
        self.pace.publications.clone()
    }

    /// Starts its tasks.
    pub fn spawn(self, tasks: &mut Tasks, changed: &mpsc::Sender<()>) {
        tasks.watching.spawn(announce(self.publications(), changed.clone()));
        for source in self.sources {
            tasks.watching.spawn(source.run(self.events.clone()));
        }
        tasks.watching.spawn(self.collector.run());
        for reconciler in self.reconcilers {
            tasks.writing.spawn(self.pace.clone().run(reconciler));
        }
        for uploader in self.uploaders {
            tasks.watching.spawn(watchers::sight_copies(uploader.view(), self.observations.clone()));
            tasks.writing.spawn(self.pace.clone().run(uploader));
        }
        if let Some(outside) = self.outside {
            tasks.watching.spawn(outside.run());
        }
        let (keeper, observations) = (self.keeper, self.observations);
        tasks.watching.spawn(async move {
            keeper.run().await;
            drop(observations);
        });
    }
}

/// Tells whoever serves that something changed; several changes before it looks are one.
async fn announce(mut publications: watch::Receiver<Option<Arc<Publication>>>, changed: mpsc::Sender<()>) {
    while publications.changed().await.is_ok() {
        if let Err(mpsc::error::TrySendError::Closed(())) = changed.try_send(()) {
            return;
        }
    }
}
