//! Two writers of one issuer on one store, every operation of theirs held until it is its turn: which of them comes
//! first is decided by a schedule and never by a clock.
//!
//! A writer that finds an empty target makes two reads and two writes, more after a conflict. In each step one of the
//! operations that wait is let go and finished; then the documents are read past the writers. No key that was visible
//! may be missing then, no discovery document may be there without a JWKS, and at the end both writers have
//! succeeded and both documents are those of the union.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use chancery_core::jwks::ObservedJwks;
use chancery_core::publication::{Desired, Observed, Version, WriterMemory};
use chancery_core::{CachePolicy, DocumentSet, IssuerUrl, Jwks, KeyId, Owner, PublicKey, Withdrawals};
use chancery_publisher::store::{ConditionalRead, Put};
use chancery_publisher::{DocumentStore, StoreError, observe, publish};
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::key_file::KeyFile;
use crate::scratch::Scratch;

/// How many interleavings of a sample run at the same time, each in a place of its own.
const AT_ONCE: usize = 8;

/// The writers, and what is there before them.
#[derive(Clone, Debug)]
pub struct Scene {
    before: Vec<PublicKey>,
    writers: [Vec<PublicKey>; 2],
}

impl Scene {
    /// Nothing is there. The writers have one key each, of different algorithms, so that both change both documents.
    pub fn empty() -> Result<Self> {
        let dir = Scratch::new("interleave")?;
        let [first, second] = [KeyFile::new(&dir, "first")?, KeyFile::p256(&dir, "second")?];
        Ok(Self { before: Vec::new(), writers: [vec![first.public_key()?], vec![second.public_key()?]] })
    }

    /// One key is there already, which both writers have beside one of their own.
    pub fn published() -> Result<Self> {
        let dir = Scratch::new("interleave")?;
        let before = vec![KeyFile::p256(&dir, "before")?.public_key()?];
        let Self { writers: [mut first, mut second], .. } = Self::empty()?;
        first.extend(before.iter().cloned());
        second.extend(before.iter().cloned());
        Ok(Self { before, writers: [first, second] })
    }

    fn union(&self) -> BTreeSet<KeyId> {
        self.writers.iter().flatten().map(|key| key.key_id().clone()).collect()
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Different orders.
    pub interleavings: usize,
    /// Operations in all of them.
    pub operations: usize,
    /// Interleavings in which a writer lost a race and read again.
    pub with_conflicts: usize,
}

impl Tally {
    fn add(&mut self, run: &Run) {
        self.interleavings += 1;
        self.operations += run.steps.len();
        // A writer that loses no race reads twice.
        self.with_conflicts += usize::from(run.reads > 4);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interleavings, operations, with_conflicts } = self;
        write!(f, "{interleavings} interleavings, {with_conflicts} with conflicts, {operations} operations")
    }
}

/// Every interleaving there is. For stores that answer at once: there are thousands.
///
/// # Errors
/// At the first in which something is lost, with its schedule.
pub async fn every(store: &dyn DocumentStore, scene: &Scene) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut schedule = Vec::new();
    loop {
        let run = play(store, scene, tally.interleavings, &mut schedule.iter().copied()).await?;
        tally.add(&run);
        // The next schedule in order: the last step that had another choice left takes it.
        let mut steps = run.steps;
        while steps.last().is_some_and(|step| step.chosen + 1 >= step.choices) {
            steps.pop();
        }
        let Some(last) = steps.last_mut() else { return Ok(tally) };
        last.chosen += 1;
        schedule = steps.iter().map(|step| step.chosen).collect();
    }
}

/// `count` interleavings drawn from `seed`, which should be printed.
///
/// # Errors
/// At the first in which something is lost, with its schedule.
pub async fn sample(store: &dyn DocumentStore, scene: &Scene, count: usize, seed: u64) -> Result<Tally> {
    let runs = (0..count).map(|number| async move {
        let mut dice = Dice(seed.wrapping_add(number as u64));
        play(store, scene, number, &mut std::iter::repeat_with(move || dice.roll())).await
    });
    let mut runs = futures_util::stream::iter(runs).buffer_unordered(AT_ONCE);
    let mut tally = Tally::default();
    while let Some(run) = runs.next().await {
        tally.add(&run?);
    }
    Ok(tally)
}

/// SplitMix64: the same numbers for the same seed, everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) >> 33).unwrap_or_default()
    }
}

/// One step: which of how many waiting operations was let go.
#[derive(Clone, Copy, Debug)]
struct Step {
    chosen: usize,
    choices: usize,
}

#[derive(Debug, Default)]
struct Run {
    steps: Vec<Step>,
    reads: usize,
    said: Vec<String>,
}

/// Plays one interleaving in a place of its own. Each choice is taken modulo the number of operations that wait; where
/// the schedule ends, the first of them goes.
async fn play(
    store: &dyn DocumentStore,
    scene: &Scene,
    number: usize,
    schedule: &mut (dyn Iterator<Item = usize> + Send),
) -> Result<Run> {
    let place = Place { store, prefix: format!("interleaving-{number}") };
    if !scene.before.is_empty() {
        write(&place, &scene.before).await?;
    }
    let (sender, events) = mpsc::unbounded_channel();
    let writer = async |name: usize, keys: &[PublicKey]| {
        let gated = Gated { place: &place, writer: name, events: sender.clone() };
        let result = write(&gated, keys).await;
        // The director may have gone with an error of its own.
        let _ = sender.send(Event::Finished(name, result));
    };
    let [first, second] = &scene.writers;
    let mut director = Director { place: &place, events, waiting: Vec::new(), run: Run::default() };
    // All of them in one task: what a writer asks for next is known before the director chooses.
    let directed = tokio::select! {
        // The writers never win: the director ends with them.
        biased;
        ((), ()) = async { tokio::join!(writer(0, first), writer(1, second)); std::future::pending().await } => Ok(()),
        directed = director.direct(schedule, scene) => directed,
    };
    let run = director.run;
    directed
        .with_context(|| format!("{} interleaving {number}: {}", store.describe(), run.said.join(", ")))?;
    Ok(run)
}

async fn write(store: &dyn DocumentStore, keys: &[PublicKey]) -> Result<()> {
    let (issuer, owner): (IssuerUrl, Owner) = ("https://id.example.com/cluster-a".parse()?, "us".parse()?);
    let jwks = Jwks::new(keys.iter().cloned()).context("no key")?;
    let documents = DocumentSet::new(issuer, jwks, CachePolicy::of_seconds(600));
    let desired = Desired {
        documents: &documents,
        withdrawals: Withdrawals::none(),
        owner: &owner,
        memory: WriterMemory::NONE,
        adopt_unmarked: false,
    };
    publish(store, desired).await?;
    Ok(())
}

#[derive(Debug)]
enum Event {
    /// Of which writer, what, and how it is let go.
    Waiting(usize, String, oneshot::Sender<()>),
    Done(usize),
    Finished(usize, Result<()>),
}

struct Director<'a> {
    place: &'a Place<'a>,
    events: mpsc::UnboundedReceiver<Event>,
    waiting: Vec<(usize, String, oneshot::Sender<()>)>,
    run: Run,
}

impl Director<'_> {
    async fn direct(
        &mut self,
        schedule: &mut (dyn Iterator<Item = usize> + Send),
        scene: &Scene,
    ) -> Result<()> {
        let mut finished = BTreeSet::new();
        for writer in [0, 1] {
            self.settle(writer, &mut finished).await?;
        }
        let mut visible = BTreeSet::new();
        while !self.waiting.is_empty() {
            self.waiting.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            let choices = self.waiting.len();
            let chosen = schedule.next().unwrap_or_default() % choices;
            let (writer, what, go) = self.waiting.remove(chosen);
            self.run.steps.push(Step { chosen, choices });
            self.run.reads += usize::from(what.starts_with("read"));
            self.run.said.push(format!("{writer} {what}"));
            go.send(()).ok().context("a writer stopped waiting")?;
            let done = self.events.recv().await;
            ensure!(matches!(done, Some(Event::Done(who)) if who == writer), "out of turn: {done:?}");
            visible = self.look(&visible).await?;
            // While another operation of the same writer waits, it asks for nothing new.
            if !self.waiting.iter().any(|(other, ..)| *other == writer) {
                self.settle(writer, &mut finished).await?;
            }
        }
        ensure!(finished.len() == 2, "only the writers {finished:?} came to an end");
        let union = scene.union();
        ensure!(visible == union, "visible at last: {visible:?}, expected {union:?}");
        self.ends_with(&union).await
    }

    /// Waits until `writer` asks for something, with everything that it asks for at the same time, or has finished.
    async fn settle(&mut self, writer: usize, finished: &mut BTreeSet<usize>) -> Result<()> {
        while !finished.contains(&writer) && !self.waiting.iter().any(|(who, ..)| *who == writer) {
            // What one poll of a writer asks for is all there before the director is polled.
            let mut next = self.events.recv().await;
            ensure!(next.is_some(), "the writers are gone");
            while let Some(event) = next {
                match event {
                    Event::Waiting(who, what, go) => self.waiting.push((who, what, go)),
                    Event::Finished(who, result) => {
                        result.with_context(|| format!("writer {who}"))?;
                        finished.insert(who);
                    }
                    Event::Done(who) => anyhow::bail!("out of turn: writer {who}"),
                }
                next = self.events.try_recv().ok();
            }
        }
        Ok(())
    }

    /// The keys that are visible now: those `before` and perhaps more.
    async fn look(&self, before: &BTreeSet<KeyId>) -> Result<BTreeSet<KeyId>> {
        let Observed { jwks, discovery } = observe(self.place).await?;
        ensure!(jwks.is_some() || discovery.is_none(), "a discovery document without a JWKS");
        let Some(jwks) = jwks else { return Ok(BTreeSet::new()) };
        let observed = ObservedJwks::parse(&jwks.bytes)?;
        let visible: BTreeSet<KeyId> = observed.keys().map(|key| key.key_id().clone()).collect();
        ensure!(visible.is_superset(before), "of {before:?} only {visible:?} is left");
        Ok(visible)
    }

    /// The discovery document is that of the union: it names the algorithms of both writers.
    async fn ends_with(&self, union: &BTreeSet<KeyId>) -> Result<()> {
        let observed = observe(self.place).await?;
        let discovery = observed.discovery.context("no discovery document")?.bytes;
        let discovery = String::from_utf8(discovery)?;
        ensure!(discovery.contains(r#"["ES256","RS256"]"#), "{} keys, but {discovery}", union.len());
        Ok(())
    }
}

/// A place of its own within a store.
#[derive(Debug)]
struct Place<'a> {
    store: &'a dyn DocumentStore,
    prefix: String,
}

impl Place<'_> {
    fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.prefix)
    }
}

#[async_trait]
impl DocumentStore for Place<'_> {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        self.store.read_unless(&self.path(path), known).await
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        self.store.write(Put { path: &self.path(put.path), ..put }).await
    }

    fn describe(&self) -> String {
        format!("{} in {}", self.prefix, self.store.describe())
    }
}

/// A writer's view of its place: every operation waits until it is let go.
#[derive(Debug)]
struct Gated<'a> {
    place: &'a Place<'a>,
    writer: usize,
    events: mpsc::UnboundedSender<Event>,
}

impl Gated<'_> {
    async fn turn(&self, what: String) {
        let (go, gone) = oneshot::channel();
        let _ = self.events.send(Event::Waiting(self.writer, what, go));
        let _ = gone.await;
    }

    fn done(&self) {
        let _ = self.events.send(Event::Done(self.writer));
    }
}

#[async_trait]
impl DocumentStore for Gated<'_> {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        self.turn(format!("read {path}")).await;
        let reading = self.place.read_unless(path, known).await;
        self.done();
        reading
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        self.turn(format!("write {}", put.path)).await;
        let version = self.place.write(put).await;
        self.done();
        version
    }

    fn describe(&self) -> String {
        self.place.describe()
    }
}
