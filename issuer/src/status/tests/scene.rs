//! Snapshots as the process would read them.

use std::collections::BTreeSet;
use std::time::Duration;

use chancery_core::ring::{KeyState, Position};
use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation, Visibility};
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{CachePolicy, DocumentSet, Jwks, KeyId, PublicKey, WithdrawalCause, Withdrawals};
use jiff::Timestamp;

use super::super::snapshot::{
    CertificateSnapshot, IssuerDetails, IssuerSnapshot, LastGood, ReplicaSnapshot, Seen,
};
use crate::conditions::{Condition, ConditionType, Conditions, PartKind, Subject, Verdict};
use crate::config::ISSUER_URL_VIEW;
use crate::index::Publication;
use crate::known_keys::{KnownKey, KnownOfKeys, KnownRing};
use crate::roster::{Declared, Progress};
use crate::source::tests::key;

pub const URL: &str = "https://id.example.com/a";
pub const DAY: Duration = Duration::from_secs(86_400);

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A replica that publishes.
pub fn replica() -> ReplicaSnapshot {
    ReplicaSnapshot {
        at: at(1_800_000_000),
        version: "1.2.3",
        publishes: true,
        certificates: Vec::new(),
        objects: Vec::new(),
    }
}

/// A healthy issuer with these keys, seen by whoever looks, with a wait of nothing.
pub fn issuer(url: &str, keys: Vec<PublicKey>) -> IssuerSnapshot {
    let progress =
        Progress { issuer: url.parse().unwrap(), has_documents: true, waited_for: true, problem: None };
    let declared = Declared { is_looked_at: true, targets: vec!["bucket".to_owned()], ..Declared::default() };
    let kids: Vec<KeyId> = keys.iter().map(|key| key.key_id().clone()).collect();
    let documents = DocumentSet::new(
        url.parse().unwrap(),
        Jwks::new(keys).unwrap_or_else(Jwks::empty),
        CachePolicy::default(),
    );
    let known = kids.iter().map(|kid| KnownKey {
        kid: kid.clone(),
        first_seen: at(1_700_000_000),
        leaves_after: None,
    });
    IssuerSnapshot {
        progress,
        declared: declared.into(),
        known: KnownOfKeys { keys: known.collect(), ..KnownOfKeys::default() },
        publication: Some(Publication { documents, withdrawals: Withdrawals::default(), decision: 1 }.into()),
        seen: seen(&kids, Duration::ZERO),
        conditions: Vec::new(),
    }
}

pub fn one_key(url: &str) -> IssuerSnapshot {
    issuer(url, vec![key()])
}

/// The issuer URL shows these keys for the first time.
pub fn seen(kids: &[KeyId], usual_wait: Duration) -> Seen {
    let mut record = Visibility::new([ISSUER_URL_VIEW], DAY);
    record.observe(Observation::of_copy(ISSUER_URL_VIEW, kids.iter().cloned(), Duration::ZERO));
    Seen { record: record.record(), obstacle: None, usual_wait }
}

pub fn kids(issuer: &IssuerSnapshot) -> Vec<KeyId> {
    issuer.kids().cloned().collect()
}

/// Gives the issuer conditions of these parts, found one after another from 1000 seconds on.
pub fn say(issuer: &mut IssuerSnapshot, said: impl IntoIterator<Item = (PartKind, &'static str, Verdict)>) {
    let (mut all, url) = (Conditions::default(), issuer.url().clone());
    for (second, (kind, name, verdict)) in (1000..).zip(said) {
        let subject = match kind {
            PartKind::Issuer => Subject::issuer(&url),
            PartKind::Source => Subject::source(&url, name),
            PartKind::Target => Subject::target(&url, name),
            PartKind::Sink => Subject::sink(&url, name),
            PartKind::View => Subject::view(&url, name),
            PartKind::Certificate => Subject::certificate(name),
            PartKind::Object => Subject::object(name),
        };
        all.set(&subject, &verdict, at(second));
    }
    issuer.conditions = all.of_issuer(&url).cloned().collect();
}

/// Has a ring say what its keys are for.
pub fn ring(issuer: &mut IssuerSnapshot, states: &[KeyState]) {
    let position = Position { epoch: 3, generation: 7 };
    let states = issuer.kids().cloned().zip(states.iter().copied()).collect();
    let activated = Some(at(1_750_000_000));
    let ring = KnownRing { position, states, activated, is_rotation_asked: false };
    issuer.known.ring = Some(ring.into());
    issuer.known.followed = Some(position);
}

/// A serving certificate of which this is said.
pub fn certificate(path: &str, verdict: &Verdict) -> CertificateSnapshot {
    let mut all = Conditions::default();
    all.set(&Subject::certificate(path), verdict, at(1000));
    CertificateSnapshot { condition: all.iter().next().unwrap().clone(), expires_at: Some(at(1_800_086_400)) }
}

/// What is said of an `Issuer` object.
pub fn object(name: &str, verdict: &Verdict) -> Condition {
    let mut all = Conditions::default();
    all.set(&Subject::object(name), verdict, at(1000));
    all.iter().next().unwrap().clone()
}

/// An issuer of which everything that can be said is said, in these words of others.
pub fn details_in_words_of(others: &'static str) -> IssuerDetails {
    let mut snapshot = issuer(URL, vec![key(), key(), key()]);
    let names = |name: &str| vec![format!("{name} {others}")];
    snapshot.declared =
        Declared { targets: names("target"), sinks: names("sink"), is_looked_at: true }.into();
    let [first, second, third]: [KeyId; 3] = kids(&snapshot).try_into().unwrap();
    ring(&mut snapshot, &[KeyState::Active, KeyState::Pending, KeyState::Retiring]);
    snapshot.seen = half_seen(others, [first.clone(), third]);
    if let Some(key) = snapshot.known.keys.first_mut() {
        key.leaves_after = Some(Duration::from_secs(7200));
    }
    let publication = snapshot.publication.as_deref().unwrap().clone();
    let mut withdrawals = Withdrawals::default();
    withdrawals.add(Withdrawal { key: (&second).into(), cause: WithdrawalCause::Revoked, decision: 1 });
    snapshot.publication = Some(Publication { withdrawals, ..publication }.into());
    let url = snapshot.url().clone();
    let mut all = Conditions::default();
    for (second, (subject, verdict)) in (1000..).zip(words(&url, others)) {
        all.set(&subject, &verdict, at(second));
    }
    snapshot.conditions = all.of_issuer(&url).cloned().collect();
    let last_good = vec![
        LastGood { kind: PartKind::Source, name: format!("source {others}"), at: at(1_799_999_990) },
        LastGood { kind: PartKind::Target, name: format!("target {others}"), at: at(1_799_999_000) },
    ];
    IssuerDetails { issuer: snapshot, last_good, last_look: Some(at(1_799_999_970)) }
}

/// A view in which one edge shows all of these keys and a stranger's, one fewer, and one cannot be read.
fn half_seen(others: &str, kids: [KeyId; 2]) -> Seen {
    let shows = |kids: BTreeSet<KeyId>| {
        let (age, lifetime) = (Some(Duration::from_secs(17)), Some(Duration::from_secs(600)));
        EdgeObservation::Read(EdgeKeys { kids, others: 4, age, lifetime })
    };
    let mut record = Visibility::new([format!("view {others}")], DAY);
    for round in 0..2 {
        record.elapse(Duration::from_secs(4000 * round));
        let mut observation = Observation::of_copy(format!("view {others}"), [], Duration::ZERO);
        let mut edges = vec![(format!("edge {others}"), shows(kids.clone().into()))];
        if round == 1 {
            let unreadable = EdgeObservation::Unreadable(format!("refused {others}"));
            edges.push((format!("down {others}"), unreadable));
        }
        observation.edges = edges.into_iter().collect();
        record.observe(observation);
    }
    Seen { record: record.record(), obstacle: None, usual_wait: Duration::from_secs(960) }
}

fn words(url: &chancery_core::IssuerUrl, others: &str) -> Vec<(Subject, Verdict)> {
    use ConditionType::{Accepted, Drifted, ForeignKeys, Published, Read, Uploaded, Visible};
    let name = |part: &str| format!("{part} {others}");
    let target = || Subject::target(url, &name("target"));
    vec![
        (Subject::issuer(url), Verdict::bad(Accepted, "CannotOpen", name("not opened"))),
        (Subject::source(url, &name("source")), Verdict::bad(Read, "Unreadable", name("not read"))),
        (target(), Verdict::bad(Published, "Failed", name("not written"))),
        (target(), Verdict::bad(Drifted, "Changed", name("changed"))),
        (target(), Verdict::bad(ForeignKeys, "KeysOfNoSource", name("foreign"))),
        (Subject::sink(url, &name("sink")), Verdict::bad(Uploaded, "Blocked", name("blocked"))),
        (Subject::view(url, &name("view")), Verdict::pending(Visible, "KeyNotYetSeen", name("unseen"))),
    ]
}
