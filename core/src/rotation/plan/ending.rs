//! How keys leave.

use std::time::Duration;

use super::BlockedStep;
use super::activation::successor;
use super::guards::Guards;
use crate::ring::{Custody, KeyState, Revocation, RingKey, Step};
use crate::rotation::{Block, Guard};

/// Revokes what a person wants revoked: another key signs first, and no signer signs with it any more, unless that person
/// cannot wait. What it would sign in the time between would be refused. Whoever is no signer of the ring is not waited
/// for: it may be the very one from whom the key is to be taken.
pub(super) fn revocations(guards: &Guards<'_>, wanted: &mut Vec<BlockedStep>) {
    for key in guards.ring.keys().iter().filter(|key| key.is_to_be_revoked()) {
        let blocks = match key.state {
            _ if key.revocation == Revocation::AskedAtOnce => Vec::new(),
            KeyState::Active => {
                let why = match successor(guards) {
                    Some(next) => format!("{} has to sign first", next.kid()),
                    None => "there is no standby, and nothing could be signed".to_owned(),
                };
                vec![Block::new(Guard::NoSuccessor, why)]
            }
            state if state.is_draining() => signers(guards, key),
            _ => Vec::new(),
        };
        let because = "somebody asked to revoke it".to_owned();
        wanted.push(BlockedStep { step: Step::Revoke(key.kid().clone()), because, blocks });
    }
}

/// Takes keys that stopped to sign out of the JWKS, and out of everything, when their tokens are dead.
pub(super) fn drained(guards: &Guards<'_>, wanted: &mut Vec<BlockedStep>) {
    let settings = guards.policy.settings();
    for key in guards.ring.keys().iter().filter(|key| key.state.is_draining() && !key.is_to_be_revoked()) {
        let lifetimes = key.outlived_by();
        let leaves_twice = settings.verify_only && lifetimes.external() < lifetimes.any();
        if key.state == KeyState::Retiring && leaves_twice {
            let step = Step::KeepForVerifying(key.kid().clone());
            let blocks = alive(guards, key, lifetimes.external());
            let because = "its tokens for the outside die before the others".to_owned();
            wanted.push(BlockedStep { step, because, blocks });
        }
        let blocks = alive(guards, key, lifetimes.any());
        let because = "it signs no more".to_owned();
        wanted.push(BlockedStep { step: Step::Retire(key.kid().clone()), because, blocks });
    }
}

/// Whether tokens of a key may live that were signed for up to `longest`.
fn alive(guards: &Guards<'_>, key: &RingKey, longest: Duration) -> Vec<Block> {
    let (kid, settings) = (key.kid(), guards.policy.settings());
    let mut blocks = signers(guards, key);
    blocks.extend(others(guards, key));
    // Time runs only when nobody signs any more.
    let left = guards.policy.drain_left(key, longest);
    if blocks.is_empty() && left > 0 {
        let why = format!("its last token may live for {left} s more");
        blocks.push(Block::new(Guard::TokensAlive, why));
    }
    blocks.extend(copied(guards, key));
    if let Some(ago) = guards.observed.last_use.get(kid).filter(|ago| **ago < settings.quiet) {
        let why = format!("a token of it was in use {} s ago", ago.as_secs());
        blocks.push(Block::new(Guard::SeenInUse, why));
    }
    blocks
}

/// The signers that may sign with a key still.
fn signers(guards: &Guards<'_>, key: &RingKey) -> Vec<Block> {
    let epoch = key.stopped_by_epoch.unwrap_or_default();
    let signers = guards.ring.signing_still(key).into_iter().map(|name| {
        let why = format!(
            "signer {name} has not acknowledged epoch {epoch}; if it is switched off for good, forget it"
        );
        Block::new(Guard::SignerNotStopped, why)
    });
    // A key that the ring has made, a signer has only together with the ring; one that was adopted lay on its machine before.
    let expected = &guards.observed.expected_signers;
    let unheard = if key.adopted { guards.ring.unheard(expected) } else { Vec::new() };
    let unheard = unheard.into_iter().map(|name| {
        let why =
            format!("signer {name} was never heard, and may have it from before; start it, or take it off");
        Block::new(Guard::SignerNotStopped, why)
    });
    signers.chain(unheard).collect()
}

/// Those that are no signers of the ring, and sign with a key or may.
fn others(guards: &Guards<'_>, key: &RingKey) -> Vec<Block> {
    let nodes = guards.observed.api_servers.iter();
    let elsewhere = nodes.filter_map(|(name, node)| match (&node.signs, &node.unseen) {
        (Some(kid), _) if kid == key.kid() => Some(format!("kube-apiserver of {name} signs with it")),
        (None, Some(why)) => Some(format!("what kube-apiserver of {name} signs with is not known: {why}")),
        _ => None,
    });
    elsewhere.map(|why| Block::new(Guard::SignedElsewhere, why)).collect()
}

/// Copies of its tokens that outlive what is known of them.
fn copied(guards: &Guards<'_>, key: &RingKey) -> Option<Block> {
    let why = match &guards.observed.legacy_tokens {
        Ok(found) => {
            let number = found.get(key.kid()).filter(|number| **number > 0)?;
            format!(
                "a census found {number} of its tokens that live on; `chancery ring census` names them; replace them"
            )
        }
        Err(why) => format!("whether copies of its tokens live on is not known: {why}"),
    };
    Some(Block::new(Guard::LegacyTokens, why))
}

/// Destroys private halves that nothing will be signed with.
pub(super) fn destruction(guards: &Guards<'_>, wanted: &mut Vec<BlockedStep>) {
    for over in guards.ring.tombstones().iter().filter(|over| over.custody == Custody::Held) {
        let because = format!("it is {}", over.state);
        wanted.push(BlockedStep { step: Step::Destroy(over.kid.clone()), because, blocks: Vec::new() });
    }
    let window = guards.policy.settings().rollback_window.as_secs();
    let draining = guards.ring.keys().iter().filter(|key| key.state.is_draining());
    for key in draining.filter(|key| key.custody == Custody::Held) {
        let left = window.saturating_sub(key.drained_seconds);
        let why = format!("for {left} s more it may have to sign again");
        let blocks = if left > 0 { vec![Block::new(Guard::RollbackWindow, why)] } else { Vec::new() };
        let because = "it signs no more".to_owned();
        wanted.push(BlockedStep { step: Step::Destroy(key.kid().clone()), because, blocks });
    }
}
