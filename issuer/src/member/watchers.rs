//! Whoever looks at one issuer: the outside view, the copies in sinks, and the keeper of what they see.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Owner;
use chancery_core::visibility::{Sighting, Visibility, VisibilityRecord};
use chancery_publisher::verify::address::{GivenAddress, GivenAddressError};
use chancery_publisher::verify::{Trust, Verifier, VerifyOptions};
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};

use super::{Opening, Shared};
use crate::config::{ConfigError, IssuerConfig, PublishedTarget};
use crate::held::Held;
use crate::index::Publication;
use crate::outside::{OURSELVES, Outside, View};
use crate::state::StateStore;
use crate::uploads::SinkView;
use crate::visibility::{Keeper, Observation, VisibilityFile, patience};

/// What the view of the issuer URL itself is called.
const ISSUER_URL: &str = "issuer URL";
/// Observations waiting for the keeper.
const OBSERVATIONS: usize = 64;

/// What the outside view is told, and whom it tells.
#[derive(Debug)]
pub(super) struct Seen {
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    pub published: watch::Receiver<u64>,
    pub observations: mpsc::Sender<Observation>,
    pub held: Arc<Held>,
}

pub(super) fn outside(
    opening: Opening<'_>,
    (shared, seen): (&Shared, Seen),
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
        publications: seen.publications,
        published: seen.published,
        shutdown: shared.shutdown.clone(),
        observations: seen.observations,
        held: seen.held,
        board: shared.board.clone(),
        metrics: shared.metrics.clone(),
    }))
}

/// The keeper of what is seen of one issuer. Every place that should be looked at is listed, also where nobody looks.
pub(super) fn keeper(
    opening: Opening<'_>,
    owner: &Owner,
    (shared, publications): (&Shared, &watch::Receiver<Option<Arc<Publication>>>),
) -> Result<(Keeper, mpsc::Sender<Observation>), ConfigError> {
    let Opening { config, path, line, state, .. } = opening;
    let file = state.and_then(StateStore::directory).map(|directory| VisibilityFile::new(directory, owner));
    let saved = match &file {
        Some(file) => file.load().map_err(|problem| ConfigError::refuse(path, line, &problem))?,
        None => VisibilityRecord::default(),
    };
    let copies = config.sinks.iter().map(|sink| sink.value.display_name());
    let views = views(&config.targets).into_iter().map(|view| view.name).chain(copies);
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

/// Tells the keeper what a sink holds after each of its rounds.
pub(super) async fn sight_copies(
    mut copies: watch::Receiver<SinkView>,
    observations: mpsc::Sender<Observation>,
) {
    while copies.changed().await.is_ok() {
        let SinkView { name, held } = copies.borrow_and_update().clone();
        let sighting = match held.is_empty() {
            true => Sighting::of_unreadable_copy(name, "it was not read by this replica", Duration::ZERO),
            false => Sighting::of_copy(name, held, Duration::ZERO),
        };
        if observations.send(Observation::seen(sighting)).await.is_err() {
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

/// Reads an issuer as its configuration says that relying parties do.
pub(crate) fn verifier(config: &IssuerConfig) -> Result<Verifier, String> {
    let verify = &config.verify;
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
        given.suits(&config.url).map_err(explain)?;
        options.addresses.insert(given.host, given.address);
    }
    Verifier::new(options).map_err(|problem| crate::chain(&problem))
}

fn read_ca(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        format!("`verify.ca` {} cannot be read ({error}); give a PEM file of certificates", path.display())
    })
}
