//! What a rotation shows of itself, as OpenMetrics text. Names as reference works of the field have them.

use std::fmt;

use chancery_core::KeyRing;
use chancery_core::rotation::{BlockedStep, CanaryAnswer, Guard, Observations, Plan, Policy};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

mod observed;

use observed::ObservedMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    kid: String,
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KidLabels {
    kid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardLabels {
    guard: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartyLabels {
    party: String,
}

/// Every metric of a ring, as this process sees it. Share it behind an `Arc`.
#[derive(Debug)]
pub struct RotationMetrics {
    registry: Registry,
    state: Family<KeyLabels, Gauge>,
    epoch: Gauge,
    generation: Gauge,
    active_age: Gauge,
    blocked: Family<GuardLabels, Gauge>,
    drain: Family<KidLabels, Gauge>,
    canary: Family<PartyLabels, Gauge>,
    signers: Gauge,
    imported: Family<[(&'static str, &'static str); 0], Gauge>,
    steps: Counter,
    lost: Counter,
    failures: Counter,
    observed: ObservedMetrics,
}

impl Default for RotationMetrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("chancery_ring"),
            state: Family::default(),
            epoch: Gauge::default(),
            generation: Gauge::default(),
            active_age: Gauge::default(),
            blocked: Family::default(),
            drain: Family::default(),
            canary: Family::default(),
            signers: Gauge::default(),
            imported: Family::default(),
            steps: Counter::default(),
            lost: Counter::default(),
            failures: Counter::default(),
            observed: ObservedMetrics::default(),
        };
        metrics.register();
        metrics
    }
}

impl RotationMetrics {
    /// The ring and its plan as they are now.
    pub(super) fn show(&self, ring: &KeyRing, policy: &Policy, plan: &Plan) {
        self.state.clear();
        self.drain.clear();
        for key in ring.keys() {
            let kid = key.kid().to_string();
            let state = key.state.to_string();
            self.state.get_or_create(&KeyLabels { kid: kid.clone(), state }).set(1);
            if key.state.is_draining() {
                let left = policy.drain_left(key, key.outlived_by().any());
                self.drain.get_or_create(&KidLabels { kid }).set(whole(left));
            }
        }
        let position = ring.position();
        self.epoch.set(whole(position.epoch));
        self.generation.set(whole(position.generation));
        self.active_age.set(whole(ring.active().map_or(0, |key| key.active_seconds)));
        self.signers.set(whole(ring.signers().count().try_into().unwrap_or(u64::MAX)));
        if let Some(left) = plan.imported.as_ref().and_then(|left| left.keys) {
            self.imported.get_or_create(&[]).set(left.try_into().unwrap_or(i64::MAX));
        }
        let held_back = |guard: &Guard| plan.blocked.iter().filter(|step| holds(step, *guard)).count();
        for guard in Guard::ALL {
            let number = held_back(&guard).try_into().unwrap_or(i64::MAX);
            self.blocked.get_or_create(&GuardLabels { guard: guard.as_str() }).set(number);
        }
    }

    /// Who has accepted a token of the key that signs next.
    pub(super) fn canaries(&self, policy: &Policy, observed: &Observations) {
        for canary in &policy.settings().canaries {
            let said = observed.canaries.values().find_map(|answers| answers.get(&canary.name));
            let labels = PartyLabels { party: canary.name.clone() };
            self.canary.get_or_create(&labels).set(i64::from(said == Some(&CanaryAnswer::Accepted)));
        }
    }

    /// What was observed when that plan was made.
    pub(super) fn show_observed(&self, ring: &KeyRing, policy: &Policy, observed: &Observations) {
        self.observed.show(ring, policy, observed);
    }

    pub(super) fn stepped(&self) {
        self.steps.inc();
    }

    pub(super) fn lost(&self) {
        self.lost.inc();
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }

    /// Everything as OpenMetrics text, behind the page of another registry if there is one.
    ///
    /// # Errors
    /// None in practice: writing to a `String` does not fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        self.observed.register(registry);
        registry.register("key_state", "The keys of the ring and their states", self.state.clone());
        registry.register("epoch", "How many activations and resets there were", self.epoch.clone());
        registry.register(
            "generation",
            "How many changes there were since the last reset",
            self.generation.clone(),
        );
        let age = "How long the active key has signed, in accumulated time";
        registry.register_with_unit("active_key_age", age, Unit::Seconds, self.active_age.clone());
        let blocked = "How many wanted steps each guard holds back";
        registry.register("transition_blocked", blocked, self.blocked.clone());
        let drain = "How long a key that stopped to sign stays still, once no signer signs with it";
        registry.register_with_unit("drain_remaining", drain, Unit::Seconds, self.drain.clone());
        let canary = "Whether a relying party has accepted a token of the key that signs next";
        registry.register("canary", canary, self.canary.clone());
        registry.register("signers", "The signers that are waited for", self.signers.clone());
        let imported =
            "Keys of imported bundles that the ring has not taken yet; only where keys are imported";
        registry.register("imported_keys_left", imported, self.imported.clone());
        registry.register("steps", "Steps that this process has taken", self.steps.clone());
        let lost = "Writes that found the ring changed by somebody else; they are repeated";
        registry.register("lost_swaps", lost, self.lost.clone());
        registry.register(
            "failures",
            "Rounds in which something could not be read or written",
            self.failures.clone(),
        );
    }
}

fn holds(step: &BlockedStep, guard: Guard) -> bool {
    step.blocks.iter().any(|block| block.guard == guard)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
