//! The record's yes, held against simulated relying parties with the caches that were measured of real ones, behind
//! simulated caches of a CDN of which the record sees only a part.
//!
//! What no record can see is left out of the histories: a key that is lost and back again, or a header that comes and
//! goes, between two observations that connect. Our writer, which puts a lost key back, has read that it was lost.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The seconds of one step of the simulation.
const STEP: u64 = 30;
/// What the parties below need of their own accord: jwx keeps a set for 15 minutes and does not look again for an
/// unknown key. The margin is for the request itself.
const WAIT: u64 = 900 + 60;
/// Caches of the CDN, the first ones listed at the start.
const CACHES: usize = 4;

/// How a relying party keeps a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// For the lifetime that was served, and looks for no unknown key meanwhile: kube-apiserver, jose4j.
    AsServed,
    /// For so long, and looks for an unknown key unless it has looked a `cooldown` ago: PyJWT, jose, Nimbus, Spring.
    Fixed { seconds: u64, cooldown: u64 },
    /// For so long or for the lifetime that was served, whichever is longer, and looks for no unknown key: jwx.
    AtLeast(u64),
    /// For ever, and looks for each unknown key: go-oidc, Vault.
    UntilUnknown,
    /// For ever: axum-jwks. Such a party needs a restart, and no wait helps it.
    Once,
}

const PARTIES: [Keeping; 8] = [
    Keeping::AsServed,
    Keeping::Fixed { seconds: 300, cooldown: 30 },
    Keeping::Fixed { seconds: 600, cooldown: 10 },
    Keeping::Fixed { seconds: 300, cooldown: 60 },
    Keeping::Fixed { seconds: 600, cooldown: 600 },
    Keeping::AtLeast(900),
    Keeping::AtLeast(555),
    Keeping::UntilUnknown,
];

/// A set of keys on its way, with how long whoever gets it may keep it.
#[derive(Clone, Copy, Debug)]
struct Served {
    has_new_key: bool,
    lifetime: u64,
}

/// A copy in a cache.
#[derive(Clone, Copy, Debug)]
struct Kept {
    served: Served,
    at: u64,
}

#[derive(Clone, Debug)]
enum Op {
    /// The world goes on, observed.
    Watch { periods: u64 },
    /// The new key is published, or lost and, observed by our writer, put back later.
    Publish(bool),
    /// The origin serves another lifetime.
    Serve { lifetime: u64 },
    /// A cache joins or leaves those that the name service lists.
    Turn { cache: usize },
    /// A listed cache cannot be reached by us, though by others.
    Unreachable { cache: usize, periods: u64 },
    /// Nobody observes, and the origin lacks the key meanwhile if it is `lost`.
    Blind { steps: u64, lost: bool, restart: bool },
}

fn any_op() -> impl Strategy<Value = Op> {
    let lifetimes = prop::sample::select(vec![0u64, 60, 600, 600, 1800]);
    prop_oneof![
        8 => (1u64..40).prop_map(|periods| Op::Watch { periods }),
        3 => prop::bool::weighted(0.8).prop_map(Op::Publish),
        2 => lifetimes.prop_map(|lifetime| Op::Serve { lifetime }),
        1 => (0..CACHES).prop_map(|cache| Op::Turn { cache }),
        1 => (0..CACHES, 1u64..5).prop_map(|(cache, periods)| Op::Unreachable { cache, periods }),
        2 => (6u64..60, any::<bool>(), any::<bool>())
            .prop_map(|(steps, lost, restart)| Op::Blind { steps, lost, restart }),
    ]
}

struct World {
    now: u64,
    origin: Served,
    caches: [Option<Kept>; CACHES],
    listed: [bool; CACHES],
    unreachable: Option<usize>,
    /// For each kind of party and each cache in front of it, what it holds.
    held: BTreeMap<(usize, usize), Kept>,
    record: Visibility,
    new_key: KeyId,
    /// The old key, and both.
    sets: [BTreeSet<KeyId>; 2],
    chance: u64,
    /// How often the record said yes.
    said_yes: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            now: 0,
            origin: Served { has_new_key: false, lifetime: 600 },
            caches: [None; CACHES],
            listed: [true, true, false, false],
            unreachable: None,
            held: BTreeMap::new(),
            record: record(),
            new_key: id(2),
            sets: [ids(&[1]), ids(&[1, 2])],
            chance: seed | 1,
            said_yes: 0,
        }
    }

    /// Marsaglia's xorshift64: which of several things happens first in the same step.
    fn is_lucky(&mut self) -> bool {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance.is_multiple_of(3)
    }

    /// What a cache of the CDN answers: its copy until that is too old.
    fn ask(&mut self, cache: usize) -> Served {
        let fresh = self.caches[cache].filter(|kept| self.now - kept.at < kept.served.lifetime);
        let kept = fresh.unwrap_or(Kept { served: self.origin, at: self.now });
        self.caches[cache] = Some(kept);
        kept.served
    }

    /// What a party holds after it may have looked again, for a token of the old or of the new key.
    fn present(&mut self, party: usize, cache: usize, is_new: bool) -> bool {
        let held = self.held.get(&(party, cache)).copied();
        let age = held.map_or(0, |held| self.now - held.at);
        let knows = held.is_some_and(|held| !is_new || held.served.has_new_key);
        let looks = match (PARTIES.get(party).copied().unwrap_or(Keeping::Once), held) {
            (_, None) => true,
            (Keeping::AsServed, Some(held)) => age >= held.served.lifetime,
            (Keeping::Fixed { seconds, cooldown }, _) => age >= seconds || !knows && age >= cooldown,
            (Keeping::AtLeast(least), Some(held)) => age >= least.max(held.served.lifetime),
            (Keeping::UntilUnknown, _) => !knows,
            (Keeping::Once, _) => false,
        };
        if looks {
            let served = self.ask(cache);
            self.held.insert((party, cache), Kept { served, at: self.now });
        }
        self.held.get(&(party, cache)).is_some_and(|held| !is_new || held.served.has_new_key)
    }

    /// Lets one step pass, in which workloads show tokens of the old key wherever they do.
    fn step(&mut self) {
        self.now += STEP;
        self.record.elapse(seconds(STEP));
        for party in 0..=PARTIES.len() {
            for cache in 0..CACHES {
                if self.is_lucky() {
                    self.present(party, cache, false);
                }
            }
        }
    }

    fn observe(&mut self) {
        let mut edges = BTreeMap::new();
        for cache in (0..CACHES).filter(|cache| self.listed[*cache]).collect::<Vec<_>>() {
            let answers = [self.ask(cache), self.origin].map(|served| {
                let kids = self.sets[usize::from(served.has_new_key)].clone();
                let lifetime = Some(seconds(served.lifetime));
                EdgeObservation::Read(EdgeKeys { kids, lifetime, ..EdgeKeys::default() })
            });
            let answers = if self.unreachable == Some(cache) { [down(), down()] } else { answers };
            edges.extend([format!("{cache}"), format!("{cache} past caches")].into_iter().zip(answers));
        }
        self.record.observe(Observation { view: "v".to_owned(), edges, took: Duration::ZERO });
    }

    /// The parties that refuse a token of the new key although the record says that it may sign.
    fn refusals(&mut self) -> Vec<(usize, usize)> {
        if self.record.record().is_visible_everywhere(&self.new_key, seconds(WAIT)).is_err() {
            return Vec::new();
        }
        self.said_yes += 1;
        let all = (0..=PARTIES.len()).flat_map(|party| (0..CACHES).map(move |cache| (party, cache)));
        all.filter(|(party, cache)| !self.present(*party, *cache, true)).collect()
    }

    /// Carries out one operation, and returns who refused a token meanwhile.
    fn run(&mut self, op: &Op) -> Vec<(usize, usize)> {
        let periods = match op {
            Op::Watch { periods } => *periods,
            Op::Publish(published) => {
                self.observe();
                if self.origin.has_new_key && !published {
                    self.origin.has_new_key = false;
                    self.record.observe_origin(origin(&[1]));
                } else if *published && !self.origin.has_new_key {
                    self.record.observe_origin(origin(&[1]));
                    self.origin.has_new_key = true;
                    self.record.observe_origin(origin(&[1, 2]));
                }
                1
            }
            Op::Serve { lifetime } => {
                self.observe();
                self.origin.lifetime = *lifetime;
                1
            }
            Op::Turn { cache } => {
                self.listed[*cache] ^= true;
                1
            }
            Op::Unreachable { cache, periods } => {
                self.unreachable = Some(*cache);
                *periods
            }
            Op::Blind { steps, lost, restart } => {
                let before = self.origin;
                self.origin.has_new_key &= !lost;
                (0..*steps).for_each(|_| self.step());
                self.origin = before;
                if *restart {
                    self.record = restarted(&self.record);
                }
                1
            }
        };
        let mut refusals = Vec::new();
        for _ in 0..periods {
            (0..EVERY.as_secs() / STEP).for_each(|_| self.step());
            self.observe();
            refusals.extend(self.refusals());
        }
        self.unreachable = None;
        refusals
    }
}

/// A long lifetime is served no more, and right then the new key is published: the histories in which it matters how
/// long a lifetime is remembered.
fn any_shortened() -> impl Strategy<Value = Vec<Op>> {
    (any_op(), 0u64..60, 0u64..3, prop::sample::select(vec![0u64, 60, 600])).prop_map(
        |(op, before, between, after)| {
            let watch = |periods| Op::Watch { periods };
            let shorten = [Op::Serve { lifetime: after }, watch(between), Op::Publish(true)];
            [op, Op::Publish(false), Op::Serve { lifetime: 1800 }, watch(before)]
                .into_iter()
                .chain(shorten)
                .chain([watch(80)])
                .collect()
        },
    )
}

fn is_restarted(party: usize) -> bool {
    party == PARTIES.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Whenever the record says that a key may sign, every party takes its tokens, but for those that read once.
    #[test]
    fn no_party_refuses_a_key_that_is_visible_everywhere(ops in prop_oneof![4 => prop::collection::vec(any_op(), 1..30), 1 => any_shortened()], seed in any::<u64>()) {
        let mut world = World::new(seed);
        for op in &ops {
            let refusals = world.run(op);
            let refusals: Vec<_> = refusals.iter().filter(|(party, _)| !is_restarted(*party)).collect();
            prop_assert!(refusals.is_empty(), "{:?} at {} s", refusals, world.now);
        }
    }
}

/// The key is published, and right then a shorter lifetime is served: a cache that is not listed has the old set for the
/// longer one, and a party that keeps sets of its own accord gets it there last.
#[test]
fn a_lifetime_that_ends_as_a_key_is_published_is_waited_for() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        for op in [
            Op::Watch { periods: 168 },
            Op::Publish(true),
            Op::Serve { lifetime: 0 },
            Op::Watch { periods: 40 },
        ] {
            let refusals = world.run(&op);
            assert!(refusals.iter().all(|(party, _)| is_restarted(*party)), "{refusals:?} with {seed}");
        }
        assert!(world.said_yes > 0);
    }
}

/// The simulation is not empty: keys pass in time, and the parties that no wait helps refuse them.
#[test]
fn a_key_passes_after_the_wait_and_a_party_that_reads_once_refuses_it() {
    let mut world = World::new(7);
    world.run(&Op::Watch { periods: 5 });
    world.run(&Op::Publish(true));
    let published = world.now;
    let mut refusals = Vec::new();
    while world.said_yes == 0 && world.now < 2 * (published + 600 + WAIT) {
        refusals = world.run(&Op::Watch { periods: 1 });
    }
    let waited = world.now - published;
    // The caches that are listed show it when they have looked again.
    assert!((600 + WAIT..=2 * 600 + WAIT).contains(&waited), "{waited} s");
    assert!(!refusals.is_empty() && refusals.iter().all(|(party, _)| is_restarted(*party)), "{refusals:?}");
}
