//! Conditions as the values of a ConfigMap.

use std::collections::BTreeMap;

use serde_json::json;

use crate::conditions::{Condition, Transition};

/// All conditions, or those that matter.
pub(super) const CONDITIONS: &str = "conditions.json";
/// How many conditions need somebody's attention, in words.
pub(super) const SUMMARY: &str = "summary";

/// A ConfigMap holds at most 1 MiB; room is left for what others put into it.
const LARGEST: usize = 900_000;
/// An Event's note, in bytes (events.k8s.io/v1).
const LONGEST_NOTE: usize = 1024;

/// The values to write. Of more conditions than fit, those that are good are left out, and then the last ones.
pub(super) fn data(conditions: &[Condition]) -> BTreeMap<String, String> {
    let bad: Vec<&Condition> = conditions.iter().filter(|condition| !condition.is_good()).collect();
    let mut shown: Vec<&Condition> = conditions.iter().collect();
    let mut text = to_json(&shown, conditions.len());
    if text.len() > LARGEST {
        shown.clone_from(&bad);
        text = to_json(&shown, conditions.len());
    }
    while text.len() > LARGEST {
        shown.truncate(shown.len() / 2);
        text = to_json(&shown, conditions.len());
    }
    [(CONDITIONS.to_owned(), text), (SUMMARY.to_owned(), summary(conditions.len(), &bad))].into()
}

fn to_json(shown: &[&Condition], of: usize) -> String {
    let left_out = of - shown.len();
    format!("{:#}\n", json!({ "conditions": shown, "leftOut": left_out }))
}

fn summary(of: usize, bad: &[&Condition]) -> String {
    /// More lines than anybody reads.
    const LINES: usize = 20;
    let mut text = format!("{} of {of} conditions are not as they should be\n", bad.len());
    for condition in bad.iter().take(LINES) {
        let (subject, name, reason) = (&condition.subject, condition.condition.as_str(), condition.reason);
        text.push_str(&format!("{subject}: {name} is {:?} ({reason})\n", condition.status));
    }
    text
}

/// The note of an Event.
pub(super) fn note(transition: &Transition) -> String {
    let subject = &transition.subject;
    let times = if transition.times > 1 { format!(" ({} times)", transition.times) } else { String::new() };
    let mut note = format!("{subject}: {}{times}", transition.message);
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - 3).rev().find(|end| note.is_char_boundary(*end)).unwrap_or_default();
        note.truncate(end);
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::conditions::{ConditionType, Conditions, Subject, Verdict};

    fn conditions(targets: usize, message: &str) -> Vec<Condition> {
        let mut conditions = Conditions::default();
        let issuer = "https://id.example.com".parse().unwrap();
        for number in 0..targets {
            let subject = Subject::target(&issuer, &format!("bucket {number:05}"));
            let good = Verdict::good(ConditionType::Published, "UpToDate", message);
            let bad = Verdict::bad(ConditionType::OwnedByUs, "ForeignMarker", message);
            conditions.set(&subject, &good, Timestamp::UNIX_EPOCH);
            conditions.set(&subject, &bad, Timestamp::UNIX_EPOCH);
        }
        conditions.iter().cloned().collect()
    }

    fn shown(data: &BTreeMap<String, String>) -> (usize, u64) {
        let read: serde_json::Value = serde_json::from_str(&data[CONDITIONS]).unwrap();
        (read["conditions"].as_array().unwrap().len(), read["leftOut"].as_u64().unwrap())
    }

    #[test]
    fn a_config_map_carries_what_fits_and_what_matters_first() {
        let small = data(&conditions(2, "said"));
        assert_eq!(shown(&small), (4, 0));
        assert!(
            small[SUMMARY].starts_with("2 of 4 conditions are not as they should be\n"),
            "{}",
            small[SUMMARY]
        );
        assert!(
            small[SUMMARY].contains("target bucket 00000: OwnedByUs is False (ForeignMarker)"),
            "{}",
            small[SUMMARY]
        );
        let good_left_out = data(&conditions(2000, "said"));
        assert_eq!(shown(&good_left_out), (2000, 2000));
        let cut = data(&conditions(2000, &"long ".repeat(200)));
        assert_eq!(shown(&cut), (500, 3500));
        assert!(cut.values().map(String::len).sum::<usize>() < 1_000_000);
    }

    #[test]
    fn a_note_fits_into_an_event() {
        let issuer = "https://id.example.com".parse().unwrap();
        let mut transition = Transition {
            subject: Subject::target(&issuer, "bucket"),
            condition: ConditionType::Drifted,
            reason: "Changed",
            message: "the JWKS was changed".to_owned(),
            alarm: true,
            times: 3,
        };
        assert_eq!(note(&transition), "https://id.example.com target bucket: the JWKS was changed (3 times)");
        transition.message = "ü".repeat(1000);
        let cut = note(&transition);
        assert!(cut.len() <= LONGEST_NOTE && cut.ends_with("ü..."), "{}", cut.len());
    }
}
