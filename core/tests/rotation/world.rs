//! The world: a store, an object store with caches in front, signers with their kube-apiservers, relying parties, people.
//! Its time is counted in minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use chancery_core::issuer_keys::IssuerKeys;
use chancery_core::ring::{Acknowledgement, AdoptedKey, Custody, KeyState, Position, Request};
use chancery_core::rotation::{ApiServer, Motion, Policy};
use chancery_core::visibility::{
    EdgeKeys, EdgeObservation, Observation, OriginObservation, Visibility, VisibilityRecord,
};
use chancery_core::{Jwks, KeyRing};

use crate::controller::{Controller, Stored};
use crate::dice::Dice;
use crate::edges::{Edge, Habit, RelyingParty};
use crate::keys::{ES256_KEY, Number, key, number};
use crate::scene::{Rule, Scene};
use crate::signer::Signer;

mod observed;
mod trouble;

/// How wrong the clock of a relying party may be.
const SKEW: u64 = 2;
/// `max-age` of what is published; a cache that nobody observes keeps it so long.
pub const MAX_AGE: u64 = 3;
const SEEN_EDGES: usize = 3;
/// How long the publisher may be down at a time.
const OUTAGE: u64 = 20;
/// The relying parties, by their habits; the last one is restarted by people.
pub const PARTIES: [&str; 4] = ["fixed", "reading", "polling", "pinned"];

#[derive(Clone, Copy)]
pub struct Token {
    pub key: Number,
    pub expires: u64,
    pub is_external: bool,
    /// It is shown to somebody in every minute.
    pub is_busy: bool,
}

pub struct World {
    pub scene: Scene,
    pub policy: Rc<Policy>,
    pub tick: u64,
    pub dice: Dice,
    pub stored: Stored,
    pub signers: Vec<Signer>,
    pub tokens: Vec<Token>,
    pub held: Vec<Number>,
    pub made: Number,
    pub rotations: u64,
    pub emergencies: u64,
    pub activated_at: u64,
    pub stopped: BTreeMap<Number, u64>,
    pub revoked: BTreeMap<Number, u64>,
    pub revoked_at_once: BTreeSet<Number>,
    violation: Option<String>,
    origin: BTreeSet<Number>,
    wanted: (Position, BTreeSet<Number>),
    publisher_down: u64,
    observer_down: u64,
    edges: Vec<Edge>,
    visibility: Visibility,
    /// What was recorded of it, since it was last looked.
    record: Option<VisibilityRecord>,
    parties: Vec<RelyingParty>,
    acknowledgements: BTreeMap<String, Acknowledgement>,
    nodes: BTreeMap<String, ApiServer>,
    /// Who has accepted a canary of the key that signs next.
    accepted: (Number, BTreeSet<&'static str>),
    last_use: BTreeMap<Number, u64>,
    dead_since: BTreeMap<String, u64>,
    backup: Option<Stored>,
    put_back: Option<(u64, Stored)>,
}

impl World {
    pub fn new(scene: Scene, seed: u64) -> Self {
        let policy = Rc::new(scene.policy());
        let signing = AdoptedKey { public_key: key(0).clone(), signs: true, custody: Custody::Held };
        let other =
            |_| AdoptedKey { public_key: key(ES256_KEY).clone(), signs: false, custody: Custody::Elsewhere };
        let adopted: Vec<AdoptedKey> = [signing].into_iter().chain(scene.late_node.map(other)).collect();
        let first: BTreeSet<Number> = adopted.iter().map(|key| number(key.public_key.key_id())).collect();
        let ring = KeyRing::new().request(&Request::Adopt(adopted)).expect("an empty ring takes keys");
        let habits = [
            Habit::Fixed(10),
            Habit::ReadsAgain { after: 12, cooldown: 2 },
            Habit::Polls(14),
            Habit::UntilRestart,
        ];
        let habits = habits.into_iter().take(if scene.has_pinned { 4 } else { 3 });
        let mut dice = Dice::new(seed);
        let mut signers: Vec<Signer> = (0..3).map(|n| Signer::new(format!("node-{n}"), 0)).collect();
        signers[2].absent = scene.late_node.unwrap_or_else(|| dice.within(0, 20));
        signers.iter_mut().for_each(|signer| signer.join_with(first.clone(), 0));
        let edge = Edge::of(first.clone());
        let mut world = Self {
            policy,
            tick: 0,
            dice,
            stored: Stored { ring: Rc::new(ring), version: 0 },
            signers,
            tokens: Vec::new(),
            held: vec![0],
            made: 0,
            rotations: 0,
            emergencies: 0,
            activated_at: 0,
            stopped: BTreeMap::new(),
            revoked: BTreeMap::new(),
            revoked_at_once: BTreeSet::new(),
            violation: None,
            origin: first.clone(),
            wanted: (Position::default(), first.clone()),
            publisher_down: 0,
            observer_down: 0,
            edges: vec![edge; SEEN_EDGES + 1],
            visibility: Visibility::new(["public"], Duration::from_secs(180)),
            record: None,
            parties: habits.map(|habit| RelyingParty::new(habit, first.clone(), scene.most_keys)).collect(),
            acknowledgements: BTreeMap::new(),
            nodes: BTreeMap::new(),
            accepted: (0, BTreeSet::new()),
            last_use: BTreeMap::new(),
            dead_since: BTreeMap::new(),
            backup: None,
            put_back: None,
            scene,
        };
        world.begin();
        world
    }

    /// What the adopted key has signed before.
    fn begin(&mut self) {
        if let Some(expires) = self.scene.old_tokens {
            self.tokens.push(Token { key: 0, expires, is_external: true, is_busy: true });
        }
        if let Some(expires) = self.scene.legacy_token {
            self.tokens.push(Token { key: 0, expires, is_external: false, is_busy: false });
        }
    }

    pub fn violated(&mut self, what: &str) {
        let tick = self.tick;
        self.violation.get_or_insert_with(|| format!("minute {tick}: {what}"));
    }

    /// Lives until something is violated or the time of the scene is over.
    pub fn live(mut self) -> (u64, Option<String>) {
        let mut controllers = [Controller::default(), Controller::default()];
        while self.violation.is_none() && self.tick < self.scene.minutes && self.has_keys_left() {
            self.tick += 1;
            self.faults(&mut controllers);
            self.publish();
            let (origin, stale) = (self.origin.clone(), self.scene.stale);
            for (index, edge) in self.edges.iter_mut().enumerate() {
                edge.tick(&origin, &mut self.dice, if index < SEEN_EDGES { stale } else { MAX_AGE });
            }
            self.look();
            self.signers_sign();
            self.people();
            for controller in &mut controllers {
                if self.dice.in_thousand(400) {
                    controller.turn(&mut self);
                }
            }
            self.verify();
        }
        (self.rotations, self.violation)
    }

    /// A publisher turns what the ring decides into what stands in the object store.
    fn publish(&mut self) {
        if self.publisher_down > 0 {
            self.publisher_down -= 1;
            return;
        }
        if !self.dice.in_thousand(600) {
            return;
        }
        let decision = self.stored.ring.decision();
        let believes_all = self.scene.broken == Some(Rule::OlderRingIsNotPublished);
        if decision.position > self.wanted.0 || believes_all {
            let mut keys = IssuerKeys::new(Duration::ZERO);
            keys.decide(decision.clone()).expect("a later ring");
            let jwks = keys.publish().map(|published| published.jwks);
            let shown = jwks.iter().flat_map(Jwks::keys).map(|key| number(key.key_id()));
            self.wanted = (decision.position, shown.collect());
        }
        if self.dice.in_thousand(10) {
            self.roll_back_a_standby();
        }
        if self.origin != self.wanted.1 {
            let kids = self.origin.iter().map(|number| key(*number).key_id().clone()).collect();
            let found = OriginObservation { view: "public".to_owned(), origin: "bucket".to_owned(), kids };
            self.visibility.observe_origin(found);
            self.origin = self.wanted.1.clone();
        }
    }

    /// Somebody puts an older object back, without a key that does not sign yet.
    fn roll_back_a_standby(&mut self) {
        let kids = self.stored.ring.in_state(KeyState::Published).map(|key| key.kid().clone());
        for kid in kids.collect::<Vec<_>>() {
            if self.visibility.record().is_visible_everywhere(&kid, Duration::ZERO).is_err() {
                self.origin.remove(&number(&kid));
            }
        }
    }

    /// Somebody looks at every edge that is known.
    fn look(&mut self) {
        self.visibility.elapse(Duration::from_secs(60));
        if self.observer_down > 0 {
            self.observer_down -= 1;
        } else if self.tick.is_multiple_of(2) {
            let edges = self.edges[..SEEN_EDGES].iter().enumerate().map(|(index, edge)| {
                let kids = edge.keys.iter().map(|number| key(*number).key_id().clone()).collect();
                let lifetime = Some(Duration::from_secs(MAX_AGE * 60));
                let keys = EdgeKeys { kids, lifetime, ..EdgeKeys::default() };
                (format!("edge {index}"), EdgeObservation::Read(keys))
            });
            let observation =
                Observation { view: "public".to_owned(), edges: edges.collect(), took: Duration::ZERO };
            self.visibility.observe(observation);
        }
        self.record = None;
    }

    fn signers_sign(&mut self) {
        let longest = self.policy.settings().lifetimes;
        for index in 0..self.signers.len() {
            let (ring, refresh) = (&self.stored.ring, self.scene.refresh);
            let said = self.signers[index].tick(ring, &mut self.dice, refresh);
            let name = self.signers[index].name.clone();
            if let Some(said) = said {
                self.acknowledgements.insert(name.clone(), said);
            }
            self.see_node(index, name);
            if self.dice.in_thousand(400) {
                let is_external = self.dice.in_thousand(600);
                let seconds = if is_external { longest.external_seconds } else { longest.api_server_seconds };
                let lifetime = self.dice.within(1, seconds / 60);
                let signed = self.signers[index].sign(lifetime, is_external);
                self.issue(signed, lifetime, is_external);
            }
        }
        let is_late = self.scene.late_node.is_some() && !self.acknowledgements.contains_key("node-2");
        if is_late && self.dice.in_thousand(500) {
            let lifetime = self.dice.within(1, self.scene.external);
            self.issue(Some(ES256_KEY), lifetime, true);
        }
        if let Some(until) = self.scene.signs_elsewhere_until {
            let signs = self.tick < until;
            if signs && self.dice.in_thousand(500) {
                self.issue(Some(0), 20, true);
            }
            let verifies = self.stored.ring.verification_keys().map(|key| key.public_key.key_id().clone());
            let signs = signs.then(|| key(0).key_id().clone());
            let node = ApiServer { verifies: verifies.collect(), signs, motion: None, unseen: None };
            self.nodes.insert("before-the-ring".to_owned(), node);
        }
    }

    fn issue(&mut self, signed: Option<Number>, lifetime: u64, is_external: bool) {
        if signed.is_some_and(|key| self.revoked.contains_key(&key) && !self.revoked_at_once.contains(&key)) {
            self.violated("a token is signed with a revoked key");
        }
        if let Some(key) = signed.filter(|key| !self.revoked.contains_key(key)) {
            let expires = self.tick + lifetime;
            self.tokens.push(Token { key, expires, is_external, is_busy: false });
        }
    }

    /// What is seen of a node of the control plane; that it joins is known before.
    fn see_node(&mut self, index: usize, name: String) {
        let signer = &self.signers[index];
        if signer.is_dead {
            return;
        }
        let motion = (signer.joining > 0 || !signer.is_serving()).then_some(Motion::Joining);
        let was = self.nodes.get(&name).and_then(|node| node.motion);
        if was != motion || signer.is_reachable() && self.dice.in_thousand(500) {
            let verifies = signer.verified_with().iter().map(|number| key(*number).key_id().clone());
            let node = ApiServer { verifies: verifies.collect(), motion, ..ApiServer::default() };
            self.nodes.insert(name, node);
        }
    }

    fn verify(&mut self) {
        let now = self.tick;
        self.tokens.retain(|token| token.expires + SKEW > now);
        for index in 0..self.parties.len() {
            let edge = &self.edges[self.dice.index(self.edges.len())];
            self.parties[index].tick(edge);
        }
        let busy: Vec<Token> = self.tokens.iter().filter(|token| token.is_busy).copied().collect();
        let mut shown = busy;
        if !self.tokens.is_empty() {
            for _ in 0..4 {
                shown.push(self.tokens[self.dice.index(self.tokens.len())]);
            }
            shown.extend(self.tokens.last());
            shown.extend(self.tokens.first());
        }
        for token in shown {
            self.show(token);
        }
        let stays = self.revoked.iter().any(|(revoked, at)| {
            let at_edge = self.edges.iter().any(|edge| edge.keys.contains(revoked));
            now - at > 2 * OUTAGE && self.origin.contains(revoked)
                || now - at > 2 * OUTAGE + self.scene.stale && at_edge
        });
        if stays {
            self.violated("a revoked key is visible after a period");
        }
    }

    /// Shows a token to somebody whom it may be for.
    fn show(&mut self, token: Token) {
        self.last_use.insert(token.key, self.tick);
        let is_for_api_server = !token.is_external || !self.scene.verify_only && self.dice.in_thousand(400);
        if is_for_api_server {
            let index = self.dice.index(self.signers.len());
            let signer = &self.signers[index];
            let answers = signer.is_serving() || signer.joining > 0;
            if answers && !signer.is_dead && !signer.verifies(token.key) {
                let what =
                    format!("kube-apiserver of {} rejects a live token of key {}", signer.name, token.key);
                self.violated(&what);
            }
        }
        if token.is_external {
            let edge = &self.edges[self.dice.index(self.edges.len())];
            let index = self.dice.index(self.parties.len());
            let only_rsa = self.scene.takes_rsa_only;
            if !self.parties[index].accepts(token.key, edge, only_rsa) {
                let what = format!("relying party {index} rejects a live token of key {}", token.key);
                self.violated(&what);
            }
        }
    }
}
