//! What a controller learns of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::ring::WallTime;
use chancery_core::rotation::{CanaryAnswer, NextDue, Observations, to_be_tried};
use chancery_core::{KeyId, KeyRing};

use super::{PARTIES, World};
use crate::keys::{Number, key, number};

impl World {
    /// Everything that a controller learns. Old acknowledgements of the dead are among it.
    pub fn observed(&mut self, now: WallTime, ring: &KeyRing) -> Observations {
        let mut observed = self.seen(now, ring);
        observed.canaries = self.canaries(ring, &observed);
        observed
    }

    /// What relying parties say to tokens of the key that signs next. Who has accepted one is not asked again before the key was
    /// out of sight.
    fn canaries(
        &mut self,
        ring: &KeyRing,
        observed: &Observations,
    ) -> BTreeMap<KeyId, BTreeMap<String, CanaryAnswer>> {
        let Some(kid) = to_be_tried(ring, &self.policy, observed) else {
            self.accepted.1.clear();
            return BTreeMap::new();
        };
        let (shown, only_rsa) = (number(&kid), self.scene.takes_rsa_only);
        if self.accepted.0 != shown {
            self.accepted = (shown, BTreeSet::new());
        }
        let mut answers = BTreeMap::new();
        let is_counted =
            ring.key(&kid).is_some_and(|key| key.signed.external() >= self.policy.canary_lifetime());
        for (name, party) in PARTIES.into_iter().zip(&mut self.parties).filter(|_| is_counted) {
            if !self.accepted.1.contains(name) && self.dice.in_thousand(700) {
                let edge = &self.edges[self.dice.index(self.edges.len())];
                if party.accepts(shown, edge, only_rsa) {
                    self.accepted.1.insert(name);
                }
            }
            let has = self.accepted.1.contains(name);
            let answer = if has { CanaryAnswer::Accepted } else { CanaryAnswer::Refused("401".to_owned()) };
            answers.insert(name.to_owned(), answer);
        }
        BTreeMap::from([(kid, answers)])
    }

    fn seen(&mut self, now: WallTime, ring: &KeyRing) -> Observations {
        let kid = |number: Number| key(number).key_id().clone();
        let legacy = self.scene.legacy_token.filter(|expires| self.tick < *expires);
        let last_use = self.last_use.iter().filter(|_| self.scene.old_tokens.is_some());
        let alive = self.signers.iter().filter(|signer| !signer.is_dead);
        Observations {
            now,
            acknowledgements: self.acknowledgements.clone(),
            expected_signers: alive.map(|signer| signer.name.clone()).collect(),
            api_servers: self.nodes.clone(),
            unknown_nodes: None,
            visibility: Ok(self.record.get_or_insert_with(|| self.visibility.record()).clone()),
            canaries: BTreeMap::new(),
            last_use: last_use
                .map(|(number, at)| (kid(*number), Duration::from_secs((self.tick - at) * 60)))
                .collect(),
            legacy_tokens: Ok(legacy.map(|_| (kid(0), 1)).into_iter().collect()),
            imported: Err("keys are made here".to_owned()),
            held: self.held.iter().rev().take(4).map(|number| key(*number).clone()).collect(),
            calendar: self.scene.window.map(|window| self.next_due(window, ring, now)),
        }
    }

    /// Windows that open every period.
    fn next_due(&self, window: u64, ring: &KeyRing, now: WallTime) -> NextDue {
        let period = self.scene.period * 60;
        let begun = 1_000_000;
        let last = (now.0.max(begun) - begun) / period * period + begun;
        let is_used = last <= ring.activated().0;
        let at = if is_used || now.0 >= last + window * 60 { last + period } else { last };
        NextDue { at: WallTime(at), until: WallTime(at + window * 60) }
    }
}
