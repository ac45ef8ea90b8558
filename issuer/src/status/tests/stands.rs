//! How an issuer stands, and which comes first.

use std::time::Duration;

use chancery_core::ring::{KeyState, Position};
use chancery_core::visibility::Obstacle;
use jiff::Timestamp;

use super::scene::{DAY, certificate, issuer, kids, object, one_key, replica, ring, say, seen};
use crate::conditions::{ConditionType, PartKind, Verdict};
use crate::known_keys::KnownRing;
use crate::roster::Declared;
use crate::source::tests::key;
use crate::status::model::{Asked, Counts};
use crate::status::snapshot::IssuerSnapshot;
use crate::status::{PER_PAGE, State, overview, problems, standing};

const ASKED: Asked = Asked { page: 1, state: None, find: None };

/// A change to a healthy issuer of one key, whether the replica publishes, and what is said then.
type Case = (fn(&mut IssuerSnapshot), bool, State, &'static str);

fn declare(issuer: &mut IssuerSnapshot, is_looked_at: bool) {
    issuer.declared = Declared { is_looked_at, ..Declared::default() }.into();
}

fn wait(issuer: &mut IssuerSnapshot) {
    issuer.seen = seen(&kids(issuer), Duration::from_secs(960));
}

/// Holds what is said in each case against what should be.
fn hold(cases: &[Case]) {
    for (change, publishes, state, sentence) in cases {
        let mut issuer = one_key("https://id.example.com/a");
        change(&mut issuer);
        let said = standing(&issuer, *publishes);
        assert!(said.sentence.contains(sentence), "{sentence:?} is not in {said:?}");
        assert_eq!(said.state, *state, "{said:?}");
        assert_eq!(said.action.is_none(), *state == State::Healthy, "{said:?}");
    }
}

fn unpublished(issuer: &mut IssuerSnapshot) {
    issuer.publication = None;
    issuer.progress.has_documents = false;
}

fn old_ring(issuer: &mut IssuerSnapshot) {
    ring(issuer, &[KeyState::Active]);
    issuer.known.followed = Some(Position { epoch: 4, generation: 1 });
}

fn waits_in_ring(issuer: &mut IssuerSnapshot, state: KeyState) {
    wait(issuer);
    ring(issuer, &[state]);
}

#[test]
fn documents_and_keys_say_how_an_issuer_stands() {
    hold(&[
        (|_| {}, true, State::Healthy, "All is as it should be: 1 key is published."),
        (|_| {}, false, State::Healthy, "as far as a replica knows that does not publish"),
        (|it| declare(it, false), true, State::Healthy, "nobody looks from outside"),
        (unpublished, true, State::Broken, "No key has been seen yet, so that nothing is published."),
        (
            |it| *it = issuer(it.url().clone().as_str(), vec![]),
            true,
            State::Attention,
            "Every key was revoked",
        ),
        (wait, true, State::Waiting, "long enough yet; it may sign in 16 min at the earliest."),
        (
            |it| it.seen = seen(&[], Duration::ZERO),
            true,
            State::Waiting,
            "yet: issuer URL does not show it at copy",
        ),
        (|it| it.seen.obstacle = Some(Obstacle::NoRecord), false, State::Healthy, "does not publish"),
        (|it| it.seen.obstacle = Some(Obstacle::NoRecord), true, State::Waiting, "has not been read yet"),
        (|it| waits_in_ring(it, KeyState::Active), true, State::Healthy, "1 key is published"),
        (|it| waits_in_ring(it, KeyState::Retiring), true, State::Healthy, "1 key is published"),
        (|it| waits_in_ring(it, KeyState::Pending), true, State::Waiting, "in 16 min"),
        (
            old_ring,
            true,
            State::Broken,
            "The key ring is at epoch 3 generation 7, and was at epoch 4 generation 1 before",
        ),
    ]);
    let starts = |it: &mut IssuerSnapshot| {
        unpublished(it);
        it.progress.waited_for = false;
    };
    hold(&[(starts, true, State::Waiting, "Its sources are being read for the first time.")]);
}

const TARGET: (PartKind, &str) = (PartKind::Target, "bucket");
const SOURCE: (PartKind, &str) = (PartKind::Source, "files");

/// Has two parts say something, in this order.
fn two(issuer: &mut IssuerSnapshot, source: Verdict, target: Verdict) {
    say(issuer, [(SOURCE.0, SOURCE.1, source), (TARGET.0, TARGET.1, target)]);
}

#[test]
fn the_worst_condition_speaks_for_an_issuer_and_what_lets_strangers_in_before_all_else() {
    use ConditionType::{Drifted, ForeignKeys, Published, Read, SigningKeyVisible};
    fn failed() -> Verdict {
        Verdict::bad(Published, "Failed", "403")
    }
    fn unread() -> Verdict {
        Verdict::pending(Read, "NotYetRead", "it was not read yet")
    }
    fn drifted() -> Verdict {
        Verdict::bad(Drifted, "Vanished", "gone")
    }
    let early = |it: &mut IssuerSnapshot| {
        two(it, Verdict::bad(SigningKeyVisible, "UnannouncedActivation", "k"), failed());
    };
    let intruder = |it: &mut IssuerSnapshot| {
        let found = Verdict::bad(ForeignKeys, "PossibleIntrusion", "k");
        say(it, [(TARGET.0, TARGET.1, failed()), (PartKind::Target, "other", found)]);
    };
    hold(&[
        (
            |it| two(it, unread(), failed()),
            true,
            State::Broken,
            "Target bucket cannot be read or written: 403",
        ),
        (
            |it| two(it, unread(), drifted()),
            true,
            State::Attention,
            "Target bucket lost a document behind our back: gone",
        ),
        (
            |it| say(it, [(SOURCE.0, SOURCE.1, unread())]),
            true,
            State::Waiting,
            "Source files was not read yet",
        ),
        (
            early,
            true,
            State::Broken,
            "Source files signs with a key that not every relying party can have: k",
        ),
        (intruder, true, State::Broken, "Target other shows keys that somebody has put there: k"),
    ]);
}

#[test]
fn a_key_that_was_only_not_looked_at_for_a_while_does_not_wait() {
    use chancery_core::visibility::{Observation, Visibility};
    let mut issuer = one_key("https://id.example.com/a");
    let look = || Observation::of_copy("issuer URL", kids(&issuer), Duration::ZERO);
    let mut record = Visibility::new(["issuer URL"], DAY);
    for _ in 0..3 {
        record.observe(look());
        record.elapse(Duration::from_secs(600));
    }
    let mut record = Visibility::restore(["issuer URL"], DAY, &record.record());
    record.observe(look());
    issuer.seen.record = record.record();
    issuer.seen.usual_wait = Duration::from_secs(960);
    assert!(issuer.seen.obstacles(&kids(&issuer)[0]).len() == 1, "it may not be told to sign now");
    assert_eq!(standing(&issuer, true).state, State::Healthy, "{:?}", standing(&issuer, true));
}

#[test]
fn every_problem_is_listed_the_worst_first_with_the_time_since_when() {
    use ConditionType::{Accepted, Drifted, Published, Read};
    let mut issuer = one_key("https://id.example.com/a");
    wait(&mut issuer);
    let unread = Verdict::pending(Read, "NotYetRead", "");
    let drifted = Verdict::bad(Drifted, "Changed", "");
    let failed = Verdict::bad(Published, "Failed", "");
    let accepted = Verdict::good(Accepted, "Running", "");
    say(
        &mut issuer,
        [
            (PartKind::Issuer, "", accepted),
            (PartKind::Source, "files", unread),
            (PartKind::Target, "bucket", drifted),
            (PartKind::Target, "bucket", failed),
        ],
    );
    let said = problems(&issuer, true);
    let said: Vec<_> = said.iter().map(|it| (it.state, it.since.map(Timestamp::as_second))).collect();
    let expected = [
        (State::Broken, Some(1003)),
        (State::Attention, Some(1002)),
        (State::Waiting, Some(1001)),
        (State::Waiting, None),
    ];
    assert_eq!(said, expected, "`Ready` sums the others up and is none by itself");
}

#[test]
fn a_ring_that_only_stands_there_says_nothing_about_an_issuer_without_one() {
    let mut issuer = one_key("https://id.example.com/a");
    assert!(issuer.known.ring.is_none());
    issuer.known.ring = Some(KnownRing::from(&chancery_core::KeyRing::new()).into());
    assert_eq!(standing(&issuer, true).state, State::Healthy);
}

/// Of each state one, in the order in which their URLs would stand.
fn one_of_each() -> Vec<IssuerSnapshot> {
    use ConditionType::{Drifted, Published};
    let mut all = ["d", "c", "b", "a"].map(|name| one_key(&format!("https://{name}.example")));
    let [broken, attention, waiting, _] = &mut all;
    say(broken, [(PartKind::Target, "bucket", Verdict::bad(Published, "Failed", "403"))]);
    say(attention, [(PartKind::Target, "bucket", Verdict::bad(Drifted, "Changed", ""))]);
    wait(waiting);
    all.into_iter().rev().collect()
}

#[test]
fn the_worst_issuer_comes_first_and_all_are_counted() {
    let page = overview(&replica(), one_of_each(), ASKED).unwrap();
    let rows: Vec<_> = page.issuers.iter().map(|row| (row.issuer.as_str(), row.standing.state)).collect();
    let expected = [
        ("https://d.example", State::Broken),
        ("https://c.example", State::Attention),
        ("https://b.example", State::Waiting),
        ("https://a.example", State::Healthy),
    ];
    assert_eq!(rows, expected);
    assert_eq!(page.counts, Counts { broken: 1, attention: 1, waiting: 1, healthy: 1 });
    let keys: Vec<_> = page.issuers.iter().map(|row| (row.published_keys, row.waiting_keys)).collect();
    assert_eq!(keys, [(1, 0), (1, 0), (1, 1), (1, 0)]);
    assert_eq!((page.matching, page.pages), (4, 1));
}

#[test]
fn some_are_chosen_by_how_they_stand_or_what_their_url_contains_and_all_are_counted() {
    for (asked, found) in [
        (Asked { state: Some(State::Waiting), ..ASKED }, vec!["https://b.example"]),
        (Asked { find: Some("c.ex".to_owned()), ..ASKED }, vec!["https://c.example"]),
        (Asked { state: Some(State::Broken), find: Some("c.ex".to_owned()), ..ASKED }, vec![]),
    ] {
        let page = overview(&replica(), one_of_each(), asked.clone()).unwrap();
        let rows: Vec<_> = page.issuers.iter().map(|row| row.issuer.as_str()).collect();
        assert_eq!(rows, found, "{asked:?}");
        assert_eq!((page.matching, page.counts.total(), page.pages), (found.len(), 4, 1));
    }
}

#[test]
fn a_page_has_a_hundred_and_what_is_not_there_is_no_page() {
    let key = key();
    let many =
        || (0..250).map(|number| issuer(&format!("https://id.example/{number:03}"), vec![key.clone()]));
    let on = |page| overview(&replica(), many(), Asked { page, ..ASKED });
    let sizes: Vec<_> = (1..=3).map(|page| on(page).unwrap().issuers.len()).collect();
    assert_eq!(sizes, [PER_PAGE, PER_PAGE, 50]);
    let third = on(3).unwrap();
    assert_eq!((third.issuers[0].issuer.as_str(), third.pages), ("https://id.example/200", 3));
    assert!(on(4).is_none() && on(0).is_none() && on(usize::MAX).is_none());
    let none = overview(&replica(), [], ASKED).unwrap();
    assert_eq!((none.pages, none.issuers.len()), (1, 0));
}

#[test]
fn objects_that_are_not_followed_stand_beside_the_issuers() {
    let wants = object("second", &Verdict::bad(ConditionType::Accepted, "Collision", "the older one has it"));
    let replica = crate::status::snapshot::ReplicaSnapshot { objects: vec![wants], ..replica() };
    let page = overview(&replica, one_of_each(), ASKED).unwrap();
    let [row] = page.replica.objects.as_slice() else { panic!("{:?}", page.replica) };
    assert_eq!((row.name.as_str(), row.standing.state), ("second", State::Broken));
    assert_eq!(row.standing.sentence, "The object second wants what another one has: the older one has it");
}

#[test]
fn certificates_stand_beside_the_issuers_the_worst_first() {
    use ConditionType::Acceptable;
    let good = certificate("/a/tls.crt", &Verdict::good(Acceptable, "InUse", ""));
    let bad = certificate("/b/tls.crt", &Verdict::bad(Acceptable, "Unacceptable", "it expired"));
    let replica = crate::status::snapshot::ReplicaSnapshot { certificates: vec![good, bad], ..replica() };
    let page = overview(&replica, one_of_each(), ASKED).unwrap();
    let said: Vec<_> =
        page.replica.certificates.iter().map(|it| (it.path.as_str(), it.standing.state)).collect();
    assert_eq!(said, [("/b/tls.crt", State::Broken), ("/a/tls.crt", State::Healthy)]);
    let worst = &page.replica.certificates[0].standing;
    assert_eq!(worst.sentence, "The certificate /b/tls.crt is refused by clients: it expired");
}
