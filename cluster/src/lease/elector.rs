//! Carries out the election.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::decision::{Action, LeaseHolder, Observed, decide, held, released};
use super::{LeaseConfig, LeaseError, Term};
use crate::access::explain;
use crate::backoff::Backoff;
use crate::last_said::LastSaid;
use crate::limits;

/// One candidate.
pub struct Elector {
    api: Api<Lease>,
    config: LeaseConfig,
    sender: watch::Sender<Term>,
    seen: Option<ObservedLease>,
    said: LastSaid,
}

/// A record, and since when we have seen exactly that.
struct ObservedLease {
    record: LeaseSpec,
    since: Instant,
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Elector {
    /// A candidate that talks to the cluster of `client`, and what its election says. Nothing is asked before
    /// [`run`](Self::run). Needs `get`, `create` and `update` of the Lease.
    ///
    /// # Errors
    /// When the namespace, the name or the identity is empty.
    pub fn new(client: Client, config: LeaseConfig) -> Result<(Self, watch::Receiver<Term>), LeaseError> {
        let named = [
            (&config.namespace, "namespace"),
            (&config.name, "name of the Lease"),
            (&config.identity, "identity"),
        ];
        if let Some((_, what)) = named.iter().find(|(value, _)| value.is_empty()) {
            return Err(LeaseError::Empty(what));
        }
        let (sender, receiver) = watch::channel(Term::default());
        let api = Api::namespaced(client, &config.namespace);
        Ok((Self { api, config, sender, seen: None, said: LastSaid::default() }, receiver))
    }

    /// Takes part until `shutdown`, and gives the Lease back then, so that another leads at once. Whoever writes
    /// as the leader must have stopped before: a candidate does not wait after a release.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        loop {
            let next = tokio::select! {
                next = self.take_part() => next,
                () = &mut shutdown => break,
            };
            tokio::select! {
                () = sleep_until(next) => {}
                () = &mut shutdown => break,
            }
        }
        self.release().await;
    }

    /// One try, and the time of the next.
    async fn take_part(&mut self) -> Instant {
        self.resign_if_over();
        let started = Instant::now();
        let leading_until = self.sender.borrow().until;
        let deadline = leading_until.unwrap_or(started + self.config.timing.renew_deadline());
        let outcome = match timeout_at(deadline, self.attempt()).await {
            Ok(outcome) => outcome,
            Err(_) => Err("the API server does not answer".to_owned()),
        };
        match outcome {
            Ok(Outcome::Outrun) => debug!(lease = self.config.name, "another candidate wrote first"),
            Ok(Outcome::Leading { since, transitions }) => self.lead(since, transitions),
            Ok(Outcome::Waiting { holder, transitions }) => {
                self.follow(&format!("{holder} leads"), transitions);
            }
            Err(error) => self.fail(&error),
        }
        self.resign_if_over();
        self.next_try(started)
    }

    /// A leader tries again on time, and once more when its time is up; candidates spread out.
    fn next_try(&self, started: Instant) -> Instant {
        let period = self.config.timing.retry_period();
        match self.sender.borrow().until {
            Some(until) => until.min(started + period),
            None => Instant::now() + Backoff::new(period, period).next_pause(),
        }
    }

    async fn attempt(&mut self) -> Result<Outcome, String> {
        let lease = self.read().await?;
        let record = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let unchanged_for = self.observe(record.as_ref());
        let observed = Observed { record: record.as_ref(), unchanged_for };
        let transitions = match decide(observed, &self.config.identity, &self.config.timing) {
            Action::Acquire { transitions } | Action::Renew { transitions } => transitions,
            Action::Wait { holder, remaining } => {
                debug!(lease = self.config.name, holder, ?remaining, "waiting for the leader's lease");
                let transitions = record.and_then(|record| record.lease_transitions).unwrap_or_default();
                return Ok(Outcome::Waiting { holder, transitions });
            }
        };
        let holder = LeaseHolder { identity: &self.config.identity, transitions };
        let record = held(record.as_ref(), holder, &self.config.timing, Timestamp::now());
        // Before it is sent: what others see is never older than what we count from.
        let since = Instant::now();
        if !self.write(lease, record.clone()).await? {
            return Ok(Outcome::Outrun);
        }
        self.observe(Some(&record));
        Ok(Outcome::Leading { since, transitions })
    }

    /// For how long we have seen exactly this.
    fn observe(&mut self, record: Option<&LeaseSpec>) -> Duration {
        let now = Instant::now();
        let same = self.seen.as_ref().filter(|seen| Some(&seen.record) == record).map(|seen| seen.since);
        let since = same.unwrap_or(now);
        self.seen = record.map(|record| ObservedLease { record: record.clone(), since });
        now.duration_since(since)
    }

    async fn read(&self) -> Result<Option<Lease>, String> {
        self.ask(self.api.get_opt(&self.config.name)).await?.map_err(|error| explain(&error))
    }

    /// One request has a part of the term only: after one that hangs there is time for others, on another connection.
    async fn ask<T>(&self, request: impl Future<Output = T>) -> Result<T, String> {
        let patience = self.config.timing.request_timeout();
        timeout(patience, request)
            .await
            .map_err(|_| format!("the API server did not answer within {patience:?}"))
    }

    /// Writes only over what was read: the API server compares the version. Whether nobody else has written since.
    async fn write(&self, lease: Option<Lease>, record: LeaseSpec) -> Result<bool, String> {
        let parameters = PostParams::default();
        let written = match lease {
            Some(lease) => {
                let lease = Lease { spec: Some(record), ..lease };
                self.ask(self.api.replace(&self.config.name, &parameters, &lease)).await?
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(record) };
                self.ask(self.api.create(&parameters, &lease)).await?
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(explain(&error)),
        }
    }

    fn lead(&mut self, since: Instant, transitions: i32) {
        let until = since + self.config.timing.renew_deadline();
        if self.set(Term { until: Some(until), transitions }) {
            info!(lease = self.config.name, identity = self.config.identity, transitions, "leading");
        }
        self.said.forget();
    }

    fn follow(&mut self, why: &str, transitions: i32) {
        let is_new = self.said.is_new(why);
        if self.set(Term { until: None, transitions }) {
            warn!(lease = self.config.name, identity = self.config.identity, "not leading any more: {why}");
        } else if is_new {
            info!(lease = self.config.name, identity = self.config.identity, "not leading: {why}");
        }
    }

    /// Says once what is wrong. A leader goes on: its last renewal still counts.
    fn fail(&mut self, error: &str) {
        if self.said.is_new(error) {
            warn!(lease = self.config.name, "cannot take part in the election: {error}");
        }
    }

    /// Ceases to lead when the last renewal does not count any more.
    fn resign_if_over(&mut self) {
        let term = *self.sender.borrow();
        if term.until.is_some() && !term.is_leader() {
            self.follow("it could not be renewed in time", term.transitions);
        }
    }

    /// Tells the readers; wakes them only when we begin or cease to lead, or lead in another term.
    fn set(&self, new: Term) -> bool {
        self.sender.send_if_modified(|term| {
            let begun = term.until.is_some() != new.until.is_some();
            let other_term = new.until.is_some() && term.transitions != new.transitions;
            *term = new;
            begun || other_term
        })
    }

    async fn release(mut self) {
        let term = *self.sender.borrow();
        self.set(Term { until: None, transitions: term.transitions });
        // A try that was interrupted may have made us the holder without our knowing.
        let deadline = Instant::now() + limits::RELEASE;
        let released = timeout_at(deadline, self.give_back()).await;
        match released.unwrap_or_else(|_| Err("the API server does not answer".to_owned())) {
            Ok(true) => info!(lease = self.config.name, "gave the lease back"),
            Ok(false) => {}
            Err(error) => warn!(
                lease = self.config.name,
                "could not give the lease back, so that others wait for it to run out: {error}"
            ),
        }
    }

    /// Whether there was something to give back.
    async fn give_back(&mut self) -> Result<bool, String> {
        let Some(lease) = self.read().await? else { return Ok(false) };
        let record = lease.spec.clone().unwrap_or_default();
        if record.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(false);
        }
        self.write(Some(lease), released(&record, Timestamp::now())).await
    }
}

enum Outcome {
    Outrun,
    Leading { since: Instant, transitions: i32 },
    Waiting { holder: String, transitions: i32 },
}

#[cfg(test)]
mod tests;
