//! One issuer among those of the process: its sources, index, targets and outside view, opened and then spawned.

use std::path::Path;
use std::sync::Arc;

use chancery_core::Owner;
use chancery_publisher::default_owner;
use chancery_publisher::publish::LastSeen;
use chancery_publisher::verify::address::{GivenAddress, GivenAddressError};
use chancery_publisher::verify::{Trust, Verifier, VerifyOptions};
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};

use crate::collect::Collector;
use crate::config::{ConfigError, IssuerConfig, PublishedTarget};
use crate::index::{Index, Publication};
use crate::leadership::Leading;
use crate::metrics::Metrics;
use crate::outside::{Outside, View};
use crate::pace::{LastProblem, Pace};
use crate::reconcile::Reconciler;
use crate::source::Source;
use crate::state::{Saved, StateStore};
use crate::tasks::Tasks;
use crate::uploads::{SinkView, Uploader, open_sink};

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
}

/// Where one issuer's configuration came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    pub config: &'a IssuerConfig,
    pub path: &'a Path,
    pub base: &'a Path,
    pub state: Option<&'a StateStore>,
}

impl Opening<'_> {
    /// What is known of the issuer from before.
    async fn saved(&self, line: u64) -> Result<Saved, ConfigError> {
        let IssuerConfig { url, owner, .. } = self.config;
        let Some(state) = self.state else {
            let owner = owner.clone().unwrap_or_else(|| default_owner(url));
            return Ok(Saved::begin(url.clone(), owner));
        };
        let established = state.establish(url, owner.as_ref()).await;
        established.map_err(|problem| ConfigError::refuse(self.path, line, &problem))
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
        sources
            .push(opened.map_err(|problem| ConfigError::refuse(path, source.referenced.line(), &problem))?);
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
    pace: Pace,
}

impl Member {
    /// Opens everything one issuer names.
    pub async fn open(opening: Opening<'_>, line: u64, shared: &Shared) -> Result<Self, ConfigError> {
        let Opening { config, path, state, .. } = opening;
        let sources = open_sources(config, path, opening.base).await?;
        let saved = opening.saved(line).await?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let (sender, publications) = watch::channel(None);
        let (published, publishings) = watch::channel(0);
        let (teach, lessons) = mpsc::channel(LESSONS);
        let index =
            Index::new(config.url.clone(), config.cache(), config.residence, (sources.len(), &saved.record));
        let collector = Collector {
            issuer: config.url.clone(),
            index,
            events: receiver,
            known: saved.targets.clone(),
            saved: saved.clone(),
            lessons,
            leading: shared.leading.clone(),
            publications: sender,
            state: state.cloned(),
            metrics: shared.metrics.clone(),
        };
        let mut reconcilers = Vec::new();
        for target in &config.targets {
            let name = target.value.to.display_name();
            reconcilers.push(Reconciler {
                issuer: config.url.clone(),
                known: saved.targets.get(&name).cloned(),
                adopted: false,
                name,
                store: open_target(target, opening).await?,
                owner: saved.owner.clone(),
                adopt: target.value.to.adopt,
                lessons: teach.clone(),
                published: published.clone(),
                metrics: shared.metrics.clone(),
                seen: LastSeen::default(),
                problem: LastProblem::default(),
            });
        }
        let uploaders = open_uploaders(opening, &saved.owner, shared).await?;
        let outside = match config.verify.enabled {
            true => Some(Outside {
                issuer: config.url.clone(),
                views: views(&config.targets),
                verifier: verifier(config).map_err(|problem| ConfigError::value(path, line, problem))?,
                every: config.verify.every,
                publications: publications.clone(),
                published: publishings,
                shutdown: shared.shutdown.clone(),
                metrics: shared.metrics.clone(),
            }),
            false => None,
        };
        let pace = Pace { publications, leading: shared.leading.clone(), shutdown: shared.shutdown.clone() };
        Ok(Self { sources, events, collector, reconcilers, uploaders, outside, pace })
    }

    /// What this issuer publishes, now and later.
    pub fn publications(&self) -> watch::Receiver<Option<Arc<Publication>>> {
        self.pace.publications.clone()
    }

    /// What its sinks hold, now and later.
    pub fn sink_views(&self) -> impl Iterator<Item = watch::Receiver<SinkView>> {
        self.uploaders.iter().map(Uploader::view)
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
            tasks.writing.spawn(self.pace.clone().run(uploader));
        }
        if let Some(outside) = self.outside {
            tasks.watching.spawn(outside.run());
        }
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

async fn open_target(
    target: &Spanned<PublishedTarget>,
    opening: Opening<'_>,
) -> Result<Arc<dyn chancery_publisher::store::DocumentStore>, ConfigError> {
    let opened = target.value.to.open().await;
    opened.map_err(|problem| ConfigError::refuse(opening.path, target.referenced.line(), &problem))
}

async fn open_uploaders(
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

/// The issuer URL itself, and every target that relying parties read at an address of its own.
fn views(targets: &[Spanned<PublishedTarget>]) -> Vec<View> {
    let mirrors = targets.iter().filter_map(|target| {
        let base = target.value.public_url.clone()?;
        Some(View { name: target.value.to.display_name(), base: Some(base) })
    });
    std::iter::once(View { name: "issuer URL".to_owned(), base: None }).chain(mirrors).collect()
}

/// Reads an issuer as its configuration says that relying parties do.
pub(crate) fn verifier(config: &IssuerConfig) -> Result<Verifier, String> {
    let verify = &config.verify;
    let mut options = VerifyOptions::default();
    if let Some(ca) = &verify.ca {
        let pem = std::fs::read(ca).map_err(|error| {
            format!("`verify.ca` {} cannot be read ({error}); give a PEM file of certificates", ca.display())
        })?;
        options.trust = Trust::Only(pem);
    }
    if !verify.parties.is_empty() {
        options.parties.clone_from(&verify.parties);
    }
    for text in &verify.resolve {
        let explain = |problem: GivenAddressError| format!("`verify.resolve`: {problem}");
        let given: GivenAddress = text.parse().map_err(explain)?;
        given.suits(&config.url).map_err(explain)?;
        options.addresses.insert(given.host, given.address);
    }
    Verifier::new(options).map_err(|problem| crate::chain(&problem))
}
