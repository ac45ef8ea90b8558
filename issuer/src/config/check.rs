//! What the types alone cannot say: what the parts of a configuration may not be to each other.

use std::collections::BTreeSet;

use serde_saphyr::Spanned;
#[cfg(feature = "kube")]
use {
    serde_json::Value,
    serde_saphyr::Location,
    sha2::{Digest as _, Sha256},
};

use super::values::check_public_url;
use super::{Config, IssuerConfig};

/// What the view of the issuer URL itself is called, so that nothing else may be.
pub(crate) const ISSUER_URL_VIEW: &str = "issuer URL";

/// A line, counted from 1, and what is wrong there.
#[derive(Debug)]
pub(super) struct Refusal {
    pub line: u64,
    pub problem: String,
}

impl Refusal {
    fn at<T>(entry: &Spanned<T>, problem: impl ToString) -> Self {
        Self { line: entry.referenced.line(), problem: problem.to_string() }
    }

    fn of_file(problem: &str) -> Self {
        Self { line: 1, problem: problem.to_owned() }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.issuers.is_empty() && self.resources.is_none() {
            let problem = "`issuers` is empty; list at least one issuer with its url and sources, or let objects of a cluster \
                 declare them (`resources`)";
            return Err(Refusal::of_file(problem));
        }
        let mut seen = BTreeSet::new();
        for issuer in &self.issuers {
            if !seen.insert(&issuer.value.url) {
                let problem = format!("issuer {} is listed twice; merge the two entries", issuer.value.url);
                return Err(Refusal::at(issuer, problem));
            }
            check_issuer(issuer)?;
        }
        let elects = |election: &Spanned<super::LeaderElectionConfig>| election.value.enabled != Some(false);
        self.check_replicas(self.leader_election.as_ref().is_some_and(elects))?;
        let is_shown = |issuer: &IssuerConfig| !issuer.targets.is_empty() || !issuer.sinks.is_empty();
        let may_be_shown = self.resources.is_some() || !self.serve.is_empty();
        if !may_be_shown && !self.issuers.iter().any(|issuer| is_shown(&issuer.value)) {
            let problem = "there is neither a `serve` section nor a target nor a sink, so nobody could read the documents";
            return Err(Refusal::of_file(problem));
        }
        Ok(())
    }

    /// Replicas that take turns must know one id, or the second is a stranger on the first one's targets.
    pub(super) fn check_replicas(&self, elects: bool) -> Result<(), Refusal> {
        let private = self.state.as_ref().filter(|state| elects && state.value.directory.is_some());
        let Some(state) = private else { return Ok(()) };
        if self.writer_key_file.is_none() {
            let problem = "replicas that elect a leader do not share a `state.directory`, so none could tell the others' work from an intruder's; \
                 keep the state in a `configMap`, give all of them the same `writerKeyFile` and `owner`, or set \
                 `leaderElection.enabled: false` for a process that is alone";
            return Err(Refusal::at(state, problem));
        }
        if self.resources.is_some() {
            let problem = "replicas that elect a leader do not share a `state.directory`, so each would give the issuers of \
                 `resources` ids of its own; keep the state in a `configMap`, or set `leaderElection.enabled: false` for a \
                 process that is alone";
            return Err(Refusal::at(state, problem));
        }
        match self.issuers.iter().find(|issuer| issuer.value.owner.is_none()) {
            Some(issuer) => Err(Refusal::at(
                state,
                format!(
                    "replicas that elect a leader do not share a `state.directory`, so each would give {} an id of its own; \
                     keep the state in a `configMap`, set the issuer's `owner`, or set `leaderElection.enabled: false` for a \
                     process that is alone",
                    issuer.value.url
                ),
            )),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "kube")]
impl IssuerConfig {
    /// An entry that does not stand in the file.
    ///
    /// # Errors
    /// What came, what was expected, what to do.
    pub(crate) fn of_entry(entry: Value) -> Result<Spanned<Self>, String> {
        let declared = Sha256::digest(entry.to_string()).into();
        let config: Self = serde_json::from_value(entry).map_err(|error| error.to_string())?;
        let config = Self { declared, ..config };
        let config = Spanned::new(config, Location::UNKNOWN, Location::UNKNOWN);
        check_issuer(&config).map_err(|refusal| refusal.problem)?;
        Ok(config)
    }
}

/// What one issuer may not be, whoever declares it.
fn check_issuer(issuer: &Spanned<IssuerConfig>) -> Result<(), Refusal> {
    let IssuerConfig { url, sources, targets, sinks, registrations, .. } = &issuer.value;
    if sources.is_empty() {
        return Err(Refusal::at(
            issuer,
            format!("issuer {url} has no `sources`; say where its keys come from"),
        ));
    }
    // Metrics, logs, conditions and the state tell them apart by name.
    let mut names = Names::new("sources");
    for source in sources {
        source.value.name.iter().try_for_each(|name| names.take(source, name.clone()))?;
    }
    let mut names = Names::new("targets");
    for target in targets {
        target.value.to.location().map_err(|problem| Refusal::at(target, problem))?;
        let public_url = target.value.public_url.iter();
        public_url
            .map(String::as_str)
            .try_for_each(check_public_url)
            .map_err(|problem| Refusal::at(target, problem))?;
        names.take(target, target.value.to.display_name())?;
    }
    let mut names = Names::new("sinks");
    for sink in sinks {
        sink.value.place().map_err(|problem| Refusal::at(sink, problem))?;
        names.take(sink, sink.value.display_name())?;
    }
    let mut views = Names::new("views");
    views.taken.insert(ISSUER_URL_VIEW.to_owned());
    for target in targets.iter().filter(|target| target.value.public_url.is_some()) {
        views.take(target, target.value.to.display_name())?;
    }
    for sink in sinks {
        views.take(sink, sink.value.display_name())?;
    }
    for registration in registrations {
        registration.value.cloud().map_err(|problem| Refusal::at(registration, problem))?;
    }
    Ok(())
}

/// Names of one issuer that must differ.
struct Names {
    of: &'static str,
    taken: BTreeSet<String>,
}

impl Names {
    fn new(of: &'static str) -> Self {
        Self { of, taken: BTreeSet::new() }
    }

    fn take<T>(&mut self, entry: &Spanned<T>, name: String) -> Result<(), Refusal> {
        if self.taken.contains(&name) {
            let problem = format!("two {} are called {name:?}; give each a `name` of its own", self.of);
            return Err(Refusal::at(entry, problem));
        }
        self.taken.insert(name);
        Ok(())
    }
}
