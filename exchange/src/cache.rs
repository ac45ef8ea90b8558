//! Credentials that were given already, each for one key.
//!
//! 1. Of many who ask for one key at a time one exchange is made, by a task of its own: whoever stops waiting fails nobody
//!    else, and a key whose other side hangs delays no other key. No lock is held while anybody waits.
//! 2. What is still good is handed out while it is renewed, and also where renewing fails ([`schedule`]).
//! 3. A refusal that only a person can mend is remembered for a few seconds, so that a loop does not become a flood.
//! 4. What was purged while it was on its way is not kept: each exchange has a number, and only the entry that still
//!    waits for that number takes its outcome.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;

use crate::credential::Credential;
use crate::error::{Class, ExchangeError, Stage};
use crate::key::CacheKey;
use crate::limits;

pub mod clock;
pub mod labels;
pub mod schedule;
pub mod tally;

mod entry;

pub use clock::{Clock, Reading, SystemClock};
use entry::{Entry, Found};
pub(crate) use labels::LabelsAsText;
pub use labels::{Labels, Purge};
pub use tally::Tally;

/// An exchange that is on its way.
pub type Exchanging = Pin<Box<dyn Future<Output = Result<Credential, ExchangeError>> + Send>>;

/// What an exchange came to.
type Outcome = Result<Arc<Credential>, ExchangeError>;

/// How a cache keeps credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// How many keys it holds at most; 0 turns it off.
    pub entries: usize,
    /// The longest that a credential is handed out, whatever its life.
    pub longest: Duration,
    /// The longest that one exchange may take.
    pub deadline: Duration,
}

impl Default for CacheOptions {
    /// 10 000 keys, an hour, [`limits::EXCHANGE`].
    fn default() -> Self {
        Self { entries: 10_000, longest: Duration::from_secs(3600), deadline: limits::EXCHANGE }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its key.
    pub key: CacheKey,
    /// Whose it is.
    pub labels: Labels,
    /// How long it has to be good for still.
    pub remaining: Duration,
    /// Where it is counted for whoever asks.
    pub tally: Option<Tally>,
}

impl Ask {
    /// For a credential that is good at all, counted for nobody.
    pub fn new(key: CacheKey, labels: Labels) -> Self {
        Self { key, labels, remaining: Duration::ZERO, tally: None }
    }

    fn count(&self, which: impl Fn(&Tally) -> &Counter) {
        if let Some(tally) = &self.tally {
            which(tally).inc();
        }
    }
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    evicted: AtomicU64,
    exchanges: AtomicU64,
}

/// Credentials that were given already. Cheap to clone; clones share what they hold.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    options: CacheOptions,
    clock: Arc<dyn Clock>,
    chance: fn() -> f64,
    state: Mutex<State>,
    counts: Counts,
}

#[derive(Default)]
struct State {
    entries: HashMap<CacheKey, Entry>,
    /// Counts exchanges, so that each has a number.
    flights: u64,
    /// Counts uses, so that the least recently used is known.
    uses: u64,
    /// Counts purges.
    generation: u64,
}

/// What a look into the cache came to.
enum Step {
    Serve(Arc<Credential>),
    Refuse(ExchangeError),
    Wait(watch::Receiver<Option<Outcome>>),
}

impl Cache {
    /// An empty cache by the clocks of this machine.
    pub fn new(options: CacheOptions) -> Self {
        Self::with(options, Arc::new(SystemClock), chance)
    }

    /// An empty cache by other clocks and another chance, which gives numbers between 0 and 1.
    pub fn with(options: CacheOptions, clock: Arc<dyn Clock>, chance: fn() -> f64) -> Self {
        let (state, counts) = (Mutex::default(), Counts::default());
        Self { inner: Arc::new(Inner { options, clock, chance, state, counts }) }
    }

    /// The credential for a key, by `exchange` where none is held.
    ///
    /// # Errors
    /// Why none was given, or that none could be good for as long as is asked.
    pub async fn credential(
        &self,
        ask: &Ask,
        exchange: impl Fn() -> Exchanging + Send + Sync,
    ) -> Result<Arc<Credential>, ExchangeError> {
        if self.inner.options.entries == 0 {
            self.inner.counts.exchanges.fetch_add(1, Ordering::Relaxed);
            ask.count(|tally| &tally.misses);
            let made = within(self.inner.options.deadline, exchange()).await.map(Arc::new)?;
            return self.lasting(made, ask.remaining);
        }
        loop {
            let outcome = match self.look(ask, &exchange) {
                Step::Serve(credential) => return self.lasting(credential, ask.remaining),
                Step::Refuse(error) => return Err(error),
                Step::Wait(receiver) => landed(receiver).await,
            };
            match outcome {
                // Somebody purged it on its way: what is asked for now is asked for anew.
                Err(error) if error.code() == PURGED => {}
                Err(error) => return Err(error),
                Ok(credential) => return self.lasting(credential, ask.remaining),
            }
        }
    }

    /// Forgets credentials now, also those that are on their way. Returns how many keys it was.
    pub fn purge(&self, what: &Purge) -> usize {
        let mut state = self.inner.state();
        let before = state.entries.len();
        state.generation += 1;
        state.entries.retain(|_, entry| !entry.labels.is_covered(what));
        before - state.entries.len()
    }

    /// How often anything was purged. Whoever writes a credential somewhere compares it before and after: what was
    /// purged meanwhile is not written.
    pub fn generation(&self) -> u64 {
        self.inner.state().generation
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.inner.state().entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often what happened.
    pub fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    fn look(&self, ask: &Ask, exchange: &(impl Fn() -> Exchanging + Send + Sync)) -> Step {
        let inner = &self.inner;
        let now = inner.clock.read();
        let mut state = inner.state();
        if !state.entries.contains_key(&ask.key) && !state.make_room(inner) {
            return Step::Refuse(too_many());
        }
        state.uses += 1;
        let (uses, flight) = (state.uses, state.flights + 1);
        let entry = state.entries.entry(ask.key).or_insert_with(|| Entry::new(ask.labels.clone()));
        entry.last_used = uses;
        let found = entry.find(now, ask.remaining);
        let (step, starts) = match found {
            Found::Fresh(credential) => {
                inner.counts.hits.fetch_add(1, Ordering::Relaxed);
                ask.count(|tally| &tally.hits);
                return Step::Serve(credential);
            }
            Found::Aging { credential, renew, is_stale } => {
                inner.counts.hits.fetch_add(1, Ordering::Relaxed);
                inner.counts.stale.fetch_add(u64::from(is_stale), Ordering::Relaxed);
                ask.count(|tally| if is_stale { &tally.stale } else { &tally.hits });
                (Step::Serve(credential), renew)
            }
            Found::Refused(error) => return Step::Refuse(error),
            Found::OnItsWay(receiver) => {
                ask.count(|tally| &tally.misses);
                return Step::Wait(receiver);
            }
            Found::Nothing => (Step::Refuse(too_many()), true),
        };
        if !starts {
            return step;
        }
        let (sender, receiver) = watch::channel(None);
        entry.depart(flight, receiver.clone());
        state.flights = flight;
        drop(state);
        self.fly(Flight { key: ask.key, number: flight, sender }, exchange());
        match step {
            Step::Serve(credential) => Step::Serve(credential),
            _ => {
                inner.counts.misses.fetch_add(1, Ordering::Relaxed);
                ask.count(|tally| &tally.misses);
                Step::Wait(receiver)
            }
        }
    }

    fn fly(&self, flight: Flight, exchange: Exchanging) {
        let inner = self.inner.clone();
        inner.counts.exchanges.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let outcome = within(inner.options.deadline, exchange).await.map(Arc::new);
            let outcome = inner.land(&flight, outcome);
            _ = flight.sender.send(Some(outcome));
        });
    }

    /// A credential that is good for as long as is asked, which one that was just made may not be.
    fn lasting(&self, made: Arc<Credential>, asked: Duration) -> Result<Arc<Credential>, ExchangeError> {
        // Reading the clocks is most of a hit.
        if !asked.is_zero() {
            made.lasts(asked, self.inner.clock.read().wall)?;
        }
        Ok(made)
    }
}

/// An exchange on its way.
struct Flight {
    key: CacheKey,
    number: u64,
    sender: watch::Sender<Option<Outcome>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the outcome of an exchange, unless nobody waits for it any longer.
    fn land(&self, flight: &Flight, outcome: Outcome) -> Outcome {
        let now = self.clock.read();
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(&flight.key).filter(|entry| entry.awaits(flight.number))
        else {
            return Err(ExchangeError::new(Class::Transient, Stage::Cache, PURGED));
        };
        match &outcome {
            Ok(credential) => {
                let chance = (self.chance)();
                entry.keep(credential, entry::Moment { now, longest: self.options.longest, chance });
            }
            Err(error) => entry.fail(error, now, (self.chance)()),
        }
        if entry.is_useless() {
            state.entries.remove(&flight.key);
        }
        outcome
    }
}

impl State {
    /// Removes the least recently used entry where there is no room; those that are waited for stay.
    fn make_room(&mut self, inner: &Inner) -> bool {
        if self.entries.len() < inner.options.entries {
            return true;
        }
        let idle = self.entries.iter().filter(|(_, entry)| !entry.is_on_its_way());
        let Some(oldest) = idle.min_by_key(|(_, entry)| entry.last_used).map(|(key, _)| *key) else {
            return false;
        };
        self.entries.remove(&oldest);
        inner.counts.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl Counts {
    /// Credentials that were there.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Credentials that had to be waited for.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Credentials that were handed out although renewing them had failed.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Keys that made room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Exchanges that were begun.
    pub fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

/// The code of an outcome that nobody keeps.
const PURGED: &str = "cache-purged";

async fn within(deadline: Duration, exchange: Exchanging) -> Result<Credential, ExchangeError> {
    let whole = tokio::time::timeout(deadline, exchange).await;
    whole.unwrap_or_else(|_| Err(ExchangeError::deadline(deadline)))
}

async fn landed(mut receiver: watch::Receiver<Option<Outcome>>) -> Outcome {
    let ended = || {
        ExchangeError::new(Class::Transient, Stage::Cache, "exchange-ended")
            .came("the exchange ended without an outcome")
            .remedy("try again")
    };
    match receiver.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(ended())),
        Err(_) => Err(ended()),
    }
}

fn too_many() -> ExchangeError {
    ExchangeError::new(Class::Throttled, Stage::Cache, "cache-full")
        .came("as many exchanges are on their way as the cache has entries")
        .remedy("raise the number of entries")
}

/// A number between 0 and 1, so that many processes that began together do not renew together.
fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
