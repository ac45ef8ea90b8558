//! What a controller learns of the world.

use std::collections::BTreeSet;
use std::time::Duration;

use chancery_core::KeyRing;
use chancery_core::ring::WallTime;
use chancery_core::rotation::{NextDue, Observations};

use super::{PINNED, World};
use crate::keys::{Number, key, number};

impl World {
    /// Everything that a controller learns. Old acknowledgements of the dead are among it.
    pub fn observed(&mut self, now: WallTime, ring: &KeyRing) -> Observations {
        let kid = |number: Number| key(number).key_id().clone();
        let pinned = self.parties.iter().filter(|party| party.is_restarted_by_people());
        let accepting = pinned.flat_map(|party| {
            let keys = ring.keys().iter().map(|key| number(key.kid()));
            keys.filter(|number| party.has(*number)).collect::<Vec<_>>()
        });
        let accepted = BTreeSet::from([PINNED.to_owned()]);
        let legacy = self.scene.legacy_token.filter(|expires| self.tick < *expires);
        let last_use = self.last_use.iter().filter(|_| self.scene.old_tokens.is_some());
        let alive = self.signers.iter().filter(|signer| !signer.is_dead);
        Observations {
            now,
            acknowledgements: self.acknowledgements.clone(),
            expected_signers: alive.map(|signer| signer.name.clone()).collect(),
            api_servers: self.nodes.clone(),
            visibility: Ok(self.record.get_or_insert_with(|| self.visibility.record()).clone()),
            canaries: accepting.map(|number| (kid(number), accepted.clone())).collect(),
            last_use: last_use
                .map(|(number, at)| (kid(*number), Duration::from_secs((self.tick - at) * 60)))
                .collect(),
            legacy_tokens: legacy.map(|_| (kid(0), 1)).into_iter().collect(),
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
