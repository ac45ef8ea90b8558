//! Who has to have accepted a token of the next key, and who is only warned of.

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_core::profile::RelyingParty;
use chancery_core::ring::{Request, TokenLifetimes};
use chancery_core::rotation::{
    CanaryAnswer, DeclaredCanary, Guard, Observations, Policy, PolicyError, Settings, observe, plan,
    to_be_tried,
};
use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation, Visibility};
use chancery_core::{KeyId, KeyRing};

use crate::keys::key;
use crate::table::begun;

fn canary(name: &str, party: Option<RelyingParty>) -> DeclaredCanary {
    DeclaredCanary { name: name.to_owned(), party }
}

fn policy(canaries: &[DeclaredCanary], parties: &[RelyingParty]) -> Result<Policy, PolicyError> {
    let settings = Settings { canaries: canaries.to_vec(), parties: parties.to_vec(), ..Settings::default() };
    Policy::new(Settings { shortest_wait: Duration::from_secs(60), is_trial: true, ..settings })
}

/// Somebody asked to rotate, and everybody has seen the standby for `seconds`.
fn seen_for(seconds: u64) -> (KeyRing, Observations) {
    let mut visibility = Visibility::new(["public"], Duration::from_secs(3600));
    let kids = [0, 1].map(|number| key(number).key_id().clone());
    for _ in 0..2 {
        let keys = EdgeKeys { kids: kids.clone().into(), ..EdgeKeys::default() };
        let edges = [("edge".to_owned(), EdgeObservation::Read(keys))].into();
        visibility.observe(Observation { view: "public".to_owned(), edges, took: Duration::ZERO });
        visibility.elapse(Duration::from_secs(seconds));
    }
    let observed = Observations { visibility: Ok(visibility.record()), ..Observations::default() };
    (begun().request(&Request::RotateNow).expect("a ring"), observed)
}

fn standby() -> KeyId {
    key(1).key_id().clone()
}

fn waits(policy: &Policy, answers: &[(&str, CanaryAnswer)]) -> Vec<String> {
    let (ring, mut observed) = seen_for(100);
    let answers = answers.iter().map(|(name, answer)| ((*name).to_owned(), answer.clone()));
    observed.canaries = BTreeMap::from([(standby(), answers.collect())]);
    let plan = plan(&ring, policy, &observed);
    let blocks = plan.blocked.iter().flat_map(|step| &step.blocks);
    blocks.filter(|block| block.guard == Guard::CanaryMissing).map(|block| block.why.clone()).collect()
}

#[test]
fn each_declared_party_has_to_accept_and_is_named_with_what_it_said() {
    let declared = ["a", "b", "c", "d"].map(|name| canary(name, None));
    let policy = policy(&declared, &[]).expect("a policy that can be kept");
    let refused = CanaryAnswer::Refused("401 \"no such key\"".to_owned());
    let silent = CanaryAnswer::Silent("no answer within 10 s".to_owned());
    let answers = [("a", CanaryAnswer::Accepted), ("b", refused), ("c", silent)];
    let expected = [
        "b refused a token of it: 401 \"no such key\"",
        "c could not be asked: no answer within 10 s",
        "d was not asked yet",
    ];
    assert_eq!(waits(&policy, &answers), expected);
    let all = ["a", "b", "c", "d"].map(|name| (name, CanaryAnswer::Accepted));
    assert_eq!(waits(&policy, &all), [""; 0]);
    assert_eq!(waits(&policy, &[]).len(), 4);
}

#[test]
fn what_another_key_was_accepted_for_counts_for_nothing() {
    let policy = policy(&[canary("a", None)], &[]).expect("a policy that can be kept");
    let (ring, mut observed) = seen_for(100);
    let accepted = BTreeMap::from([("a".to_owned(), CanaryAnswer::Accepted)]);
    observed.canaries = BTreeMap::from([(key(0).key_id().clone(), accepted)]);
    assert!(plan(&ring, &policy, &observed).guards().contains(&Guard::CanaryMissing));
}

#[test]
fn who_reads_once_has_to_be_asked_and_of_the_others_there_is_a_warning() {
    use RelyingParty::{AxumJwks, Azure, Gcp, Minio};
    let parties = [Azure, AxumJwks, Gcp, Minio];
    let unasked = policy(&[], &parties).expect("a policy that can be kept");
    let [why] = waits(&unasked, &[]).try_into().expect("one");
    assert!(why.starts_with("axum-jwks reads the keys when it starts alone"), "{why}");
    let [warning] = unasked.warnings().try_into().expect("one");
    assert!(warning.starts_with("no canary asks azure, gcp, minio: "), "{warning}");

    let asked = [canary("one", Some(AxumJwks)), canary("two", Some(Minio)), canary("three", None)];
    let asked = policy(&asked, &parties).expect("a policy that can be kept");
    assert_eq!(waits(&asked, &["one", "two", "three"].map(|name| (name, CanaryAnswer::Accepted))), [""; 0]);
    assert!(asked.warnings().iter().all(|warning| warning.starts_with("no canary asks azure, gcp: ")));

    let undeclared = policy(&[canary("one", Some(Minio))], &[]).expect("a policy that can be kept");
    let [warning] = undeclared.warnings().try_into().expect("one");
    assert!(warning.starts_with("canary one asks minio, which `parties` does not name"), "{warning}");
    assert_eq!(policy(&[], &[]).expect("a policy that can be kept").warnings(), [""; 0]);
    let twice = policy(&[canary("a", None), canary("a", Some(Minio))], &[]);
    assert_eq!(twice, Err(PolicyError::TwoCanaries("a".to_owned())));
}

#[test]
fn nobody_is_asked_before_everybody_has_seen_the_key_for_long_enough() {
    let one = policy(&[canary("a", None)], &[]).expect("a policy that can be kept");
    let (ring, observed) = seen_for(100);
    assert_eq!(to_be_tried(&ring, &one, &observed), Some(standby()));
    let nobody = policy(&[], &[]).expect("a policy that can be kept");
    assert_eq!(to_be_tried(&ring, &nobody, &observed), None);
    assert_eq!(to_be_tried(&ring, &one, &seen_for(20).1), None, "not for long enough");
    assert_eq!(to_be_tried(&ring, &one, &Observations::default()), None, "nobody knows");
    let tainted = ring.request(&Request::Taint(standby())).expect("a key");
    assert_eq!(to_be_tried(&tainted, &one, &observed), None, "it never signs");
    // Long before the calendar asks for it: who refuses it is to be known by then.
    assert_eq!(to_be_tried(&begun(), &one, &observed), Some(standby()));
}

#[test]
fn a_key_stays_for_its_canaries_too() {
    let (mut ring, mut observed) = seen_for(100);
    observed.canaries = BTreeMap::from([(standby(), BTreeMap::new())]);
    let lifetimes = |seconds| TokenLifetimes { external_seconds: seconds, api_server_seconds: 7200 };
    for (allowed, lives) in [(86_400, 300), (60, 300), (600, 300)] {
        let settings = Settings { lifetimes: lifetimes(allowed), ..Settings::default() };
        let policy = Policy::new(settings).expect("a policy that can be kept");
        assert_eq!(policy.canary_lifetime().as_secs(), allowed.min(300), "as long as any other token");
        observe(&mut ring, &policy, &observed, Duration::ZERO);
        let signed = |number| ring.key(key(number).key_id()).expect("there").signed;
        assert_eq!((signed(1).external_seconds, signed(0).external_seconds), (lives, 0));
    }
}
