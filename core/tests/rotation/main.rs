//! The real plan and the real ring in a world in which everything goes wrong: two controllers, three signers with their
//! kube-apiservers, caches in front of the keys, relying parties of every habit, people, and clocks that leap. Whatever
//! happens, no live token is rejected by anybody, and no revoked key is visible after a period.
//!
//! And the same without one guard: then something is violated, for each of them.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]

mod canaries;
mod controller;
mod dice;
mod edges;
#[path = "../fixture/mod.rs"]
mod fixture;
mod imported;
mod keys;
mod properties;
mod scene;
mod signer;
mod table;
mod world;

use std::time::Instant;

use chancery_core::rotation::Guard;
use scene::{Rule, Scene};
use world::World;

/// What every run that does not set `ROTATIONS` goes through.
const ROTATIONS: u64 = 10_000;
/// The worlds of every run that does not set `SEED`: a failure is then that of a change, and not of a day.
const SEED: u64 = 20_164;
/// How many worlds are tried to show that a guard is needed.
const WORLDS: u64 = 60;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn no_live_token_is_rejected_and_no_revoked_key_stays() {
    let (seed, wanted) = (from_environment("SEED", SEED), from_environment("ROTATIONS", ROTATIONS));
    println!("{wanted} rotations, seed {seed}; SEED={seed} repeats them");
    let (scenes, begun) = (Scene::all(), Instant::now());
    let (mut rotations, mut worlds) = (0, 0);
    let mut by_scene = vec![0; scenes.len()];
    while rotations < wanted {
        let scene = worlds as usize % scenes.len();
        let (lived, violation) = World::new(scenes[scene].clone(), seed + worlds).live();
        if let Some(what) = violation {
            panic!("seed {seed}, world {worlds}, scene {scene}: {what}");
        }
        rotations += lived;
        by_scene[scene] += lived;
        worlds += 1;
    }
    println!("{rotations} rotations in {worlds} worlds, {:?}; by scene {by_scene:?}", begun.elapsed());
    assert!(
        by_scene.iter().all(|rotations| *rotations > 0),
        "a scene in which nothing rotates shows nothing"
    );
}

#[test]
fn without_any_one_guard_something_is_violated() {
    let seed = from_environment("SEED", SEED);
    println!("seed {seed}; worlds in which something is violated, of {WORLDS}");
    let mut needless = Vec::new();
    for guard in Guard::ALL {
        let with = |without| Scene { without, ..Scene::of(guard) };
        let lives =
            |scene: Scene| (0..WORLDS).map(move |world| World::new(scene.clone(), seed + world).live());
        let violations: Vec<String> =
            lives(with(Some(guard))).filter_map(|(_, what)| what).take(10).collect();
        let first = violations.first().cloned().unwrap_or_else(|| "nothing".to_owned());
        println!("{guard:18} {:3}  {first}", violations.len());
        if violations.is_empty() {
            needless.push(guard);
        }
        let kept: Vec<String> = lives(with(None)).take(2).filter_map(|(_, what)| what).collect();
        assert!(kept.is_empty(), "with {guard} heeded: {kept:?}");
    }
    assert!(needless.is_empty(), "nothing shows what these are for: {needless:?}");
}

#[test]
fn a_rule_that_somebody_breaks_is_needed() {
    let seed = from_environment("SEED", SEED);
    for rule in Rule::ALL {
        let lives =
            |broken, world| World::new(Scene { broken, ..Scene::that_needs(rule) }, seed + world).live().1;
        let broken: Vec<String> = (0..WORLDS).filter_map(|world| lives(Some(rule), world)).take(10).collect();
        println!("{rule:?}: {}, {}", broken.len(), broken.first().map_or("nothing", String::as_str));
        let kept: Vec<String> = (0..2).filter_map(|world| lives(None, world)).collect();
        assert!(!broken.is_empty() && kept.is_empty(), "{rule:?}: {broken:?}, kept: {kept:?}");
    }
}
