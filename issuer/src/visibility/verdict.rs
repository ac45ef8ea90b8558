//! The condition `Visible` of one view.

use chancery_core::visibility::{EdgeRecord, ViewRecord};
use chancery_core::{Jwks, KeyId, PublicKey, listed};

use crate::conditions::{ConditionType, Verdict};

/// Whether every edge of `view` shows every key of `wanted`, and whether one that is missing was there before.
pub(super) fn visible(wanted: &Jwks, view: &ViewRecord, was_seen: impl Fn(&KeyId) -> bool) -> Verdict {
    let condition = ConditionType::Visible;
    let wanted: Vec<&KeyId> = wanted.keys().iter().map(PublicKey::key_id).collect();
    let lacks = |edge: &EdgeRecord, kid: &KeyId| match edge {
        EdgeRecord::Read { missing, .. } => missing.contains(kid) || !view.keys.contains_key(kid),
        EdgeRecord::Unreadable(_) => false,
    };
    let missing = view.edges.iter().map(|(name, edge)| {
        (name, wanted.iter().copied().filter(|kid| lacks(edge, kid)).collect::<Vec<&KeyId>>())
    });
    let missing: Vec<_> = missing.filter(|(_, kids)| !kids.is_empty()).collect();
    if !missing.is_empty() {
        let vanished = missing.iter().flat_map(|(_, kids)| kids).any(|kid| was_seen(kid));
        let lines = missing.iter().map(|(edge, kids)| format!("{edge} does not show {}", listed(kids)));
        let message = lines.collect::<Vec<_>>().join("; ");
        return match vanished {
            true => Verdict::bad(condition, "KeyVanished", message),
            false => Verdict::pending(condition, "KeyNotYetSeen", message),
        };
    }
    let unreadable = view.edges.iter().filter_map(|(edge, record)| match record {
        EdgeRecord::Read { .. } => None,
        EdgeRecord::Unreadable(why) => Some(format!("{edge} cannot be read: {why}")),
    });
    let unreadable: Vec<String> = unreadable.collect();
    match unreadable.is_empty() && !view.edges.is_empty() {
        true => Verdict::good(condition, "SeenEverywhere", "every edge shows every key"),
        false => Verdict::unknown(condition, "EdgeUnreadable", unreadable.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chancery_core::visibility::{Observation, Visibility};

    use super::*;
    use crate::conditions::Status;

    fn key() -> PublicKey {
        let pair = rcgen::KeyPair::generate().unwrap();
        PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&pair)).unwrap()
    }

    #[test]
    fn a_key_that_is_not_there_yet_is_no_alarm_and_one_that_was_is() {
        let (one, two) = (key(), key());
        let ids = |keys: &[&PublicKey]| keys.iter().map(|key| key.key_id().clone()).collect::<Vec<_>>();
        let wanted = Jwks::new([one.clone(), two.clone()]).unwrap();
        let all = Observation::of_copy("v", ids(&[&one, &two]), Duration::ZERO);
        let less = Observation::of_copy("v", ids(&[&one]), Duration::ZERO);
        let down = Observation::of_unreadable_copy("v", "403", Duration::ZERO);
        for (observation, seen_before, status, reason, alarm) in [
            (all, false, Status::True, "SeenEverywhere", false),
            (less.clone(), false, Status::False, "KeyNotYetSeen", false),
            (less, true, Status::False, "KeyVanished", true),
            (down, true, Status::Unknown, "EdgeUnreadable", true),
        ] {
            let mut record = Visibility::new(["v"], Duration::from_secs(60));
            record.observe(observation);
            let record = record.record();
            let verdict = visible(&wanted, record.views().next().unwrap().1, |_| seen_before);
            assert_eq!((verdict.status, verdict.reason, verdict.alarm), (status, reason, alarm));
        }
    }
}
