use chancery_core::IssuerUrl;

use super::*;
use crate::conditions::{Conditions, Subject, Verdict};

const NAME: &str = "cluster-a";

fn issuer() -> IssuerUrl {
    "https://id.example.com/a".parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key() -> PublicKey {
    let pair = rcgen::KeyPair::generate().unwrap();
    PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&pair)).unwrap()
}

/// What one replica knows, and the status that it wrote last.
struct Scene {
    conditions: Conditions,
    keys: Option<Vec<(PublicKey, Vec<Obstacle>)>>,
    succeeded: Option<Timestamp>,
    written: IssuerStatus,
}

impl Scene {
    fn new(standing: &Standing, generation: u64) -> Self {
        let written = IssuerStatus::default();
        let mut scene = Self { conditions: Conditions::default(), keys: None, succeeded: None, written };
        scene.stands(standing, generation);
        scene
    }

    fn stands(&mut self, standing: &Standing, generation: u64) {
        self.conditions.set(&Subject::object(NAME), &standing.verdict(generation), at(0));
    }

    fn finds(&mut self, subject: &Subject, verdict: &Verdict) {
        self.conditions.set(subject, verdict, at(0));
    }

    fn opens(&mut self) {
        self.finds(&Subject::issuer(&issuer()), &Verdict::good(ConditionType::Accepted, "Running", "open"));
    }

    fn publishes(&mut self, verdict: &Verdict) {
        self.finds(&Subject::target(&issuer(), "www"), verdict);
    }

    /// What is written at this second, and whether it is anything new.
    fn write(&mut self, second: i64) -> bool {
        let all: Vec<&Condition> = self.conditions.iter().collect();
        let standing = all.iter().find(|condition| condition.subject == Subject::object(NAME)).unwrap();
        let runs = Standing::runs(standing.reason);
        let ours = |condition: &&&Condition| condition.subject.issuer_url() == Some(&issuer());
        let known = Known {
            standing,
            conditions: all.iter().filter(|it| runs && ours(it)).copied().collect(),
            keys: self.keys.clone().filter(|_| runs),
            targets: vec![("www".to_owned(), self.succeeded)],
        };
        let status = IssuerStatus::new(&known, &self.written, at(second));
        let is_new = status != self.written;
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(IssuerStatus::read(&written), status);
        self.written = status;
        is_new
    }

    fn condition(&self, kind: &str) -> (&str, &str, i64) {
        let found = self.written.condition(kind).unwrap();
        (&found.status, &found.reason, found.last_transition_time.as_second())
    }
}

fn up_to_date() -> Verdict {
    Verdict::good(ConditionType::Published, "UpToDate", "as it should be").at(Some(1))
}

#[test]
fn an_issuer_becomes_ready_step_by_step_and_time_alone_changes_nothing() {
    let mut scene = Scene::new(&Standing::Followed, 1);
    assert!(scene.write(10));
    assert_eq!(scene.condition("Ready"), ("False", "Waiting", 10));
    assert_eq!(scene.condition("Accepted"), ("True", "Followed", 10));
    scene.opens();
    scene.keys = Some(vec![(key(), vec![Obstacle::NoView, Obstacle::NoView])]);
    assert!(scene.write(11));
    assert_eq!(scene.condition("Ready"), ("False", "Waiting", 10));
    let seen = scene.written.keys[0].clone();
    assert!(!seen.may_sign && seen.obstacles == ["noView"] && seen.published_since == at(11), "{seen:?}");
    scene.publishes(&up_to_date());
    scene.succeeded = Some(at(12));
    assert!(scene.write(13));
    assert_eq!(scene.condition("Ready"), ("True", "AllGood", 13));
    assert_eq!(scene.condition("Published"), ("True", "UpToDate", 13));
    assert_eq!(scene.written.targets[0].last_success, Some(at(12)));
    for (success, second, is_new) in
        [(14, 15, false), (3000, 3001, false), (3612, 3613, true), (3700, 3701, false)]
    {
        scene.succeeded = Some(at(success));
        assert_eq!(scene.write(second), is_new, "{second}");
    }
    scene.keys.as_mut().unwrap()[0].1.clear();
    assert!(scene.write(4000));
    let key = &scene.written.keys[0];
    assert!(key.may_sign && key.obstacles.is_empty() && key.published_since == at(11), "{key:?}");
    assert_eq!(scene.written.targets[0].last_success, Some(at(3700)), "written along");
}

#[test]
fn another_replica_says_what_was_said_until_it_knows_better() {
    let mut scene = Scene::new(&Standing::Followed, 1);
    scene.opens();
    scene.keys = Some(vec![(key(), Vec::new())]);
    scene.publishes(&up_to_date());
    scene.succeeded = Some(at(1));
    scene.write(1);
    let mut other = Scene::new(&Standing::Followed, 1);
    other.written = scene.written.clone();
    assert!(!other.write(50), "nothing is open yet: {:?}", other.written);
    other.opens();
    other.keys = scene.keys.clone();
    assert!(!other.write(51), "no target was looked at yet: {:?}", other.written);
    other.publishes(&Verdict::bad(ConditionType::Published, "Failed", "no answer"));
    assert!(other.write(52));
    assert_eq!(other.condition("Ready"), ("False", "NotReady", 52));
    assert_eq!(
        (other.written.targets[0].up_to_date, other.written.targets[0].last_success),
        (false, Some(at(1)))
    );
    // Of another spec nothing that was said holds.
    let mut changed = Scene::new(&Standing::Followed, 2);
    changed.written = scene.written.clone();
    assert!(changed.write(60));
    assert_eq!(changed.condition("Ready"), ("False", "Waiting", 60));
    assert!(changed.written.condition("Published").is_none());
}

#[test]
fn who_does_not_run_shows_nothing_of_the_issuer_that_has_its_url() {
    let mut scene = Scene::new(&Standing::Collision("taken".to_owned()), 3);
    scene.opens();
    scene.publishes(&up_to_date());
    scene.keys = Some(vec![(key(), Vec::new())]);
    assert!(scene.write(7));
    assert_eq!(
        (scene.condition("Ready"), scene.condition("Accepted")),
        (("False", "Collision", 7), ("False", "Collision", 7))
    );
    assert!(scene.written.keys.is_empty() && scene.written.condition("Published").is_none());
    assert_eq!(scene.written.observed_generation, 3);
    // With a bad spec it runs on, and says so.
    scene.stands(&Standing::LastGoodFollowed("retention".to_owned()), 4);
    assert!(scene.write(8));
    assert_eq!(scene.condition("Accepted"), ("False", "LastGoodFollowed", 7));
    assert_eq!(scene.condition("Ready"), ("True", "AllGood", 8));
    scene.finds(
        &Subject::issuer(&issuer()),
        &Verdict::bad(ConditionType::Accepted, "CannotOpen", "no kubeconfig"),
    );
    scene.stands(&Standing::Followed, 5);
    assert!(scene.write(9));
    assert_eq!(scene.condition("Accepted"), ("False", "CannotOpen", 7));
}

#[test]
fn the_worst_of_several_parts_names_the_case_and_a_long_message_is_cut() {
    let mut scene = Scene::new(&Standing::Followed, 1);
    scene.opens();
    scene.finds(&Subject::source(&issuer(), "a"), &Verdict::good(ConditionType::Read, "Read", "all"));
    let bad = Verdict::bad(ConditionType::Read, "Unreadable", "ü".repeat(5000));
    scene.finds(&Subject::source(&issuer(), "b"), &bad);
    scene.write(1);
    let read = scene.written.condition("Read").unwrap();
    assert!(read.message.starts_with("source b: ü") && read.message.ends_with("ü..."), "{}", read.message);
    assert!(read.message.len() <= LONGEST_MESSAGE + 3 && read.reason == "Unreadable");
    let kinds: Vec<_> = scene.written.conditions.iter().map(|condition| order(&condition.kind)).collect();
    assert!(kinds.is_sorted(), "{kinds:?}");
}
