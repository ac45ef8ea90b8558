//! Every address of a host, as caches answer there and past them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::visibility::{EdgeKeys, EdgeObservation};
use chancery_core::{CachePolicy, DocumentSet, Jwks, KeyId, PublicKey};
use chancery_publisher::verify::probe::{Probe, Way};
use chancery_publisher::verify::{Expectation, IssuerPlace, Verifier, VerifyOptions, rule};

use super::server::{Answer, Authority, Certificate, Manner, Server};
use super::{DISCOVERY, JWKS, answers, issuer, options};

fn keys(number: usize) -> Vec<PublicKey> {
    let key = |_| {
        let key = rcgen::KeyPair::generate().unwrap();
        PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&key)).unwrap()
    };
    (0..number).map(key).collect()
}

fn documents(keys: &[PublicKey]) -> DocumentSet {
    DocumentSet::new(issuer(), Jwks::new(keys.to_vec()).unwrap(), CachePolicy::default())
}

fn ids(keys: &[PublicKey]) -> BTreeSet<KeyId> {
    keys.iter().map(|key| key.key_id().clone()).collect()
}

type Answers = BTreeMap<String, Answer>;

/// Two keys; a well-run server of both, and one that has only the first.
struct Stage {
    authority: Authority,
    keys: Vec<PublicKey>,
    new: Answers,
    old: Answers,
}

impl Stage {
    fn new() -> Self {
        let keys = keys(2);
        let (new, old) = (answers(&documents(&keys)), answers(&documents(&keys[..1])));
        Self { authority: Authority::new(), keys, new, old }
    }

    /// The probe of servers that answer so, each at an address of its own.
    async fn probe(&self, answers: &[&Answers]) -> Probe {
        let mut servers = Vec::new();
        for answers in answers {
            servers.push(Server::start(&self.authority, Certificate::default(), (*answers).clone()).await);
        }
        let mut options = options(&self.authority, servers[0].address);
        servers.iter().for_each(|server| options.addresses.insert("id.example.com", server.address));
        probe(options, &Expectation::of_keys(ids(&self.keys))).await
    }
}

async fn probe(options: VerifyOptions, expected: &Expectation) -> Probe {
    let place = IssuerPlace { issuer: &issuer(), base: None };
    Verifier::new(options).unwrap().probe(place, expected, 7).await
}

/// The same answers where only questions with a query are answered as in `behind`.
fn cached(front: &Answers, behind: &Answers) -> Answers {
    let behind = behind.iter().map(|(path, answer)| (format!("{path}?"), answer.clone()));
    front.clone().into_iter().chain(behind).collect()
}

fn with_status(answers: &Answers, status: u16) -> Answers {
    answers.iter().map(|(path, answer)| (path.clone(), Answer { status, ..answer.clone() })).collect()
}

fn rules(probe: &Probe) -> Vec<&'static str> {
    let findings = probe.findings();
    findings.iter().map(|finding| finding.rule).filter(|rule| *rule != rule::TLS_PRIVATE_CA).collect()
}

fn message(probe: &Probe, rule: &str) -> String {
    probe.findings().into_iter().find(|finding| finding.rule == rule).unwrap().message
}

/// What each edge says: its kids, or none where it could not be read.
fn keys_at_edges(probe: &Probe, answered_before: bool) -> Vec<Option<BTreeSet<KeyId>>> {
    let kids = |edge: &EdgeObservation| match edge {
        EdgeObservation::Read(EdgeKeys { kids, .. }) => Some(kids.clone()),
        EdgeObservation::Unreadable(_) => None,
    };
    probe.observation("v", answered_before).edges.values().map(kids).collect()
}

#[tokio::test]
async fn every_address_is_asked_under_the_name_of_the_host_plain_and_past_caches() {
    let stage = Stage::new();
    let one = Server::start(&stage.authority, Certificate::default(), stage.new.clone()).await;
    let two = Server::start(&stage.authority, Certificate::default(), stage.new.clone()).await;
    let mut options = options(&stage.authority, one.address);
    options.addresses.insert("ID.example.com", two.address);
    let probe = probe(options, &Expectation::of_keys(ids(&stage.keys))).await;
    assert_eq!(rules(&probe), [""; 0], "{:#?}", probe.findings());
    assert!(probe.is_good() && probe.left_out == 0);
    let ways: Vec<_> = probe.edges.iter().map(|edge| edge.way).collect();
    assert_eq!(ways, [Way::Plain, Way::PastCaches, Way::Plain, Way::PastCaches]);
    for server in [one, two] {
        let mut asked: Vec<String> = server.seen().requests.iter().map(|(line, _)| line.clone()).collect();
        asked.sort();
        let lines =
            [DISCOVERY, JWKS].map(|path| [format!("GET {path}"), format!("GET {path}?chancery-probe=7")]);
        assert_eq!(asked, lines.concat());
        assert!(server.seen().handshakes.len() == 4, "a connection for each");
    }
    let everything = Some(ids(&stage.keys));
    assert_eq!(keys_at_edges(&probe, false), vec![everything; 4]);
}

#[tokio::test]
async fn an_address_that_lags_and_one_that_is_down_are_named() {
    let stage = Stage::new();
    let mut lagging = stage.old.clone();
    lagging.values_mut().for_each(|answer| answer.headers.push(("age", "90".to_owned())));
    let probe = stage.probe(&[&stage.new, &lagging]).await;
    let found = rules(&probe);
    assert!(found.contains(&rule::EDGES_DIFFER) && found.contains(&rule::KEY_MISSING), "{found:?}");
    let said = message(&probe, rule::EDGES_DIFFER);
    let missing = stage.keys[1].key_id().as_str();
    assert!(said.contains(missing) && said.contains("90 s old") && said.contains("510 s more"), "{said}");
    assert!(message(&probe, rule::KEY_MISSING).starts_with("at 127.0.0.1:"), "only one lacks it");
    assert!(!probe.is_good());

    let server = Server::start(&stage.authority, Certificate::default(), stage.new.clone()).await;
    let mut options = options(&stage.authority, server.address);
    // Held, so that nobody listens there meanwhile.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
    options.addresses.insert("id.example.com", closed.local_addr().unwrap());
    let probe = self::probe(options, &Expectation::none()).await;
    assert_eq!(rules(&probe), [rule::UNREACHABLE]);
    let shown = keys_at_edges(&probe, false);
    assert_eq!(shown.iter().filter(|edge| edge.is_none()).count(), 2, "{shown:?}");
}

#[tokio::test]
async fn a_cache_that_lags_is_told_from_an_origin_that_lost_a_key() {
    let stage = Stage::new();
    let lags = stage.probe(&[&cached(&stage.old, &stage.new)]).await;
    assert!(rules(&lags).contains(&rule::CACHE_LAGS), "{:?}", rules(&lags));
    assert!(
        message(&lags, rule::CACHE_LAGS).contains("at most 600 s"),
        "{}",
        message(&lags, rule::CACHE_LAGS)
    );
    assert_eq!(keys_at_edges(&lags, false), [Some(ids(&stage.keys[..1])), Some(ids(&stage.keys))]);

    let lost = stage.probe(&[&cached(&stage.new, &stage.old)]).await;
    assert_eq!(rules(&lost), [rule::ORIGIN_LAGS]);
    assert!(!lost.is_good());
}

#[tokio::test]
async fn a_server_that_refuses_the_query_hides_nothing_and_an_origin_that_lost_the_object_does() {
    let stage = Stage::new();
    for status in [400, 403, 404, 414] {
        let refusing = cached(&stage.new, &with_status(&stage.new, status));
        let probe = stage.probe(&[&refusing]).await;
        assert_eq!(rules(&probe), [""; 0], "{status}");
        assert_eq!(
            keys_at_edges(&probe, false),
            [Some(ids(&stage.keys))],
            "{status}: the question was refused"
        );
        let answered_before = keys_at_edges(&probe, true);
        let expected = if matches!(status, 403 | 404) { Some(BTreeSet::new()) } else { None };
        assert_eq!(answered_before, [Some(ids(&stage.keys)), expected], "{status}: it had answered before");
    }
    // Another address answers past its caches, so this one could as well.
    let probe = stage.probe(&[&stage.new, &cached(&stage.new, &with_status(&stage.new, 404))]).await;
    assert_eq!(rules(&probe), [rule::ORIGIN_LAGS]);
}

#[tokio::test]
async fn statuses_and_broken_documents_are_gaps_or_prove_nothing() {
    let stage = Stage::new();
    let garbled = |mut answers: Answers| {
        answers.values_mut().for_each(|answer| answer.body = b"<html>".to_vec());
        answers
    };
    let cut = |mut answers: Answers| {
        answers.values_mut().for_each(|answer| answer.manner = Manner::CutOff);
        answers
    };
    let nothing = Some(BTreeSet::new());
    for (what, answers, expected) in [
        ("404", with_status(&stage.new, 404), nothing.clone()),
        ("403", with_status(&stage.new, 403), nothing.clone()),
        ("302", with_status(&stage.new, 302), None),
        ("429", with_status(&stage.new, 429), None),
        ("503", with_status(&stage.new, 503), None),
        ("not JSON", garbled(stage.new.clone()), nothing),
        ("cut off", cut(stage.new.clone()), None),
    ] {
        let plain = keys_at_edges(&stage.probe(&[&answers]).await, false).into_iter().next();
        assert_eq!(plain, Some(expected), "{what}");
    }
}

#[tokio::test]
async fn headers_are_carried_into_the_record_and_a_name_without_an_address_is_one_edge() {
    let stage = Stage::new();
    let mut aged = stage.new.clone();
    aged.get_mut(JWKS).unwrap().headers.push(("age", "17".to_owned()));
    let observation = stage.probe(&[&aged]).await.observation("v", false);
    assert_eq!(observation.view, "v");
    let EdgeObservation::Read(seen) = observation.edges.values().next().unwrap() else {
        panic!("{observation:?}")
    };
    assert_eq!((seen.age, seen.lifetime), (Some(Duration::from_secs(17)), Some(Duration::from_secs(600))));

    let server = Server::start(&stage.authority, Certificate::default(), stage.new.clone()).await;
    let options = options(&stage.authority, server.address);
    let place = IssuerPlace { issuer: &issuer(), base: Some("https://nobody.invalid") };
    let probe = Verifier::new(options).unwrap().probe(place, &Expectation::none(), 1).await;
    let names: Vec<String> = probe.edges.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["the host", "the host past caches"]);
    assert_eq!(keys_at_edges(&probe, false), [None, None]);
}

#[tokio::test]
async fn of_many_addresses_a_part_is_asked_and_the_rest_next_time() {
    let stage = Stage::new();
    let server = Server::start(&stage.authority, Certificate::default(), stage.new.clone()).await;
    let mut options = options(&stage.authority, server.address);
    for port in 1..40u16 {
        options.addresses.insert("id.example.com", ([127, 0, 0, 1], port).into());
    }
    options.timeout = Duration::from_secs(1);
    let verifier = Verifier::new(options).unwrap();
    let mut asked = BTreeSet::new();
    for nonce in 0..2 {
        let place = IssuerPlace { issuer: &issuer(), base: None };
        let probe = verifier.probe(place, &Expectation::none(), nonce).await;
        assert_eq!((probe.plain().count(), probe.left_out), (32, 8));
        assert!(rules(&probe).contains(&rule::EDGES_LEFT_OUT));
        asked.extend(probe.edges.iter().map(|edge| edge.address));
    }
    assert_eq!(asked.len(), 40);
}

/// The discovery document with its key set at another place.
fn with_keys_at(answers: &Answers, jwks_uri: &str) -> Answers {
    let mut answers = answers.clone();
    let discovery = answers.get_mut(DISCOVERY).unwrap();
    let text = String::from_utf8(discovery.body.clone()).unwrap();
    discovery.body = text.replace(&issuer().jwks_uri(), jwks_uri).into_bytes();
    answers
}

#[tokio::test]
async fn every_address_of_the_host_of_the_key_set_is_an_edge() {
    let stage = Stage::new();
    let jwks_uri = format!("https://keys.example.com{JWKS}");
    let front = with_keys_at(&stage.new, &jwks_uri);
    let documents = Server::start(&stage.authority, Certificate::default(), front).await;
    let named = || Certificate { name: "keys.example.com", ..Certificate::default() };
    let new = Server::start(&stage.authority, named(), stage.new.clone()).await;
    let lagging = Server::start(&stage.authority, named(), stage.old.clone()).await;
    let mut options = options(&stage.authority, documents.address);
    options.addresses.insert("keys.example.com", new.address);
    options.addresses.insert("keys.example.com", lagging.address);
    let probe = probe(options, &Expectation::of_keys(ids(&stage.keys))).await;

    let mut seen: Vec<(bool, usize)> = Vec::new();
    for (name, edge) in probe.observation("v", false).edges {
        assert!(name.contains(", keys at 127.0.0.1:"), "{name}");
        let EdgeObservation::Read(keys) = edge else { panic!("{name}: {edge:?}") };
        seen.push((name.ends_with("past caches"), keys.kids.len()));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(false, 1), (false, 2), (true, 1), (true, 2)], "one edge of four lags");
    assert!(rules(&probe).contains(&rule::EDGES_DIFFER), "{:?}", rules(&probe));
    // The key set is not looked for where it is not.
    assert!(documents.seen().requests.iter().all(|(line, _)| !line.contains(JWKS)));
}

#[tokio::test]
async fn a_key_set_in_a_network_where_the_issuer_is_not_is_not_asked_for() {
    let stage = Stage::new();
    for host in ["169.254.169.254", "10.0.0.1", "[fd00::1]", "kubernetes.default.svc", "0.0.0.0.nip.internal"]
    {
        let front = with_keys_at(&stage.new, &format!("https://{host}/latest/meta-data"));
        let probe = stage.probe(&[&front]).await;
        assert!(rules(&probe).contains(&rule::JWKS_NOT_ASKED), "{host}: {:?}", rules(&probe));
        assert_eq!(keys_at_edges(&probe, false), [None, None], "{host}: nothing is proven");
        assert!(probe.edges.iter().all(|edge| edge.report.fetches.jwks.is_none()), "{host}");
    }
    // Where the issuer itself is, and where an operator allows it.
    let keys = Server::start(
        &stage.authority,
        Certificate { name: "127.0.0.1", ..Certificate::default() },
        stage.new.clone(),
    )
    .await;
    let front = with_keys_at(&stage.new, &format!("https://127.0.0.1:{}{JWKS}", keys.address.port()));
    let probe = stage.probe(&[&front]).await;
    assert_eq!(keys_at_edges(&probe, false), vec![Some(ids(&stage.keys)); 2]);
}
