//! The issuers of the process and what each of them shows, for the servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::{DocumentSet, IssuerUrl};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::index::Publication;
use crate::known_keys::KnownKeys;
use crate::visibility::VisibilitySnapshot;

/// How long readiness waits for the first documents of an issuer. Sources have half of it to answer.
pub const READINESS_WAIT: Duration = Duration::from_secs(60);

/// The issuers of the process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    entries: Arc<Mutex<BTreeMap<IssuerUrl, RosterEntry>>>,
    /// Since when objects are waited for that may declare further issuers.
    objects_awaited: Arc<Mutex<Option<Instant>>>,
}

/// What one issuer shows.
#[derive(Debug)]
struct RosterEntry {
    declared: Arc<Declared>,
    since: Instant,
    /// Why it cannot be opened; nothing when it is open or was not tried yet.
    problem: Option<String>,
    opened: Option<OpenIssuer>,
}

/// What an issuer that is open shows.
#[derive(Clone, Debug)]
pub struct OpenIssuer {
    /// What it publishes, once every source was read.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// What is seen of it from outside.
    pub visibility: watch::Receiver<VisibilitySnapshot>,
    /// What else is known of its keys.
    pub known: KnownKeys,
}

/// What the configuration says of an issuer, as far as operators are shown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its targets, by name.
    pub targets: Vec<String>,
    /// Its sinks, by name.
    pub sinks: Vec<String>,
    /// Whether anybody is to look from outside.
    pub is_looked_at: bool,
}

/// An issuer of the process.
#[derive(Clone, Debug)]
pub struct Member {
    /// How far it is.
    pub progress: Progress,
    /// What the configuration says of it.
    pub declared: Arc<Declared>,
    /// What it shows, once it is open.
    pub opened: Option<OpenIssuer>,
}

/// How far an issuer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which issuer.
    pub issuer: IssuerUrl,
    /// Whether it has documents.
    pub has_documents: bool,
    /// Whether readiness waited long enough for its first documents.
    pub waited_for: bool,
    /// Why it cannot be opened.
    pub problem: Option<String>,
}

impl Roster {
    /// There is such an issuer from now on.
    pub fn join(&self, issuer: &IssuerUrl, declared: Declared) {
        let declared = Arc::new(declared);
        let entry = RosterEntry { declared, since: Instant::now(), problem: None, opened: None };
        self.lock().insert(issuer.clone(), entry);
    }

    /// It is open.
    pub fn opened(&self, issuer: &IssuerUrl, opened: OpenIssuer) {
        if let Some(entry) = self.lock().get_mut(issuer) {
            entry.problem = None;
            entry.opened = Some(opened);
        }
    }

    /// It cannot be opened.
    pub(crate) fn refused(&self, issuer: &IssuerUrl, problem: &str) {
        if let Some(entry) = self.lock().get_mut(issuer) {
            entry.problem = Some(problem.to_owned());
        }
    }

    /// There is no such issuer any more.
    pub(crate) fn leave(&self, issuer: &IssuerUrl) {
        self.lock().remove(issuer);
    }

    /// Each issuer that is open, by its URL.
    pub fn opened_issuers(&self) -> BTreeMap<IssuerUrl, OpenIssuer> {
        let entries = self.lock();
        let opened =
            entries.iter().filter_map(|(issuer, entry)| Some((issuer.clone(), entry.opened.clone()?)));
        opened.collect()
    }

    /// Objects may declare further issuers, and were not listed yet.
    pub(crate) fn awaits_objects(&self) {
        *self.objects_awaited.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// What they declare is there.
    pub(crate) fn has_objects(&self) {
        *self.objects_awaited.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether readiness waits for objects to be listed.
    pub fn is_waiting_for_objects(&self) -> bool {
        let since = *self.objects_awaited.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < READINESS_WAIT)
    }

    /// The documents of all issuers that have any.
    pub(crate) fn documents(&self) -> Vec<DocumentSet> {
        let entries = self.lock();
        let opened = entries.values().filter_map(|entry| entry.opened.as_ref());
        opened.filter_map(|opened| Some(opened.publications.borrow().as_ref()?.documents.clone())).collect()
    }

    /// What is seen of each issuer, by its URL.
    pub fn visibility(&self) -> Vec<(IssuerUrl, watch::Receiver<VisibilitySnapshot>)> {
        let entries = self.lock();
        let opened = entries.iter().filter_map(|(issuer, entry)| Some((issuer, entry.opened.as_ref()?)));
        opened.map(|(issuer, opened)| (issuer.clone(), opened.visibility.clone())).collect()
    }

    /// How far each issuer is, by its URL.
    pub fn progress(&self) -> Vec<Progress> {
        self.lock().iter().map(|(issuer, entry)| entry.progress(issuer)).collect()
    }

    /// Every issuer, by its URL.
    pub fn members(&self) -> Vec<Member> {
        self.lock().iter().map(|(issuer, entry)| entry.member(issuer)).collect()
    }

    /// One of them, if it is there.
    pub fn member(&self, issuer: &IssuerUrl) -> Option<Member> {
        self.lock().get(issuer).map(|entry| entry.member(issuer))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IssuerUrl, RosterEntry>> {
        // No code that holds the lock can leave the entries half changed.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RosterEntry {
    fn progress(&self, issuer: &IssuerUrl) -> Progress {
        Progress {
            issuer: issuer.clone(),
            has_documents: self.opened.as_ref().is_some_and(|opened| opened.publications.borrow().is_some()),
            waited_for: self.since.elapsed() >= READINESS_WAIT,
            problem: self.problem.clone(),
        }
    }

    fn member(&self, issuer: &IssuerUrl) -> Member {
        let (declared, opened) = (self.declared.clone(), self.opened.clone());
        Member { progress: self.progress(issuer), declared, opened }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readiness_waits_for_objects_until_they_are_listed_or_it_has_waited_for_long_enough() {
        let roster = Roster::default();
        assert!(!roster.is_waiting_for_objects(), "nobody follows any");
        roster.awaits_objects();
        assert!(roster.is_waiting_for_objects());
        roster.has_objects();
        assert!(!roster.is_waiting_for_objects());
        roster.awaits_objects();
        tokio::time::advance(READINESS_WAIT).await;
        assert!(!roster.is_waiting_for_objects());
    }
}
