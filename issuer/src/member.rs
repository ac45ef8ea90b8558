//! One issuer among those of the process: its sources, index, targets and outside view, opened and then spawned.

use std::path::Path;
use std::sync::Arc;

use chancery_core::IssuerUrl;
use chancery_core::residence::Record;
use chancery_core::visibility::{Visibility, VisibilityRecord};
use chancery_publisher::verify::address::{GivenAddress, GivenAddressError};
use chancery_publisher::verify::{Trust, Verifier, VerifyOptions};
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};

use crate::collect::Collector;
use crate::conditions::Board;
use crate::config::{ConfigError, IssuerConfig, PublishedTarget};
use crate::held::Held;
use crate::index::{Index, Publication};
use crate::leadership::Leading;
use crate::metrics::Metrics;
use crate::outside::{OURSELVES, Outside, View};
use crate::reconcile::{Notices, Reconciler};
use crate::source::Source;
use crate::state::StateDirectory;
use crate::tasks::Tasks;
use crate::visibility::{Keeper, Observation, Shown, VisibilityFile, patience};

/// Readings waiting for the collector; a source that is faster waits.
const EVENTS: usize = 64;
/// What the view of the issuer URL itself is called.
const ISSUER_URL: &str = "issuer URL";
/// Observations waiting for the keeper.
const OBSERVATIONS: usize = 64;

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
    pub path: &'a Path,
    pub base: &'a Path,
    pub state: Option<&'a StateDirectory>,
    /// Where the visibility record is kept.
    pub directory: Option<&'a Path>,
}

/// One issuer, ready to run.
#[derive(Debug)]
pub(crate) struct Member {
    sources: Vec<Source>,
    events: mpsc::Sender<crate::source::SourceEvent>,
    collector: Collector,
    reconcilers: Vec<Reconciler>,
    outside: Option<Outside>,
    keeper: Keeper,
    /// Whoever sees the keys somewhere says so here. Kept open, since there may be nobody at all.
    observations: mpsc::Sender<Observation>,
    publications: watch::Receiver<Option<Arc<Publication>>>,
}

impl Member {
    /// Opens everything one issuer names.
    pub async fn open(opening: Opening<'_>, line: u64, shared: &Shared) -> Result<Self, ConfigError> {
        let Opening { config, path, state, .. } = opening;
        let owner = config.owner();
        let sources = open_sources(opening).await?;
        let record = state.map_or_else(|| Ok(Record::default()), |state| state.load(&owner));
        let record = record.map_err(|problem| ConfigError::refuse(path, line, &problem))?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let (sender, publications) = watch::channel(None);
        let (published, publishings) = watch::channel(0);
        let index =
            Index::new(config.url.clone(), config.cache(), config.residence, (sources.len(), &record));
        let collector = Collector {
            issuer: config.url.clone(),
            index,
            events: receiver,
            publications: sender,
            state: state.map(|state| (state.clone(), owner.clone())),
            metrics: shared.metrics.clone(),
        };
        let (keeper, observations) = keeper(opening, line, (shared, &publications))?;
        let held = Arc::new(Held::default());
        let mut reconcilers = Vec::new();
        for target in &config.targets {
            let name = target.value.to.display_name();
            let told = (shared.board.clone(), held.clone(), shared.metrics.clone());
            let behind = (observations.clone(), view_before(&target.value));
            reconcilers.push(Reconciler {
                issuer: config.url.clone(),
                notices: Notices::new(&config.url, &name, told, behind),
                name,
                store: open_target(target, opening).await?,
                owner: owner.clone(),
                adopt: target.value.to.adopt,
                every: config.verify.every,
                publications: publications.clone(),
                leading: shared.leading.clone(),
                published: published.clone(),
                shutdown: shared.shutdown.clone(),
                metrics: shared.metrics.clone(),
            });
        }
        let outside = match config.verify.enabled {
            true => Some(Outside {
                issuer: config.url.clone(),
                views: views(&config.targets),
                verifier: verifier(opening).map_err(|problem| ConfigError::value(path, line, problem))?,
                every: config.verify.every,
                publications: publications.clone(),
                published: publishings,
                shutdown: shared.shutdown.clone(),
                observations: observations.clone(),
                held,
                board: shared.board.clone(),
                metrics: shared.metrics.clone(),
            }),
            false => None,
        };
        Ok(Self { sources, events, collector, reconcilers, outside, keeper, observations, publications })
    }

    /// Whose it is, and what is seen of it, now and later.
    pub fn visibility(&self) -> (IssuerUrl, watch::Receiver<Shown>) {
        (self.keeper.issuer.clone(), self.keeper.shown.subscribe())
    }

    /// What this issuer publishes, now and later.
    pub fn publications(&self) -> watch::Receiver<Option<Arc<Publication>>> {
        self.publications.clone()
    }

    /// Starts its tasks.
    pub fn spawn(self, tasks: &mut Tasks, changed: &mpsc::Sender<()>) {
        for source in self.sources {
            tasks.watching.spawn(source.run(self.events.clone()));
        }
        tasks.watching.spawn(self.collector.run());
        tasks.watching.spawn(announce(self.publications, changed.clone()));
        for reconciler in self.reconcilers {
            tasks.writing.spawn(reconciler.run());
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

/// The keeper of what is seen of one issuer. Every place that should be looked at is listed, also where nobody looks.
fn keeper(
    opening: Opening<'_>,
    line: u64,
    (shared, publications): (&Shared, &watch::Receiver<Option<Arc<Publication>>>),
) -> Result<(Keeper, mpsc::Sender<Observation>), ConfigError> {
    let config = opening.config;
    let file = opening.directory.map(|directory| VisibilityFile::new(directory, &config.owner()));
    let saved = match &file {
        Some(file) => file.load().map_err(|problem| ConfigError::refuse(opening.path, line, &problem))?,
        None => VisibilityRecord::default(),
    };
    let views = views(&config.targets).into_iter().map(|view| view.name);
    let record = Visibility::restore(views, patience(config.verify.every), &saved);
    let (observations, receiver) = mpsc::channel(OBSERVATIONS);
    let keeper = Keeper {
        issuer: config.url.clone(),
        shown: Keeper::show(&record),
        record,
        observations: receiver,
        file,
        publications: publications.clone(),
        board: shared.board.clone(),
        metrics: shared.metrics.clone(),
    };
    Ok((keeper, observations))
}

/// Tells whoever serves that something changed; several changes before it looks are one.
async fn announce(mut publications: watch::Receiver<Option<Arc<Publication>>>, changed: mpsc::Sender<()>) {
    while publications.changed().await.is_ok() {
        if let Err(mpsc::error::TrySendError::Closed(())) = changed.try_send(()) {
            return;
        }
    }
}

async fn open_sources(opening: Opening<'_>) -> Result<Vec<Source>, ConfigError> {
    let mut sources = Vec::new();
    for (position, source) in opening.config.sources.iter().enumerate() {
        let opened = Source::open(&source.value, position, opening.base).await;
        let line = source.referenced.line();
        sources.push(opened.map_err(|problem| ConfigError::refuse(opening.path, line, &problem))?);
    }
    Ok(sources)
}

async fn open_target(
    target: &Spanned<PublishedTarget>,
    opening: Opening<'_>,
) -> Result<Arc<dyn chancery_publisher::store::DocumentStore>, ConfigError> {
    let opened = target.value.to.open().await;
    opened.map_err(|problem| ConfigError::refuse(opening.path, target.referenced.line(), &problem))
}

/// The view that a target stands behind: its own address, or the issuer URL.
fn view_before(target: &PublishedTarget) -> String {
    match target.public_url {
        Some(_) => target.to.display_name(),
        None => ISSUER_URL.to_owned(),
    }
}

/// The issuer URL itself, and every target that relying parties read at an address of its own.
fn views(targets: &[Spanned<PublishedTarget>]) -> Vec<View> {
    let names = || targets.iter().map(|target| target.value.to.display_name());
    let mirrors = targets.iter().filter_map(|target| {
        let base = target.value.public_url.clone()?;
        let name = target.value.to.display_name();
        Some(View { holders: vec![name.clone()], name, base: Some(base) })
    });
    // Any of the targets may stand behind the issuer URL, or this process.
    let holders = names().chain([OURSELVES.to_owned()]).collect();
    std::iter::once(View { name: ISSUER_URL.to_owned(), base: None, holders }).chain(mirrors).collect()
}

fn verifier(opening: Opening<'_>) -> Result<Verifier, String> {
    let verify = &opening.config.verify;
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
        given.suits(&opening.config.url).map_err(explain)?;
        options.addresses.insert(given.host, given.address);
    }
    Verifier::new(options).map_err(|problem| crate::chain(&problem))
}
