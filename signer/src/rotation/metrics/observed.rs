//! What was observed when the ring was looked at last: signers, kube-apiservers, edges, copies of tokens, the calendar.

use std::time::Duration;

use chancery_core::KeyRing;
use chancery_core::ring::KeyState;
use chancery_core::rotation::{Observations, Policy, Schedule};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{KidLabels, whole};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignerLabels {
    signer: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabels {
    server: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerKeyLabels {
    server: String,
    kid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabels {
    server: String,
    motion: String,
}

/// The gauges of it.
#[derive(Debug, Default)]
pub(super) struct ObservedMetrics {
    next_rotation: Gauge,
    required: Gauge,
    visible: Family<KidLabels, Gauge>,
    signer_epoch: Family<SignerLabels, Gauge>,
    signer_generation: Family<SignerLabels, Gauge>,
    verifies: Family<ServerKeyLabels, Gauge>,
    signs: Family<ServerKeyLabels, Gauge>,
    seen: Family<ServerLabels, Gauge>,
    motion: Family<NodeLabels, Gauge>,
    copies: Family<KidLabels, Gauge>,
}

impl ObservedMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let next =
            "When the schedule asks for the next rotation, by the wall clock; 0 if nobody but a person asks";
        registry.register_with_unit(
            "next_rotation_timestamp",
            next,
            Unit::Seconds,
            self.next_rotation.clone(),
        );
        let required = "How long a key has to be visible everywhere before it signs";
        registry.register_with_unit("required_prepublish", required, Unit::Seconds, self.required.clone());
        let visible = "How long a key that does not sign yet was visible everywhere, in accumulated time";
        registry.register_with_unit("visible_elapsed", visible, Unit::Seconds, self.visible.clone());
        let by = "The epoch of the ring by which a signer signs";
        registry.register("signer_epoch", by, self.signer_epoch.clone());
        let by = "The generation of the ring by which a signer signs";
        registry.register("signer_generation", by, self.signer_generation.clone());
        let verifies = "Whether a kube-apiserver verified with a key of the ring when it was seen last";
        registry.register("api_server_verifies", verifies, self.verifies.clone());
        let signs = "The key that a kube-apiserver signed with when it was asked last";
        registry.register("api_server_signs", signs, self.signs.clone());
        registry.register("api_server_seen", "Whether a kube-apiserver is seen now", self.seen.clone());
        let motion = "The nodes of the control plane that join, leave, change or are not ready";
        registry.register("node_in_motion", motion, self.motion.clone());
        let copies = "The copies of tokens of a key that a census found and that live still";
        registry.register("copied_tokens", copies, self.copies.clone());
    }

    /// Everything as it is now.
    pub fn show(&self, ring: &KeyRing, policy: &Policy, observed: &Observations) {
        self.next_rotation.set(whole(next_rotation(ring, policy, observed)));
        self.show_visibility(ring, policy, observed);
        self.signer_epoch.clear();
        self.signer_generation.clear();
        for (name, said) in ring.signers() {
            let labels = SignerLabels { signer: name.to_owned() };
            self.signer_epoch.get_or_create(&labels).set(whole(said.position.epoch));
            self.signer_generation.get_or_create(&labels).set(whole(said.position.generation));
        }
        self.show_servers(ring, observed);
        self.copies.clear();
        for (kid, number) in observed.legacy_tokens.iter().flatten() {
            let copies = self.copies.get_or_create(&KidLabels { kid: kid.to_string() });
            copies.set(i64::try_from(*number).unwrap_or(i64::MAX));
        }
    }

    fn show_visibility(&self, ring: &KeyRing, policy: &Policy, observed: &Observations) {
        self.visible.clear();
        let Ok(record) = &observed.visibility else { return };
        self.required.set(whole(record.wait(policy.wait()).as_secs()));
        let waits = |state| matches!(state, KeyState::Pending | KeyState::Published);
        for key in ring.keys().iter().filter(|key| waits(key.state)) {
            let seen = record
                .views()
                .map(|(_, view)| view.keys.get(key.kid()).map_or(0, |seen| seen.visible_seconds));
            let visible = self.visible.get_or_create(&KidLabels { kid: key.kid().to_string() });
            visible.set(whole(seen.min().unwrap_or_default()));
        }
    }

    fn show_servers(&self, ring: &KeyRing, observed: &Observations) {
        self.verifies.clear();
        self.signs.clear();
        self.seen.clear();
        self.motion.clear();
        for (server, shown) in &observed.api_servers {
            let of =
                |kid: &chancery_core::KeyId| ServerKeyLabels { server: server.clone(), kid: kid.to_string() };
            for key in ring.keys() {
                let verifies = shown.verifies.contains(key.kid());
                self.verifies.get_or_create(&of(key.kid())).set(i64::from(verifies));
            }
            if let Some(kid) = &shown.signs {
                self.signs.get_or_create(&of(kid)).set(1);
            }
            let is_seen = i64::from(shown.unseen.is_none());
            self.seen.get_or_create(&ServerLabels { server: server.clone() }).set(is_seen);
            if let Some(motion) = shown.motion {
                let labels = NodeLabels { server: server.clone(), motion: motion.to_string() };
                self.motion.get_or_create(&labels).set(1);
            }
        }
    }
}

/// When the schedule asks next, in seconds since 1970; 0 if it never does.
fn next_rotation(ring: &KeyRing, policy: &Policy, observed: &Observations) -> u64 {
    let now = observed.now;
    match policy.settings().schedule {
        _ if ring.is_rotation_asked() => now.0,
        Schedule::ByHand => 0,
        Schedule::Every(period) => {
            let signs_for = Duration::from_secs(ring.active().map_or(0, |key| key.active_seconds));
            now.after(period.saturating_sub(signs_for)).0
        }
        Schedule::Calendar { .. } => observed.calendar.map_or(0, |due| due.at.max(now).0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chancery_core::ring::WallTime;
    use chancery_core::rotation::{ApiServer, Motion, Plan, Settings};

    use crate::rotation::RotationMetrics;

    use super::*;

    #[test]
    fn what_was_observed_is_shown_by_name() {
        let (ring, policy) = (KeyRing::new(), Policy::new(Settings::default()).unwrap());
        let server = ApiServer { motion: Some(Motion::Joining), ..ApiServer::default() };
        let kid: chancery_core::KeyId = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap();
        let observed = Observations {
            now: WallTime(1000),
            api_servers: BTreeMap::from([("c".to_owned(), server)]),
            legacy_tokens: Ok(BTreeMap::from([(kid, 2)])),
            ..Observations::default()
        };
        let plan: Plan = chancery_core::rotation::plan(&ring, &policy, &observed);
        let metrics = RotationMetrics::default();
        metrics.show(&ring, &policy, &plan);
        metrics.show_observed(&ring, &policy, &observed);
        let page = metrics.render().unwrap();
        for line in [
            "chancery_ring_next_rotation_timestamp_seconds 7777000",
            "chancery_ring_api_server_seen{server=\"c\"} 1",
            "chancery_ring_node_in_motion{server=\"c\",motion=\"joining\"} 1",
            "chancery_ring_copied_tokens{kid=\"JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU\"} 2",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
    }
}
