//! The change of an issuer: every state on the way, every one that is out of order, and how time counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use chancery_core::migration::{
    ApiServer, Documents, Intent, Moment, Observed, Party, Phase, Plan, Progress, Signing, Trusts,
    WaitRecord, plan,
};
use chancery_core::profile::RelyingParty;
use proptest::prelude::*;

const FROM: &str = "https://kubernetes.default.svc.cluster.local";
const TO: &str = "https://id.example.com/a";

fn intent(trusts: Trusts) -> Intent {
    Intent {
        from: FROM.to_owned(),
        to: TO.parse().unwrap(),
        longest_token: Duration::from_secs(3600),
        skew: Duration::from_secs(600),
        parties: vec![Party {
            name: "prod".to_owned(),
            kind: RelyingParty::Aws,
            arguments: "--profile prod".to_owned(),
            trusts,
        }],
    }
}

/// `fF` signs for the first and accepts the letters; `?` cannot be asked.
fn server(text: &str) -> Result<ApiServer, String> {
    let issuer = |letter| match letter {
        'f' => FROM.to_owned(),
        't' => TO.to_owned(),
        _ => "https://other.example.com".to_owned(),
    };
    if text == "?" {
        return Err("no answer".to_owned());
    }
    Ok(ApiServer {
        signs_for: issuer(text.chars().next().unwrap()),
        accepts_from: text.contains('f'),
        accepts_to: text.contains('t'),
        keys: ["JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap()].into(),
    })
}

fn served(is_served: bool) -> Documents {
    Documents { is_served, problems: Vec::new() }
}

fn observed(servers: &[&str], waited: u64) -> Observed {
    let named = servers.iter().zip(["a", "b", "c"]);
    Observed {
        api_servers: named.map(|(text, name)| (name.to_owned(), server(text))).collect(),
        from_documents: Some(served(true)),
        to_documents: served(true),
        waited: Duration::from_secs(waited),
    }
}

/// The phases that may be worked on now, each once.
fn open(plan: &Plan) -> Vec<Phase> {
    let is_open = |progress: &Progress| matches!(progress, Progress::ToDo | Progress::Waiting { .. });
    let mut phases: Vec<Phase> =
        plan.steps.iter().filter(|step| is_open(&step.progress)).map(|step| step.phase).collect();
    phases.dedup();
    phases
}

#[test]
fn each_phase_comes_after_the_one_before() {
    let unpublished = Observed { to_documents: Documents::default(), ..observed(&["f", "f"], 0) };
    let gone = Observed { from_documents: Some(Documents::default()), ..observed(&["t", "t"], 4200) };
    for (trusts, seen, expected) in [
        (Trusts::From, unpublished, &[Phase::Publish, Phase::Accept][..]),
        (Trusts::From, observed(&["f", "f"], 0), &[Phase::Register, Phase::Accept]),
        (Trusts::Both, observed(&["f", "f"], 0), &[Phase::Accept]),
        (Trusts::Both, observed(&["ft", "f"], 0), &[Phase::Accept]),
        (Trusts::From, observed(&["ft", "ft"], 0), &[Phase::Register]),
        (Trusts::Both, observed(&["ft", "ft"], 0), &[Phase::Switch]),
        (Trusts::Both, observed(&["tf", "ft"], 0), &[Phase::Switch]),
        (Trusts::Both, observed(&["tf", "tf"], 0), &[Phase::Wait]),
        (Trusts::Both, observed(&["tf", "tf"], 4199), &[Phase::Wait]),
        (Trusts::Both, observed(&["tf", "tf"], 4200), &[Phase::Drop, Phase::Deregister]),
        (Trusts::To, observed(&["tf", "t"], 4200), &[Phase::Drop]),
        (Trusts::To, observed(&["t", "t"], 4200), &[Phase::Unpublish]),
        (Trusts::To, gone, &[]),
    ] {
        let plan = plan(&intent(trusts), &seen);
        assert_eq!(open(&plan), expected, "{plan}");
        assert_eq!(plan.problems, [], "{plan}");
        assert_eq!(plan.is_done(), expected.is_empty(), "{plan}");
    }
}

#[test]
fn what_is_out_of_order_is_named_with_its_remedy() {
    let no_new = Observed { to_documents: Documents::default(), ..observed(&["tf"], 0) };
    let no_old = Observed { from_documents: Some(Documents::default()), ..observed(&["ft"], 0) };
    let mut keys = observed(&["ft", "ft"], 0);
    keys.api_servers.get_mut("b").unwrap().as_mut().unwrap().keys.clear();
    for (trusts, seen, what, remedy) in [
        (
            Trusts::Both,
            observed(&["tf", "f"], 0),
            "b refuses tokens of https://id.example.com/a, and a signs such",
            "restart b with --service-account-issuer=https://kubernetes.default.svc.cluster.local \
             --service-account-issuer=https://id.example.com/a now",
        ),
        (
            Trusts::Both,
            observed(&["tf", "t"], 4199),
            "b refuses tokens of https://kubernetes",
            "--service-account-issuer=https://id.example.com/a --service-account-issuer=https://kub",
        ),
        (
            Trusts::Both,
            observed(&["t", "ft"], 9999),
            "a refuses tokens of https://kubernetes",
            "until the wait is over",
        ),
        (
            Trusts::From,
            observed(&["tf"], 0),
            "prod refuses tokens of https://id.example.com/a",
            "first again on a",
        ),
        (
            Trusts::To,
            observed(&["tf"], 0),
            "prod refuses tokens of https://kubernetes",
            "again until the wait is over",
        ),
        (Trusts::Both, no_new, "relying parties cannot verify what a signs", "publish its documents"),
        (Trusts::Both, no_old, "relying parties cannot verify tokens of https://kubernetes", "leave them"),
        (Trusts::Both, observed(&["x"], 0), "a signs for \"https://other.example.com\"", "byte for byte"),
        (Trusts::Both, keys, "b lacks keys", "the same keys"),
    ] {
        let plan = plan(&intent(trusts), &seen);
        let named = plan
            .problems
            .iter()
            .any(|problem| problem.what.contains(what) && problem.remedy.contains(remedy));
        assert!(named && !plan.is_done(), "{what}: {plan}");
    }
}

#[test]
fn a_replica_that_cannot_be_asked_holds_back_what_it_could_refuse() {
    let plan = plan(&intent(Trusts::Both), &observed(&["ft", "?"], 0));
    let switch = plan.steps.iter().find(|step| step.phase == Phase::Switch).unwrap();
    let by = ["what b does is not known".to_owned()].to_vec();
    assert_eq!(switch.progress, Progress::Blocked { by });
    assert!(plan.to_string().contains("b  is not known: no answer"), "{plan}");
}

#[test]
fn an_issuer_that_nobody_outside_reads_has_nothing_to_take_away() {
    let inside = Observed { from_documents: None, ..observed(&["t"], 4200) };
    assert!(plan(&intent(Trusts::To), &inside).is_done());
}

#[test]
fn what_is_to_be_typed_is_printed_and_what_comes_later_is_not() {
    let text = plan(&intent(Trusts::From), &observed(&["f"], 0)).to_string();
    assert!(
        text.contains("chancery trust aws apply --issuer https://id.example.com/a --profile prod\n"),
        "{text}"
    );
    let (old, new) =
        (format!("--service-account-issuer={FROM}\n"), format!("--service-account-issuer={TO}\n"));
    assert!(text.find(&old).unwrap() < text.find(&new).unwrap(), "{text}");
    assert!(!text.contains("--service-account-jwks-uri"), "{text}");
}

fn at(boot: &str, seconds: u64) -> Option<Moment> {
    Some(Moment { boot: boot.to_owned(), seconds })
}

#[test]
fn only_time_between_two_good_looks_of_one_start_counts() {
    let mut record = WaitRecord::new(FROM, &TO.parse().unwrap());
    let mut look = |signing, now, waited| {
        record.look(signing, now);
        assert_eq!(record.waited(), Duration::from_secs(waited));
        record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    };
    look(Signing::AllForNew, at("x", 1000), 0);
    look(Signing::AllForNew, at("x", 1100), 100);
    look(Signing::AllForNew, at("y", 5000), 100);
    look(Signing::AllForNew, at("y", 5010), 110);
    look(Signing::AllForNew, at("y", 10), 110);
    look(Signing::NotAllSeen, at("y", 500), 110);
    look(Signing::AllForNew, at("y", 600), 110);
    look(Signing::AllForNew, None, 110);
    look(Signing::AllForNew, at("y", 700), 110);
    look(Signing::AllForNew, at("y", 705), 115);
    look(Signing::SomeForAnother, at("y", 706), 0);
    look(Signing::AllForNew, at("y", 710), 0);
}

/// What one replica does, as the flags of its last start say: which it signs for, and which it accepts.
fn flags() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("f"), Just("ft"), Just("tf"), Just("t")]
}

proptest! {
    /// Whatever a person has done before: who does what the plan says next, and nothing else, refuses no live token from
    /// then on, and comes to an end.
    #[test]
    fn whoever_follows_the_plan_arrives_and_refuses_nothing(mut one in flags(), mut other in flags()) {
        let (mut trusts, mut published, mut old_is_there, mut waited) = (Trusts::From, false, true, 0);
        let mut arrived = false;
        for _ in 0..40 {
            let seen = Observed {
                from_documents: Some(served(old_is_there)),
                to_documents: served(published),
                ..observed(&[one, other], waited)
            };
            let planned = plan(&intent(trusts), &seen);
            if planned.is_done() {
                prop_assert_eq!((one, other, old_is_there), ("t", "t", false));
                arrived = true;
                break;
            }
            // What is out of order is put right first, in the way that keeps everybody accepted.
            if !planned.problems.is_empty() {
                (published, old_is_there) = (true, true);
                trusts = Trusts::Both;
                (one, other) = (both(one), both(other));
                if one.starts_with('f') || other.starts_with('f') { waited = 0; }
                continue;
            }
            let is_open = |step: &&chancery_core::migration::Step| matches!(step.progress, Progress::ToDo | Progress::Waiting { .. });
            let step = planned.steps.iter().find(is_open).expect("something is open until it is done");
            let target = if step.what.contains("restart a ") { &mut one } else { &mut other };
            match step.phase {
                Phase::Publish => published = true,
                Phase::Register => { prop_assert!(published); trusts = Trusts::Both; }
                Phase::Accept => *target = "ft",
                Phase::Switch => {
                    *target = "tf";
                    prop_assert!(published && trusts == Trusts::Both && one.contains('t') && other.contains('t'));
                }
                Phase::Wait => waited = 4200,
                Phase::Drop => { *target = "t"; prop_assert_eq!(waited, 4200); }
                Phase::Deregister => { trusts = Trusts::To; prop_assert_eq!(waited, 4200); }
                Phase::Unpublish => { old_is_there = false; prop_assert_eq!((one, other), ("t", "t")); }
            }
        }
        prop_assert!(arrived, "no end");
    }
}

/// With both flags, whichever was first.
fn both(flags: &str) -> &'static str {
    if flags.starts_with('t') { "tf" } else { "ft" }
}
