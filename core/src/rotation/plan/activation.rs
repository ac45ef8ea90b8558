//! Which key is to sign next, and since when.

use super::BlockedStep;
use super::guards::Guards;
use crate::ring::{KeyState, RingKey, Step};
use crate::rotation::{Block, Guard, Schedule};

/// Why the key that signs has to go.
struct Reason {
    because: String,
    /// It must not sign: what else is under way does not have to end first.
    is_urgent: bool,
    blocks: Vec<Block>,
}

/// The next activation: back to the key before, or on to the standby.
pub(super) fn activation(guards: &Guards<'_>, wanted: &mut Vec<BlockedStep>) {
    if let Some(key) = guards.ring.rollback() {
        let mut blocks = guards.visible_now(key.kid());
        blocks.extend(guards.loaded(key.kid(), true));
        let because = "somebody asked to roll back".to_owned();
        wanted.push(BlockedStep { step: Step::Activate(key.kid().clone()), because, blocks });
        return;
    }
    let Some(key) = successor(guards) else { return };
    let Reason { because, is_urgent, mut blocks } = reason(guards);
    let kid = key.kid();
    blocks.extend(guards.visibility(kid));
    blocks.extend(guards.loaded(kid, is_urgent));
    blocks.extend(guards.nodes_rest());
    blocks.extend(guards.canaries(kid));
    blocks.extend(guards.not_before(kid).filter(|_| !is_urgent));
    blocks.extend(guards.algorithm(key.public_key.algorithm()));
    wanted.push(BlockedStep { step: Step::Activate(kid.clone()), because, blocks });
}

/// The oldest standby of the algorithm that is wanted; where the key that signs must not, any that can.
pub(super) fn successor<'a>(guards: &Guards<'a>) -> Option<&'a RingKey> {
    let active = guards.ring.active();
    let must_go = active.is_none_or(|active| active.tainted || active.is_to_be_revoked());
    let standbys = || guards.ring.in_state(KeyState::Published).filter(|key| key.may_sign());
    standbys().find(|key| guards.is_wanted(key)).or_else(|| standbys().find(|_| must_go))
}

fn reason(guards: &Guards<'_>) -> Reason {
    let settings = guards.policy.settings();
    let now =
        |because: &str, is_urgent| Reason { because: because.to_owned(), is_urgent, blocks: Vec::new() };
    let Some(active) = guards.ring.active() else { return now("no key signs", true) };
    if active.is_to_be_revoked() {
        return now("the key that signs is to be revoked", true);
    }
    if active.tainted {
        return now("the key that signs is tainted", true);
    }
    if guards.ring.is_rotation_asked() {
        return now("somebody asked to rotate", false);
    }
    if active.public_key.algorithm() != settings.algorithm {
        return now("another algorithm is wanted", false);
    }
    let signs_for = active.active_seconds;
    let (because, blocks) = match settings.schedule {
        Schedule::ByHand => {
            let why = "keys are rotated when somebody asks";
            ("a standby is there".to_owned(), vec![Block::new(Guard::NotDue, why)])
        }
        Schedule::Every(period) => (
            format!("a key signs for {} s", period.as_secs()),
            still(signs_for, period.as_secs()).into_iter().collect(),
        ),
        Schedule::Calendar { shortest_use } => {
            let blocks = still(signs_for, shortest_use.as_secs()).into_iter().chain(by_calendar(guards));
            ("the calendar asks for it".to_owned(), blocks.collect())
        }
    };
    Reason { because, is_urgent: false, blocks }
}

fn still(signs_for: u64, at_least: u64) -> Option<Block> {
    let left = at_least.checked_sub(signs_for).filter(|left| *left > 0)?;
    Some(Block::new(Guard::NotDue, format!("the key has signed for {signs_for} s, {left} s more are left")))
}

fn by_calendar(guards: &Guards<'_>) -> Option<Block> {
    let (now, latest) = (guards.observed.now, guards.ring.latest_wall());
    if let Some(behind) = latest.0.checked_sub(now.0).filter(|behind| *behind > 0) {
        let why = format!("the clock is {behind} s behind what was decided by before");
        return Some(Block::new(Guard::ClockWentBack, why));
    }
    let why = match guards.observed.calendar {
        None => "the calendar names no date".to_owned(),
        Some(due) if now < due.at => {
            format!("the next window opens in {} s", due.at.0.saturating_sub(now.0))
        }
        Some(due) if now < due.until => return None,
        Some(_) => "the window is closed".to_owned(),
    };
    Some(Block::new(Guard::NotDue, why))
}
