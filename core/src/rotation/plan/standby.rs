//! That there is always a standby.

use super::BlockedStep;
use super::guards::Guards;
use crate::PublicKey;
use crate::ring::{KeyState, RingKey, Step};
use crate::rotation::{Block, Guard, KeySupply};

/// Makes the next key, lets it in, calls it the standby, and takes out standbys that will never sign.
pub(super) fn standby(guards: &Guards<'_>, wanted: &mut Vec<BlockedStep>) {
    let waits = |key: &&RingKey| matches!(key.state, KeyState::Pending | KeyState::Published);
    let waiting: Vec<&RingKey> = guards.ring.keys().iter().filter(waits).collect();
    for key in waiting.iter().filter(|key| key.state == KeyState::Pending && guards.is_wanted(key)) {
        let blocks = guards.visible_now(key.kid());
        let because = "it is being published".to_owned();
        wanted.push(BlockedStep { step: Step::Publish(key.kid().clone()), because, blocks });
    }
    if !waiting.iter().any(|key| guards.is_wanted(key)) {
        let algorithm = guards.policy.settings().algorithm;
        let mut blocks = guards.room();
        blocks.extend(guards.algorithm(algorithm));
        let step = match (guards.policy.settings().supply, newcomer(guards)) {
            (KeySupply::Made, Some(key)) => Step::Enter(key.clone()),
            (KeySupply::Made, None) => Step::Make(algorithm),
            (KeySupply::Imported { .. }, _) => match guards.next_imported() {
                Ok(key) => Step::Enter(key.clone()),
                Err(block) => {
                    blocks.push(block);
                    Step::Import(algorithm)
                }
            },
        };
        wanted.push(BlockedStep { step, because: "there is no standby".to_owned(), blocks });
    }
    let has_other = waiting.iter().any(|key| key.state == KeyState::Published && guards.is_wanted(key));
    for key in waiting.iter().filter(|key| !guards.is_wanted(key) && !key.is_to_be_revoked()) {
        let is_useful = key.may_sign() && key.state == KeyState::Published;
        let blocks = match has_other || !is_useful {
            true => Vec::new(),
            false => vec![Block::new(Guard::NoSuccessor, "no other standby is published yet")],
        };
        let because = if key.tainted { "it is tainted" } else { "another algorithm is wanted" }.to_owned();
        wanted.push(BlockedStep { step: Step::Withdraw(key.kid().clone()), because, blocks });
    }
}

/// A key that was made for this ring and has not come in yet.
fn newcomer<'a>(guards: &Guards<'a>) -> Option<&'a PublicKey> {
    let ring = guards.ring;
    let is_new =
        |key: &&PublicKey| ring.key(key.key_id()).is_none() && ring.tombstone(key.key_id()).is_none();
    let algorithm = guards.policy.settings().algorithm;
    guards.observed.held.iter().filter(is_new).find(|key| key.algorithm() == algorithm)
}
