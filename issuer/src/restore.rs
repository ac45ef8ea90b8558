//! Disaster recovery: what a configuration describes, brought back in one go from what is left of it.
//!
//! | left | what comes of it |
//! |---|---|
//! | state and sources, documents lost | the documents are written again, under the id of the state |
//! | documents and sources, state lost | a new state is begun under the id of the documents; of the published keys that no source shows, a person says which go on being published |
//!
//! Nothing is imported where the state is whole: a key that stands there without our knowing it is an intruder's.
//!
//! An id is never guessed: where the state is lost and a target carries one, somebody has to say that it is this
//! issuer's, since a cluster that was made anew under the same URL finds the same documents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::cell::{StoreMode, Swap};
use chancery_core::jwks::ObservedJwks;
use chancery_core::provenance::{Identity, Provenance};
use chancery_core::publication::{Contact, Observed, StoredObject};
use chancery_core::{DocumentKind, IssuerUrl, KeyId, Owner, PublicKey, WriterKey};
use chancery_publisher::publish;
use chancery_publisher::trust::Registrar;
use chancery_publisher::{DocumentStore, TargetOpener};

use self::steps::{Mode, Sink};
use crate::config::{Config, ConfigError, IssuerConfig};
use crate::index::{Index, Publication};
use crate::issuer::open_sources;
use crate::source::{SourceEvent, read_once};
use crate::state::{Saved, StateError, StateStore, establish_writer_key, random_owner};
use crate::uploads::open_sink;

mod error;
mod steps;

pub use error::RestoreError;
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
    /// Keys that go on being published since a person has named them.
    pub imported: Vec<KeyId>,
    /// Keys that were found published, that nobody shows, and about which a person has yet to decide.
    pub undecided: Vec<KeyId>,
    /// Keys that were found published under our id although the state is whole and does not know them; they go.
    pub unknown: Vec<KeyId>,
    /// What could not be read, in words. What it would have told is missing.
    pub unread: Vec<String>,
    /// What will be published; `None` when no key was found anywhere.
    pub publication: Option<Arc<Publication>>,
    targets: Vec<Target>,
    sinks: Vec<Sink>,
    registrations: Vec<Box<dyn Registrar>>,
    index: Index,
    /// The targets that the state knows, each with the JWKS there.
    contacts: BTreeMap<String, Contact>,
    writer_key: Option<WriterKey>,
}

/// What a person has said about an issuer that is to be restored.
#[derive(Clone, Debug, Default)]
pub struct RestoreChoices {
    /// The id in the marker of the documents, where the state that kept it is lost.
    pub owner: Option<Owner>,
    /// Published keys that go on being published although no source shows them.
    pub import: Vec<KeyId>,
    /// Published keys that go.
    pub drop: Vec<KeyId>,
}

#[derive(Debug)]
struct Target {
    name: String,
    adopt: bool,
    store: Arc<dyn DocumentStore>,
    found: Option<Observed>,
}

impl Target {
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
        path: &Path,
        choices: &RestoreChoices,
    ) -> Result<Self, RestoreError> {
        let base = path.parent().unwrap_or(Path::new(""));
        let spanned = config.issuers.get(position).ok_or(RestoreError::NoSuchIssuer)?;
        let (issuer, line) = (&spanned.value, spanned.referenced.line());
        let state = open_state(config, path, StoreMode::ReadOnly).await?;
        let stored = match &state {
            Some(state) => state.load(&issuer.url).await?,
            None => None,
        };
        let saved = stored.map(|stored| stored.document);
        let mut unread = Vec::new();
        let (mut targets, opener) = (Vec::new(), TargetOpener::default());
        for target in &issuer.targets {
            let store = opener.open(&target.value.to).await;
            let store = store.map_err(|problem| ConfigError::refuse(path, line, &problem))?;
            let found = publish::observe(store.as_ref()).await;
            let found = found.map_err(|problem| unread.push(crate::error_chain(&problem))).ok();
            let (name, adopt) = (target.value.to.display_name(), target.value.to.adopt);
            targets.push(Target { name, adopt, store, found });
        }
        let found: BTreeSet<&Owner> = targets.iter().flat_map(Target::owners).collect();
        let said = choices.owner.as_ref().or(issuer.owner.as_ref());
        let derived = state.is_none().then(|| Owner::of_issuer(&issuer.url));
        let owner =
            decide_owner(saved.as_ref().map(|saved| &saved.owner), said.or(derived.as_ref()), &found)?;

        let begun = Saved::begin(issuer.url.clone(), owner.clone());
        let Saved { record, targets: contacts, .. } = saved.clone().unwrap_or(begun);
        let writer_key = establish_writer_key(state.as_ref(), config.writer_key_file.as_deref())?;
        let index = Index::new(issuer.into(), &record);
        let mut restoration = Self {
            issuer: issuer.url.clone(),
            owner,
            had_state: saved.is_some(),
            imported: Vec::new(),
            undecided: Vec::new(),
            unknown: Vec::new(),
            unread,
            publication: None,
            targets,
            sinks: open_sinks(issuer, path, base).await?,
            registrations: Vec::new(),
            index,
            contacts,
            writer_key,
        };
        restoration.read_sources(issuer, path, base).await?;
        restoration.decide_on_keys(choices, state.is_some());
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
    pub async fn carry_out(&mut self, config: &Config, path: &Path) -> Result<Vec<Step>, RestoreError> {
        if let Some(kid) = self.undecided.first() {
            return Err(RestoreError::Undecided { kid: kid.clone() });
        }
        if let Some(state) = open_state(config, path, StoreMode::ReadWrite).await? {
            self.writer_key = establish_writer_key(Some(&state), config.writer_key_file.as_deref())?;
            self.save(&state).await?;
        }
        Ok(self.steps(Mode::Apply).await)
    }

    async fn save(&self, state: &StateStore) -> Result<(), RestoreError> {
        let known = state.load(&self.issuer).await?;
        let targets = self.contacts.clone();
        let (issuer, owner) = (self.issuer.clone(), self.owner.clone());
        let (saved, version) = match known {
            Some(known) => (known.document, Some(known.version)),
            None => (Saved::begin(issuer, owner.clone()), None),
        };
        let saved = Saved { owner, targets, record: self.index.record(), ..saved };
        let swapped = state.cell(&self.issuer).swap(&saved, version.as_ref()).await;
        match swapped.map_err(StateError::from)? {
            Swap::Swapped(_) => Ok(()),
            Swap::Lost(_) => Err(RestoreError::Running),
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
            // A ring from a backup decides nothing here either; the service says so.
            let _ = index.apply(&event);
            if index.is_complete() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !complete.await {
            self.unread.push("a source did not answer in time; what it shows is missing".to_owned());
        }
        self.index.stop_waiting();
        Ok(())
    }

    /// Decides what becomes of the keys that stand under our id. Where the state is whole, what it does not know goes:
    /// an intruder put it there. Where it is lost, what a proven marker has withdrawn is withdrawn, and a person says of
    /// each key that no source shows whether it stays. Where none is kept, everything stays.
    fn decide_on_keys(&mut self, choices: &RestoreChoices, keeps_state: bool) {
        self.adopt_proven();
        let objects: Vec<StoredObject> = self.ours().cloned().collect();
        let known: Vec<KeyId> = self.index.keys().iter().map(|key| key.key_id().clone()).collect();
        let published: Vec<PublicKey> =
            objects.iter().flat_map(|object| published_keys(&object.bytes)).collect();
        let is_new = |key: &&PublicKey| !known.contains(key.key_id());
        let mut found: Vec<PublicKey> = Vec::new();
        for key in published.iter().filter(is_new) {
            if !found.contains(key) && !self.index.withdrawals().contains(key.key_id()) {
                found.push(key.clone());
            }
        }
        let (named, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|key| !keeps_state || choices.import.contains(key.key_id()));
        let rest = rest.iter().map(|key| key.key_id().clone());
        match self.had_state {
            true => self.unknown = rest.collect(),
            false => {
                let (dropped, undecided): (Vec<_>, Vec<_>) = rest.partition(|kid| choices.drop.contains(kid));
                self.index.retire(&dropped);
                self.undecided = undecided;
                self.imported = self.index.import(named);
            }
        }
        if keeps_state && !self.had_state {
            // The person has looked at every place, so what stands there is no predecessor's any more.
            for target in &self.targets {
                self.contacts.entry(target.name.clone()).or_default();
            }
        }
        self.publication = self.index.publish();
    }

    /// Takes over what a writer of this issuer has proven since our state was kept.
    fn adopt_proven(&mut self) {
        let identity =
            Identity { issuer: &self.issuer, owner: &self.owner, writer_key: self.writer_key.as_ref() };
        for target in &self.targets {
            let jwks = target.found.as_ref().and_then(|found| found.jwks.as_ref());
            let Some((object, marker, edition)) =
                jwks.and_then(|object| Some((object, object.marker.as_ref()?, object.edition()?)))
            else {
                continue;
            };
            let known = self.contacts.get(&target.name).and_then(Contact::decision).unwrap_or(0);
            if identity.judge(DocumentKind::Jwks, object) == Provenance::Proven && edition.decision() >= known
            {
                let published = published_keys(&object.bytes);
                self.index.adopt(edition.decision(), published, marker.withdrawn.clone());
                self.contacts.insert(target.name.clone(), Contact { known: Some(edition) });
            }
        }
    }

    /// The key sets that carry our id.
    fn ours(&self) -> impl Iterator<Item = &StoredObject> {
        let objects = self.targets.iter().filter_map(|target| target.found.as_ref()?.jwks.as_ref());
        objects.filter(|object| object.marker.as_ref().is_some_and(|marker| marker.owner == self.owner))
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

async fn open_state(
    config: &Config,
    path: &Path,
    mode: StoreMode,
) -> Result<Option<StateStore>, RestoreError> {
    let Some(state) = &config.state else { return Ok(None) };
    let base = path.parent().unwrap_or(Path::new(""));
    let opened = StateStore::open(&state.value, base, mode).await;
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
