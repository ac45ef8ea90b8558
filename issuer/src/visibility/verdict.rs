//! The condition `Visible` of one view.

use chancery_core::visibility::{EdgeSight, View};
use chancery_core::{Jwks, KeyId, PublicKey};

use crate::conditions::{ConditionType, Verdict};

/// Whether every edge of `view` shows every key of `wanted`, and whether one that is missing was there before.
pub(super) fn visible(wanted: &Jwks, view: &View, was_seen: impl Fn(&KeyId) -> bool) -> Verdict {
    let condition = ConditionType::Visible;
    let missing = view.edges().filter_map(|(edge, sight)| match sight {
        EdgeSight::Read(seen) => {
            let lacks = |key: &&PublicKey| !seen.kids.contains(key.key_id());
            Some((edge, wanted.keys().iter().filter(lacks).map(PublicKey::key_id).collect::<Vec<_>>()))
        }
        EdgeSight::Unreadable(_) => None,
    });
    let missing: Vec<_> = missing.filter(|(_, kids)| !kids.is_empty()).collect();
    if !missing.is_empty() {
        let vanished = missing.iter().flat_map(|(_, kids)| kids).any(|kid| was_seen(kid));
        let lines = missing.iter().map(|(edge, kids)| {
            let kids: Vec<&str> = kids.iter().map(|kid| kid.as_str()).collect();
            format!("{edge} does not show {}", kids.join(", "))
        });
        let message = lines.collect::<Vec<_>>().join("; ");
        return match vanished {
            true => Verdict::bad(condition, "KeyVanished", message),
            false => Verdict::pending(condition, "KeyNotYetSeen", message),
        };
    }
    let unreadable = view.edges().filter_map(|(edge, sight)| match sight {
        EdgeSight::Read(_) => None,
        EdgeSight::Unreadable(why) => Some(format!("{edge} cannot be read: {why}")),
    });
    let unreadable: Vec<String> = unreadable.collect();
    match unreadable.is_empty() && view.edges().next().is_some() {
        true => Verdict::good(condition, "SeenEverywhere", "every edge shows every key"),
        false => Verdict::unknown(condition, "EdgeUnreadable", unreadable.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chancery_core::visibility::{Sighting, Visibility};

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
        let all = Sighting::of_copy("v", ids(&[&one, &two]), Duration::ZERO);
        let less = Sighting::of_copy("v", ids(&[&one]), Duration::ZERO);
        let down = Sighting::of_unreadable_copy("v", "403", Duration::ZERO);
        for (sighting, seen_before, status, reason, alarm) in [
            (all, false, Status::True, "SeenEverywhere", false),
            (less.clone(), false, Status::False, "KeyNotYetSeen", false),
            (less, true, Status::False, "KeyVanished", true),
            (down, true, Status::Unknown, "EdgeUnreadable", true),
        ] {
            let mut record = Visibility::new(["v"], Duration::from_secs(60));
            record.observe(sighting);
            let verdict = visible(&wanted, record.views().next().unwrap().1, |_| seen_before);
            assert_eq!((verdict.status, verdict.reason, verdict.alarm), (status, reason, alarm));
        }
    }
}
