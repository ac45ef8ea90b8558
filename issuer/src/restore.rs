//! Disaster recovery: what a configuration describes, brought back in one go from what is left of it.
//!
//! | left | what comes of it |
//! |---|---|
//! | state and sources, documents lost | the documents are written again, under the id of the state |
//! | documents and sources, state lost | the published keys are imported into a new state, under the id of the documents |
//! | documents alone | their keys are imported; nothing is withdrawn and nothing becomes empty |
//!
//! An id is never guessed: where the state is lost and a target carries one, somebody has to say that it is this
//! issuer's, since a cluster that was made anew under the same URL finds the same documents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::jwks::ObservedJwks;
use chancery_core::marker::Edition;
use chancery_core::publication::{Observed, StoredObject};
use chancery_core::{IssuerUrl, KeyId, Owner, PublicKey};
use chancery_publisher::publish;
use chancery_publisher::trust::Registrar;
use chancery_publisher::{DocumentStore, default_owner};

use self::steps::{Mode, Sink};
use crate::config::{Config, ConfigError, IssuerConfig};
use crate::index::{Index, Publication};
use crate::member::open_sources;
use crate::source::{SourceEvent, read_once};
use crate::state::{Kept, Saved, StateError, StateStore, random_owner};
use crate::uploads::open_sink;

mod steps;

pub use steps::Step;

/// How long the sources are waited for; what is recorded and published must do then.
const PATIENCE: Duration = Duration::from_secs(30);

/// One issuer, read from everything that is left of it, and nothing changed yet.
#[derive(Debug)]
pub struct Restoration {
    /// Whose documents.
    pub issuer: IssuerUrl,
    /// The id in the marker.
    pub owner: Owner,
    /// Whether there was a state to start from.
    pub had_state: bool,
    /// Keys that were found published and that neither the state nor a source knows; they stay.
    pub imported: Vec<KeyId>,
    /// What could not be read, in words. What it would have told is missing.
    pub unread: Vec<String>,
    /// What will be published; `None` when no key was found anywhere.
    pub publication: Option<Arc<Publication>>,
    targets: Vec<Target>,
    sinks: Vec<Sink>,
    registrations: Vec<Box<dyn Registrar>>,
    index: Index,
}

#[derive(Debug)]
struct Target {
    name: String,
    adopt: bool,
    store: Arc<dyn DocumentStore>,
    found: Option<Observed>,
}

impl Target {
    fn edition(&self) -> Option<Edition> {
        self.found.as_ref()?.jwks.as_ref()?.edition()
    }

    fn owners(&self) -> impl Iterator<Item = &Owner> {
        let objects = self.found.iter().flat_map(|found| [&found.jwks, &found.discovery]);
        objects.flatten().filter_map(|object| Some(&object.marker.as_ref()?.owner))
    }
}

impl Restoration {
    /// Reads the state, the sources and the targets of one issuer of a configuration. Changes nothing.
    ///
    /// # Errors
    /// When the configuration cannot be used, or it is not certain which id is this issuer's.
    pub async fn read(
        config: &Config,
        position: usize,
        (path, chosen): (&Path, Option<&Owner>),
    ) -> Result<Self, RestoreError> {
        let base = path.parent().unwrap_or(Path::new(""));
        let spanned = config.issuers.get(position).ok_or(RestoreError::NoSuchIssuer)?;
        let (issuer, line) = (&spanned.value, spanned.referenced.line());
        let state = open_state(config, path, base).await?;
        let saved = match &state {
            Some(state) => state.load(&issuer.url).await?,
            None => None,
        };
        let mut unread = Vec::new();
        let mut targets = Vec::new();
        for target in &issuer.targets {
            let store = target.value.to.open().await;
            let store = store.map_err(|problem| ConfigError::refuse(path, line, &problem))?;
            let found = publish::observe(store.as_ref()).await;
            let found = found.map_err(|problem| unread.push(crate::chain(&problem))).ok();
            let (name, adopt) = (target.value.to.display_name(), target.value.to.adopt);
            targets.push(Target { name, adopt, store, found });
        }
        let found: BTreeSet<&Owner> = targets.iter().flat_map(Target::owners).collect();
        let said = chosen.or(issuer.owner.as_ref());
        let derived = state.is_none().then(|| default_owner(&issuer.url));
        let owner =
            decide_owner(saved.as_ref().map(|saved| &saved.owner), said.or(derived.as_ref()), &found)?;

        let record = saved.as_ref().map(|saved| saved.record.clone()).unwrap_or_default();
        let index =
            Index::new(issuer.url.clone(), issuer.cache(), issuer.residence, (issuer.sources.len(), &record));
        let mut restoration = Self {
            issuer: issuer.url.clone(),
            owner,
            had_state: saved.is_some(),
            imported: Vec::new(),
            unread,
            publication: None,
            targets,
            sinks: open_sinks(issuer, path, base).await?,
            registrations: Vec::new(),
            index,
        };
        restoration.read_sources(issuer, path, base).await?;
        restoration.import();
        let jwks = restoration.publication.as_ref().map(|publication| publication.documents.jwks().clone());
        for registration in &issuer.registrations {
            let registrar = registration.value.registrar(&issuer.url, jwks.as_ref()).await;
            let line = registration.referenced.line();
            let registrar = registrar.map_err(|problem| ConfigError::refuse(path, line, &problem))?;
            restoration.registrations.push(registrar);
        }
        Ok(restoration)
    }

    /// What would be done in each place. Changes nothing.
    pub async fn plan(&self) -> Vec<Step> {
        self.steps(Mode::Plan).await
    }

    /// Saves the state, then publishes to each target, uploads to each sink and makes each registration; what fails in
    /// one place keeps nobody from the others.
    ///
    /// # Errors
    /// When the state cannot be saved: nothing was published then.
    pub async fn carry_out(&self, config: &Config, path: &Path) -> Result<Vec<Step>, RestoreError> {
        let base = path.parent().unwrap_or(Path::new(""));
        if let Some(state) = open_state(config, path, base).await? {
            self.save(&state).await?;
        }
        Ok(self.steps(Mode::Apply).await)
    }

    async fn save(&self, state: &StateStore) -> Result<(), RestoreError> {
        let known = state.load(&self.issuer).await?;
        let editions =
            self.targets.iter().filter_map(|target| Some((target.name.clone(), target.edition()?)));
        let targets: BTreeMap<_, _> = editions.collect();
        let (issuer, owner) = (self.issuer.clone(), self.owner.clone());
        let saved = Saved { issuer, owner, targets, record: self.index.record() };
        match state.save(&saved, known.as_ref()).await? {
            Kept::Saved => Ok(()),
            Kept::Changed(_) => Err(RestoreError::Running),
        }
    }

    async fn read_sources(
        &mut self,
        config: &IssuerConfig,
        path: &Path,
        base: &Path,
    ) -> Result<(), RestoreError> {
        let sources = open_sources(config, path, base).await?;
        let (index, unread) = (&mut self.index, &mut self.unread);
        let complete = read_once(sources, PATIENCE, |event| {
            if let SourceEvent::Failed { source, error } = &event {
                unread.push(format!("source {}: {error}", source.name));
            }
            index.apply(&event);
            if index.is_complete() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !complete.await {
            self.unread.push("a source did not answer in time; what it shows is missing".to_owned());
        }
        self.index.stop_waiting();
        Ok(())
    }

    /// Goes on from what is published under our id: its withdrawals hold, its other keys stay.
    fn import(&mut self) {
        let ours = |object: &&StoredObject| object.marker.as_ref().is_some_and(|m| m.owner == self.owner);
        let objects: Vec<StoredObject> = self
            .targets
            .iter()
            .filter_map(|t| t.found.as_ref()?.jwks.as_ref())
            .filter(ours)
            .cloned()
            .collect();
        for object in &objects {
            let withdrawn = object.marker.as_ref().map(|marker| marker.withdrawn.clone()).unwrap_or_default();
            self.index.adopt(&[], &withdrawn);
        }
        let keys: Vec<PublicKey> = objects.iter().flat_map(|object| published_keys(&object.bytes)).collect();
        self.imported = self.index.import(keys);
        self.publication = self.index.publication();
    }
}

async fn open_sinks(config: &IssuerConfig, path: &Path, base: &Path) -> Result<Vec<Sink>, ConfigError> {
    let mut sinks = Vec::new();
    for sink in &config.sinks {
        let opened = open_sink(&sink.value, &config.url, base).await;
        let opened = opened.map_err(|problem| ConfigError::refuse(path, sink.referenced.line(), &problem))?;
        sinks.push(Sink { name: sink.value.display_name(), adopt: sink.value.adopt, sink: opened });
    }
    Ok(sinks)
}

/// What relying parties may be using; an entry that is no key of ours blocks the target later, with a reason.
fn published_keys(bytes: &[u8]) -> Vec<PublicKey> {
    ObservedJwks::parse(bytes).map(|jwks| jwks.keys().cloned().collect()).unwrap_or_default()
}

async fn open_state(config: &Config, path: &Path, base: &Path) -> Result<Option<StateStore>, RestoreError> {
    let Some(state) = &config.state else { return Ok(None) };
    let opened = StateStore::open(&state.value, base).await;
    Ok(Some(opened.map_err(|problem| ConfigError::refuse(path, state.referenced.line(), &problem))?))
}

/// Which id is this issuer's: that of the state; otherwise what a person said; otherwise a new one, but only where no
/// target carries one.
fn decide_owner(
    saved: Option<&Owner>,
    said: Option<&Owner>,
    found: &BTreeSet<&Owner>,
) -> Result<Owner, RestoreError> {
    match (saved, said) {
        (Some(saved), Some(said)) if saved != said => {
            Err(RestoreError::OtherOwner { saved: saved.clone(), said: said.clone() })
        }
        (Some(owner), _) | (None, Some(owner)) => Ok(owner.clone()),
        (None, None) if found.is_empty() => Ok(random_owner()),
        (None, None) => {
            let found: Vec<&str> = found.iter().map(|owner| owner.as_str()).collect();
            Err(RestoreError::WhoseId { found: found.join(", ") })
        }
    }
}

/// Why an issuer cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A position that the configuration does not have.
    #[error("the configuration has no such issuer; name one of its `url`s")]
    NoSuchIssuer,
    /// Something the configuration names cannot be used.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The state says one id and a person another.
    #[error(
        "the state was kept for the owner {saved}, and {said} was asked for; leave the owner out, or move the state away"
    )]
    OtherOwner {
        /// The id in the state.
        saved: Owner,
        /// What was asked for.
        said: Owner,
    },
    /// Nobody said whose the documents are.
    #[error(
        "the state is lost, and the documents on the targets belong to {found}; say `--owner` with that id if they are this issuer's, or choose other targets if this is a new one"
    )]
    WhoseId {
        /// The ids on the targets.
        found: String,
    },
    /// Somebody else writes the state.
    #[error("the state changed while it was being restored; stop the service, then run this again")]
    Running,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_from_the_state_or_from_a_person_and_never_guessed() {
        let [a, b]: [Owner; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let (none, found) = (BTreeSet::new(), BTreeSet::from([&a]));
        assert_eq!(decide_owner(Some(&a), None, &BTreeSet::from([&b])).unwrap(), a);
        assert_eq!(decide_owner(Some(&a), Some(&a), &none).unwrap(), a);
        assert_eq!(decide_owner(None, Some(&a), &found).unwrap(), a);
        assert_ne!(decide_owner(None, None, &none).unwrap(), decide_owner(None, None, &none).unwrap());
        let refused = decide_owner(None, None, &found).unwrap_err().to_string();
        assert!(refused.contains("belong to a;"), "{refused}");
        assert!(matches!(decide_owner(Some(&a), Some(&b), &none), Err(RestoreError::OtherOwner { .. })));
    }
}
