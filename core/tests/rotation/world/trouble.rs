//! What goes wrong, and what people do.

use std::rc::Rc;

use chancery_core::ring::Request;

use super::{OUTAGE, SEEN_EDGES, World};
use crate::controller::{Controller, Stored};
use crate::keys::number;
use crate::scene::Rule;
use crate::signer::Signer;

impl World {
    pub(super) fn faults(&mut self, controllers: &mut [Controller; 2]) {
        // Where nobody has the right time, nobody can know.
        let wrong = if self.scene.only_back { 1 } else { 2 };
        for controller in &mut controllers[..wrong] {
            if self.dice.in_thousand(3) {
                let back = self.dice.within(30, 45) as i64;
                let ahead = if self.scene.only_back { 0 } else { [0, 20, 300, 2000][self.dice.index(4)] };
                controller.clock_off = if self.dice.in_thousand(500) { -back } else { ahead };
            }
        }
        if self.publisher_down == 0 && self.dice.in_thousand(4) {
            self.publisher_down = self.dice.within(1, OUTAGE);
        }
        if self.observer_down == 0 && self.dice.in_thousand(3) {
            self.observer_down = self.dice.within(1, 6);
        }
        let apart = self.scene.apart;
        for signer in &mut self.signers {
            match self.dice.within(0, 999) {
                0..4 => signer.apart = self.dice.within(1, apart),
                4..6 => signer.frozen = self.dice.within(1, apart / 2),
                6..8 => signer.restart(self.scene.broken == Some(Rule::SignerReadsBeforeItSigns)),
                _ => {}
            }
        }
        self.disasters();
    }

    fn disasters(&mut self) {
        if self.scene.poisons_at == Some(self.tick) {
            let mut document = serde_json::to_value(&*self.stored.ring).expect("a document");
            document["position"] = serde_json::json!({ "epoch": u64::MAX, "generation": u64::MAX });
            self.stored.ring = Rc::new(serde_json::from_value(document).expect("a ring"));
            self.stored.version += 1;
        }
        let Some((every, lasts)) = self.scene.backups else { return };
        if self.tick.is_multiple_of(every) {
            self.backup = Some(self.stored.clone());
        }
        if self.tick % every == every / 10
            && let Some(backup) = self.backup.take()
        {
            let version = self.stored.version + 1;
            self.put_back = Some((self.tick + lasts, self.stored.clone()));
            self.stored = Stored { version, ..backup };
        }
        if let Some((_, later)) = self.put_back.take_if(|(at, _)| *at == self.tick) {
            // Nobody has changed it: every step is held back.
            self.stored = Stored { version: self.stored.version + 1, ..later };
        }
    }

    pub(super) fn people(&mut self) {
        let names: Vec<String> = self.signers.iter().filter(|s| s.is_dead).map(|s| s.name.clone()).collect();
        for name in names {
            let since = *self.dead_since.entry(name.clone()).or_insert(self.tick);
            if self.tick == since + 25 {
                self.nodes.remove(&name);
                self.ask(&Request::ForgetSigner(name));
            }
        }
        if self.scene.nodes_change && self.dice.in_thousand(self.scene.changes) {
            self.replace_a_node();
        }
        if self.scene.has_pinned && self.dice.in_thousand(25) {
            let edge = self.edges[self.dice.index(SEEN_EDGES)].clone();
            let pinned = self.parties.iter_mut().filter(|party| party.is_restarted_by_people());
            pinned.for_each(|party| party.read(&edge));
        }
        if !self.scene.has_requests || !self.dice.in_thousand(12) {
            return;
        }
        let keys = self.stored.ring.keys();
        let kid = keys[self.dice.index(keys.len().max(1)).min(keys.len().saturating_sub(1))].kid().clone();
        let request = match self.dice.within(0, 5) {
            0 | 1 => Request::RotateNow,
            2 => Request::RollBack,
            3 => Request::Taint(kid),
            roll => {
                let has_one_that_signs = self.stored.ring.active().is_some();
                let at_once = roll == 5 && has_one_that_signs && self.dice.in_thousand(100);
                if at_once {
                    self.revoked_at_once.insert(number(&kid));
                }
                Request::Revoke { kid, at_once }
            }
        };
        self.ask(&request);
    }

    fn ask(&mut self, request: &Request) {
        if let Ok(ring) = self.stored.ring.request(request) {
            self.stored = Stored { ring: Rc::new(ring), version: self.stored.version + 1 };
        }
    }

    /// A node dies for good, and another one joins with the keys of the moment.
    fn replace_a_node(&mut self) {
        if self.signers.iter().any(|signer| signer.joining > 0 || !signer.is_serving()) {
            return;
        }
        let index = self.dice.index(self.signers.len());
        let mut dies = Signer::new(format!("node-{}-{}", self.signers.len(), self.tick), 0);
        std::mem::swap(&mut dies, &mut self.signers[index]);
        dies.is_dead = true;
        let verifies = self.stored.ring.verification_keys().map(|key| number(key.public_key.key_id()));
        let joining = self.dice.within(5, self.scene.joins_for);
        self.signers[index].join_with(verifies.collect(), joining);
        self.dead_since.insert(dies.name.clone(), self.tick);
        self.signers.retain(|signer| !signer.is_dead || self.tick < 25 + self.dead_since[&signer.name]);
        self.signers.push(dies);
    }
}
