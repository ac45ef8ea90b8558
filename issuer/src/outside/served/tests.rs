use chancery_core::{CachePolicy, DocumentSet, Jwks, PublicKey};
use chancery_publisher::verify::fetch::{FetchedDocument, Headers, Route};
use chancery_publisher::verify::probe::Way;
use chancery_publisher::verify::report::{DocumentFetches, VerifyReport};
use tokio::time::advance;

use super::*;

const OURS: &str = "ours";
const GRACE: Duration = Duration::from_secs(60);
const MAX_AGE: Duration = Duration::from_secs(600);

fn documents(numbers: &[u8]) -> DocumentSet {
    let key = |number: &u8| {
        let mut modulus = [0xa5; 128];
        modulus[1] = *number;
        PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
    };
    let issuer = "https://id.example.com".parse().unwrap();
    DocumentSet::new(issuer, Jwks::new(numbers.iter().map(key)).unwrap(), CachePolicy::default())
}

/// A look that one edge answered with these documents.
fn probe(served: &DocumentSet) -> Probe {
    let fetched = |kind: DocumentKind| FetchedDocument {
        url: served.issuer().as_str().to_owned(),
        status: 200,
        protocol: "HTTP/1.1".to_owned(),
        headers: Headers::default(),
        body: served.document(kind).bytes.to_vec(),
        elapsed: Duration::ZERO,
        peer: None,
        route: Route::Resolved,
    };
    let fetches = DocumentFetches {
        discovery: Ok(fetched(DocumentKind::Discovery)),
        jwks: Some(Ok(fetched(DocumentKind::Jwks))),
        jwks_refused: None,
        private_trust: false,
    };
    let report = VerifyReport {
        issuer: served.issuer().clone(),
        fetches,
        keys: Vec::new(),
        findings: Vec::new(),
        visible: served.jwks().keys().iter().map(|key| key.key_id().clone()).collect(),
        max_age: Some(MAX_AGE),
    };
    let edge = Edge { address: None, keys_at: None, way: Way::Plain, report };
    Probe { edges: vec![edge], left_out: 0, took: Duration::ZERO }
}

/// One process's looks at one view.
struct Looks {
    history: PublishedHistory,
    known_since: Instant,
    strange: StrangeSince,
}

impl Looks {
    fn begin() -> Self {
        let (history, strange) = (PublishedHistory::default(), StrangeSince::default());
        Self { history, known_since: Instant::now(), strange }
    }

    /// The reason of the condition, and whether it is an alarm.
    fn look(&mut self, served: &DocumentSet) -> (&'static str, bool) {
        let Self { history, known_since, strange } = self;
        let held =
            HeldBehind { history, holders: &[OURS.to_owned()], known_since: *known_since, grace: GRACE };
        let verdict = judge(held, &probe(served), strange).unwrap().verdict;
        (verdict.reason, verdict.alarm)
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_replica_has_read_first_is_no_alarm_and_what_stays_strange_is_one() {
    let (old, new) = (documents(&[1]), documents(&[1, 2]));
    let mut looks = Looks::begin();
    looks.history.restore(&{
        let before = PublishedHistory::default();
        before.holds(OURS, &old);
        before.record()
    });
    looks.history.holds(OURS, &old);
    assert_eq!(looks.look(&old), ("AsPublished", false));

    assert_eq!(looks.look(&new), ("NotKnownHere", false), "the leader has read its source before we did");
    advance(GRACE / 2).await;
    assert_eq!(looks.look(&new), ("NotKnownHere", false));
    looks.history.holds(OURS, &new);
    assert_eq!(looks.look(&new), ("AsPublished", false), "and now we have read it as well");
    assert_eq!(looks.look(&old), ("Stale", false));

    let strange = documents(&[1, 2, 3]);
    assert_eq!(looks.look(&strange), ("NotKnownHere", false), "the time of the one before does not count");
    advance(GRACE).await;
    assert_eq!(looks.look(&strange), ("ServesForeignKeys", true));
}

#[tokio::test(start_paused = true)]
async fn an_old_cache_is_an_excuse_after_a_restart_whose_past_nobody_handed_over() {
    let (old, new) = (documents(&[1]), documents(&[2]));
    let mut looks = Looks::begin();
    looks.history.holds(OURS, &new);
    assert_eq!(looks.look(&old), ("NotKnownHere", false));
    advance(MAX_AGE).await;
    assert_eq!(looks.look(&old), ("NotKnownHere", false), "a cache behind a cache keeps it twice as long");
    advance(MAX_AGE).await;
    assert_eq!(looks.look(&old), ("ServesForeignKeys", true));
}
