//! Whoever looks at one issuer: the outside view, the copies in sinks, and the keeper of what they see.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::IssuerUrl;
use chancery_core::profile::pre_publication_wait;
use chancery_core::visibility::Observation;
use chancery_files::Bounds;
use chancery_publisher::verify::address::{GivenAddress, GivenAddressError};
use chancery_publisher::verify::jwks_host::AllowedJwksHosts;
use chancery_publisher::verify::{Trust, Verifier, VerifyOptions};
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};

use super::{Opening, Shared};
use crate::config::{ConfigError, ISSUER_URL_VIEW, IssuerConfig, PublishedTarget, VerifyConfig};
use crate::index::Publication;
use crate::outside::{OURSELVES, Outside, OutsideView};
use crate::published_history::PublishedHistory;
#[cfg(feature = "kube")]
use crate::signing_key::SigningKeyWatch;
use crate::source::SourceHealth;
use crate::uploads::SinkView;
use crate::visibility::{Keeper, ObservationEvent, RecordSettings, VISIBILITY, longest_gap};

/// Every public CA at once is a quarter of it.
const CA: Bounds = Bounds::regular(1 << 20, Duration::from_secs(5));
/// Observations waiting for the keeper.
const OBSERVATIONS: usize = 64;

/// What the outside view is told, and whom it tells.
#[derive(Debug)]
pub(super) struct OutsideChannels {
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    pub published: watch::Receiver<u64>,
    pub observations: mpsc::Sender<Box<ObservationEvent>>,
    pub history: Arc<PublishedHistory>,
}

pub(super) fn outside(
    opening: Opening<'_>,
    shared: &Shared,
    channels: OutsideChannels,
) -> Result<Option<Outside>, ConfigError> {
    let Opening { config, path, line, .. } = opening;
    if !config.verify.enabled {
        return Ok(None);
    }
    Ok(Some(Outside {
        issuer: config.url.clone(),
        views: views(&config.targets),
        verifier: verifier(config).map_err(|problem| ConfigError::value(path, line, problem))?,
        every: config.verify.every,
        publications: channels.publications,
        published: channels.published,
        shutdown: shared.shutdown.clone(),
        leading: shared.leading.clone(),
        observations: channels.observations,
        history: channels.history,
        conditions: shared.conditions.clone(),
        metrics: shared.metrics.clone(),
    }))
}

/// What the keeper of an issuer's record is told.
#[derive(Debug)]
pub(super) struct KeeperChannels {
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    pub history: Arc<PublishedHistory>,
}

/// The keeper of what is seen of one issuer, and where to tell it. Every place that should be looked at is listed, also
/// where nobody looks.
pub(super) async fn keeper(
    opening: Opening<'_>,
    shared: &Shared,
    channels: KeeperChannels,
) -> Result<(Keeper, mpsc::Sender<Box<ObservationEvent>>), ConfigError> {
    let Opening { config, path, line, state, .. } = opening;
    let cell = state.map(|state| state.cells().cell(config.url.as_str(), VISIBILITY));
    if let Some(cell) = &cell {
        // One that cannot be read is refused before anything runs.
        cell.load().await.map_err(|problem| ConfigError::refuse(path, line, &problem))?;
    }
    let copies = config.sinks.iter().map(|sink| sink.value.display_name());
    let settings = RecordSettings {
        views: views(&config.targets).into_iter().map(|view| view.name).chain(copies).collect(),
        longest_gap: longest_gap(config.verify.every),
        every: config.verify.every,
        longest_lifetime: config.verify.longest_cache,
        usual_wait: pre_publication_wait(&config.verify.parties).time,
    };
    let (observations, events) = mpsc::channel(OBSERVATIONS);
    let keeper = Keeper {
        issuer: config.url.clone(),
        snapshots: Keeper::nothing_known(&settings),
        settings,
        cell,
        leading: shared.leading.clone(),
        events,
        publications: channels.publications,
        history: channels.history,
        conditions: shared.conditions.clone(),
        metrics: shared.metrics.clone(),
    };
    Ok((keeper, observations))
}

/// Where the sources tell how they fare. The keys that they sign with are held against what is published, and, where anybody
/// looks from outside, what `keeper` knows.
pub(super) fn source_health(config: &IssuerConfig, shared: &Shared, keeper: &Keeper) -> SourceHealth {
    let health = SourceHealth::new(config.url.clone(), shared.metrics.clone(), shared.conditions.clone());
    #[cfg(feature = "kube")]
    let health = {
        let visibility = config.verify.enabled.then(|| keeper.snapshots.subscribe());
        health.judging(Arc::new(SigningKeyWatch::new(keeper.publications.clone(), visibility)))
    };
    #[cfg(not(feature = "kube"))]
    let _ = keeper;
    health
}

/// Tells the keeper what a sink holds after each of its rounds.
pub(super) async fn observe_copies(
    mut copies: watch::Receiver<SinkView>,
    observations: mpsc::Sender<Box<ObservationEvent>>,
) {
    while copies.changed().await.is_ok() {
        let SinkView { name, held } = copies.borrow_and_update().clone();
        let observation = match held.is_empty() {
            true => Observation::of_unreadable_copy(name, "it was not read by this replica", Duration::ZERO),
            false => Observation::of_copy(name, held, Duration::ZERO),
        };
        if observations.send(Box::new(ObservationEvent::just_ended(observation))).await.is_err() {
            break;
        }
    }
    // The uploader ends with the process.
    std::future::pending::<()>().await;
}

/// The view that a target stands behind: its own address, or the issuer URL.
pub(super) fn view_before(target: &PublishedTarget) -> String {
    match target.public_url {
        Some(_) => target.to.display_name(),
        None => ISSUER_URL_VIEW.to_owned(),
    }
}

/// The issuer URL itself, and every target that relying parties read at an address of its own.
fn views(targets: &[Spanned<PublishedTarget>]) -> Vec<OutsideView> {
    let names = || targets.iter().map(|target| target.value.to.display_name());
    let mirrors = targets.iter().filter_map(|target| {
        let base = target.value.public_url.clone()?;
        let name = target.value.to.display_name();
        Some(OutsideView { holders: vec![name.clone()], name, base: Some(base) })
    });
    // Any of the targets may stand behind the issuer URL, or this process.
    let holders = names().chain([OURSELVES.to_owned()]).collect();
    std::iter::once(OutsideView { name: ISSUER_URL_VIEW.to_owned(), base: None, holders })
        .chain(mirrors)
        .collect()
}

/// Reads an issuer as its configuration says that relying parties do.
///
/// # Errors
/// What of `verify` cannot be used, in words.
pub fn verifier(config: &IssuerConfig) -> Result<Verifier, String> {
    verifier_of(&config.verify, &[&config.url])
}

/// The same for several issuers.
pub(crate) fn verifier_of(verify: &VerifyConfig, issuers: &[&IssuerUrl]) -> Result<Verifier, String> {
    let mut options = VerifyOptions::default();
    if let Some(ca) = &verify.ca {
        options.trust = Trust::Only(read_ca(ca)?);
    }
    if !verify.parties.is_empty() {
        options.parties.clone_from(&verify.parties);
    }
    for text in &verify.resolve {
        let explain = |problem: GivenAddressError| format!("`verify.resolve`: {problem}");
        let given: GivenAddress = text.parse().map_err(explain)?;
        issuers.iter().try_for_each(|issuer| given.suits(issuer)).map_err(explain)?;
        options.addresses.insert(given.host, given.address);
    }
    options.allowed_jwks_hosts = AllowedJwksHosts::new(&verify.allow_jwks_hosts);
    Verifier::new(options).map_err(|problem| crate::error_chain(&problem))
}

fn read_ca(path: &Path) -> Result<Vec<u8>, String> {
    chancery_files::read(path, CA).map_err(|error| {
        let reason = crate::error_chain(&error);
        format!("`verify.ca` {} cannot be read ({reason}); give a PEM file of certificates", path.display())
    })
}
