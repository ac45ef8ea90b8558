//! Every source with every target in every condition. The rows are generated, and what becomes of each is said by three
//! rules; so a new source or target is held against all conditions by being named.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_exchange::cache::{Ask, Cache, CacheOptions, Purge};
use chancery_exchange::{Chain, Class, Runner};
use tokio::task::JoinSet;

use self::sources::{Platform, Source};
use self::targets::{Opened, Target};
use crate::aws::runner;
use crate::fake::{Fake, Reply};

mod sources;
mod targets;

/// What is so when a token is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Nothing is wrong.
    Good,
    /// The source gives tokens for somebody else.
    OtherAudience,
    /// It gives one that has ended.
    Expired,
    /// The key that signed it is not the issuer's, or not any more.
    UnknownKey,
    /// The issuer's clock is two minutes ahead of ours.
    ClockAhead,
    /// It is two minutes behind.
    ClockBehind,
    /// The target throttles once, and for a moment.
    Throttled,
    /// It throttles for an hour.
    ThrottledForLong,
    /// It fails once.
    FailsOnce,
    /// It closes every connection.
    Gone,
    /// It never answers.
    Hangs,
    /// Two identities ask at one cache.
    TwoIdentities,
    /// One of two identities is purged.
    Purged,
}

use Condition::*;

const CONDITIONS: [Condition; 13] = [
    Good,
    OtherAudience,
    Expired,
    UnknownKey,
    ClockAhead,
    ClockBehind,
    Throttled,
    ThrottledForLong,
    FailsOnce,
    Gone,
    Hangs,
    TwoIdentities,
    Purged,
];

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Given,
    /// Refused here, before anybody was asked.
    NotSent(Told),
    /// Refused by the target, or not answered.
    Refused(Told),
    /// So many exchanges of two identities.
    Exchanges(u64),
    /// Nobody is asked, so nobody can be in this condition.
    Nobody,
}

/// [`Class`] in an order, for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Permanent,
    Transient,
    Throttled,
    Expired,
    Source,
}

fn ordered(class: Class) -> Told {
    match class {
        Class::Permanent => Told::Permanent,
        Class::Transient => Told::Transient,
        Class::Throttled => Told::Throttled,
        Class::Expired => Told::Expired,
        Class::Source => Told::Source,
    }
}

fn is_of_the_target(condition: Condition) -> bool {
    matches!(condition, Throttled | ThrottledForLong | FailsOnce | Gone | Hangs)
}

/// The three rules.
fn expected(source: Source, target: Target, condition: Condition) -> Outcome {
    // Nobody exchanges a token that a resource takes itself.
    if target == Target::Direct && is_of_the_target(condition) {
        return Outcome::Nobody;
    }
    // A pipeline whose tokens are for one audience gives none for another.
    if !source.suits(target) {
        return match condition {
            TwoIdentities | Purged => Outcome::Exchanges(0),
            _ => Outcome::NotSent(Told::Permanent),
        };
    }
    match condition {
        Good | ClockBehind | Throttled | FailsOnce => Outcome::Given,
        OtherAudience => Outcome::NotSent(Told::Permanent),
        Expired | ClockAhead => Outcome::NotSent(Told::Expired),
        UnknownKey if target == Target::Direct => Outcome::Given,
        UnknownKey => Outcome::Refused(Told::Permanent),
        ThrottledForLong => Outcome::Refused(Told::Throttled),
        Gone | Hangs => Outcome::Refused(Told::Transient),
        TwoIdentities => Outcome::Exchanges(2),
        Purged => Outcome::Exchanges(3),
    }
}

/// What the target answers before it answers as it should. What is tried again may be asked often.
fn script(condition: Condition, first: &Fake) {
    let ever = 32;
    match condition {
        Throttled => first.script([Reply::new(429, "").with("retry-after", "0")]),
        ThrottledForLong => first.script(vec![Reply::new(429, "").with("retry-after", "3600"); ever]),
        FailsOnce => first.script([Reply::new(503, "<html>")]),
        Gone => first.script(vec![Reply::gone(); ever]),
        Hangs => first.script(vec![Reply::never(); ever]),
        _ => {}
    }
}

async fn outcome(source: Source, target: Target, condition: Condition, runner: Runner) -> Outcome {
    let platform = Platform::start(source, condition).await;
    let Opened { chain, servers } = targets::open(target, platform.source()).await;
    match servers.first() {
        Some(first) => script(condition, first),
        None if is_of_the_target(condition) => return Outcome::Nobody,
        None => {}
    }
    if matches!(condition, TwoIdentities | Purged) {
        return Outcome::Exchanges(shared(chain, condition, &runner).await);
    }
    match runner.run(&chain).await {
        Ok(_) => Outcome::Given,
        Err(error) if servers.iter().all(|server| server.count() == 0) => {
            Outcome::NotSent(ordered(error.class()))
        }
        Err(error) => Outcome::Refused(ordered(error.class())),
    }
}

/// How many exchanges two identities make that ask three times each, where the first may be purged before the last time.
async fn shared(chain: Chain, condition: Condition, runner: &Runner) -> u64 {
    let cache = Cache::new(CacheOptions::default());
    let mut given = 0;
    for round in 0..3 {
        for identity in ["one", "another"] {
            let mut chain = chain.clone();
            identity.clone_into(&mut chain.labels.identity);
            let (key, labels) = (chain.key(runner.transport()), chain.labels.clone());
            let ask = Ask::new(key, labels);
            let chain = Arc::new(chain);
            given += u64::from(cache.credential(&ask, || runner.exchanging(&chain)).await.is_ok());
        }
        if condition == Purged && round == 1 {
            cache.purge(&Purge::Identity("one".to_owned()));
        }
    }
    if given == 0 { 0 } else { cache.counts().exchanges() }
}

#[tokio::test]
async fn e16_every_source_with_every_target_in_every_condition() {
    let runner = runner();
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for condition in CONDITIONS {
        // Who never answers is waited for by many at once, as far as a process may have files open; the others are not to
        // wait for each other's processor.
        let most = if condition == Hangs { 64 } else { 16 };
        let mut cells = JoinSet::new();
        let mut came = Vec::new();
        for &source in Source::ALL {
            for target in Target::ALL {
                if cells.len() >= most {
                    came.extend(cells.join_next().await);
                }
                let runner = runner.clone();
                cells
                    .spawn(async move { (source, target, outcome(source, target, condition, runner).await) });
            }
        }
        while let Some(cell) = cells.join_next().await {
            came.push(cell);
        }
        for (source, target, came) in came.into_iter().map(Result::unwrap) {
            let expected = expected(source, target, condition);
            if came != expected {
                wrong.push(format!(
                    "{source:?} to {target:?}, {condition:?}: {came:?}, expected {expected:?}"
                ));
            }
            *counts.entry(came).or_default() += 1;
        }
    }
    assert!(wrong.is_empty(), "{} cells\n{}", wrong.len(), wrong.join("\n"));
    let cells: usize = counts.values().sum();
    println!(
        "{cells} cells of {} sources, {} targets, {} conditions",
        Source::ALL.len(),
        Target::ALL.len(),
        CONDITIONS.len()
    );
    for (outcome, count) in &counts {
        println!("{count:5} {outcome:?}");
    }
    assert_eq!(cells, Source::ALL.len() * Target::ALL.len() * CONDITIONS.len());
}
