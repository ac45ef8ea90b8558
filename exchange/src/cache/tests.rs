use std::sync::atomic::AtomicUsize;

use chancery_wire::Secret;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::*;
use crate::key::KeyBuilder;

const HOUR: Duration = Duration::from_secs(3600);

/// Time as tokio tells it, which a test stops.
struct Paused(Instant);

impl Clock for Paused {
    fn read(&self) -> Reading {
        let elapsed = self.0.elapsed();
        Reading { wall: Timestamp::from_second(1_000_000).unwrap() + elapsed, elapsed }
    }
}

#[derive(Clone)]
struct Sts {
    cache: Cache,
    clock: Arc<Paused>,
    calls: Arc<AtomicUsize>,
    latency: Duration,
    lifetime: Duration,
}

impl Sts {
    fn new(options: CacheOptions) -> Self {
        let clock = Arc::new(Paused(Instant::now()));
        let cache = Cache::with(options, clock.clone(), || 0.0);
        let calls = Arc::default();
        Self { cache, clock, calls, latency: Duration::from_millis(100), lifetime: HOUR }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn made(&self, outcome: Result<(), ExchangeError>) -> Exchanging {
        let this = self.clone();
        Box::pin(async move {
            this.calls.fetch_add(1, Ordering::SeqCst);
            sleep(this.latency).await;
            outcome?;
            let now = this.clock.read().wall;
            let token = Secret::new(format!("token {}", this.calls()));
            Ok(Credential::bearer(token, now, Some(now + this.lifetime)))
        })
    }

    async fn get(&self, name: &str) -> Outcome {
        self.cache.credential(&ask(name), || self.made(Ok(()))).await
    }

    async fn fail(&self, name: &str, class: Class) -> Outcome {
        let error = || ExchangeError::new(class, Stage::Exchange, "refused");
        self.cache.credential(&ask(name), || self.made(Err(error()))).await
    }
}

fn ask(name: &str) -> Ask {
    let service_account = name.split_once('/').map(|_| name.parse().unwrap());
    let labels = Labels { provider: "aws", identity: format!("role of {name}"), service_account };
    Ask::new(KeyBuilder::default().text("name", name).finish(), labels)
}

fn token(credential: &Credential) -> &str {
    let crate::CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    bearer.token.expose()
}

#[tokio::test(start_paused = true)]
async fn c_13_a_thousand_callers_of_one_key_make_one_exchange() {
    let sts = Sts::new(CacheOptions::default());
    let callers: Vec<_> = (0..1000)
        .map(|_| {
            tokio::spawn({
                let sts = sts.clone();
                async move { sts.get("one").await }
            })
        })
        .collect();
    for caller in callers {
        assert_eq!(token(&caller.await.unwrap().unwrap()), "token 1");
    }
    assert_eq!((sts.calls(), sts.cache.counts().exchanges()), (1, 1));
    let error = |sts: Sts| async move { sts.fail("two", Class::Transient).await.unwrap_err().code() };
    let callers: Vec<_> = (0..1000).map(|_| tokio::spawn(error(sts.clone()))).collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), "refused");
    }
    assert_eq!(sts.calls(), 2, "followers share the failure too");
}

#[tokio::test(start_paused = true)]
async fn c_13_a_tenant_that_hangs_delays_nobody() {
    let sts = Sts::new(CacheOptions::default());
    sts.get("b").await.unwrap();
    let hanging = Sts { latency: HOUR, ..sts.clone() };
    for number in 0..1000 {
        let hanging = hanging.clone();
        tokio::spawn(async move { hanging.get(&format!("hangs {number}")).await });
    }
    tokio::task::yield_now().await;
    let started = Instant::now();
    sts.get("b").await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO, "a hit waits for nothing");
    sts.get("c").await.unwrap();
    assert_eq!(started.elapsed(), sts.latency, "another key waits for its own exchange alone");
}

#[tokio::test(start_paused = true)]
async fn r0_26_an_exchange_that_hangs_ends() {
    let sts = Sts { latency: HOUR, ..Sts::new(CacheOptions::default()) };
    let started = Instant::now();
    let error = sts.get("a").await.unwrap_err();
    assert_eq!((error.code(), error.class()), ("exchange-deadline", Class::Transient));
    assert_eq!(started.elapsed(), limits::EXCHANGE);
}

#[tokio::test(start_paused = true)]
async fn c_09_c_14_what_is_valid_is_served_while_it_is_renewed_and_when_that_fails() {
    let sts = Sts::new(CacheOptions::default());
    sts.get("a").await.unwrap();
    sleep(Duration::from_secs(2879) - sts.latency).await;
    sts.get("a").await.unwrap();
    assert_eq!(sts.calls(), 1, "before 80 % nothing is asked");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(
        token(&sts.fail("a", Class::Transient).await.unwrap()),
        "token 1",
        "served while it is renewed"
    );
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sts.calls(), 2);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        token(&sts.fail("a", Class::Permanent).await.unwrap()),
        "token 1",
        "served although that failed"
    );
    assert_eq!(sts.cache.counts().stale(), 1);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(sts.fail("a", Class::Transient).await.unwrap_err().code(), "refused", "not after its end");
    assert_eq!(token(&sts.get("a").await.unwrap()), "token 5", "and it recovers");
}

#[tokio::test(start_paused = true)]
async fn c_14_whoever_stops_waiting_fails_nobody_else() {
    let sts = Sts::new(CacheOptions::default());
    let leader = tokio::spawn({
        let sts = sts.clone();
        async move { sts.get("a").await }
    });
    tokio::task::yield_now().await;
    let follower = tokio::spawn({
        let sts = sts.clone();
        async move { sts.get("a").await }
    });
    tokio::task::yield_now().await;
    leader.abort();
    assert_eq!(token(&follower.await.unwrap().unwrap()), "token 1");
}

#[tokio::test(start_paused = true)]
async fn a_panic_wakes_whoever_waits_and_leaves_the_key_usable() {
    let sts = Sts::new(CacheOptions::default());
    let error = sts.cache.credential(&ask("a"), || Box::pin(async { panic!("a bug") })).await.unwrap_err();
    assert_eq!(error.code(), "exchange-ended");
    assert!(sts.get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn c_10_without_entries_every_call_exchanges_and_with_them_the_bound_holds() {
    let off = Sts::new(CacheOptions { entries: 0, ..CacheOptions::default() });
    off.get("a").await.unwrap();
    off.get("a").await.unwrap();
    assert_eq!((off.calls(), off.cache.len()), (2, 0));
    let small = Sts::new(CacheOptions { entries: 10, ..CacheOptions::default() });
    for number in 0..100 {
        small.get(&number.to_string()).await.unwrap();
        small.get("0").await.unwrap();
        assert!(small.cache.len() <= 10);
    }
    assert_eq!((small.cache.counts().evicted(), small.calls()), (90, 100), "the one in use stayed");
}

#[tokio::test(start_paused = true)]
async fn c_12_a_refusal_is_remembered_for_seconds_and_an_outage_is_not() {
    let sts = Sts::new(CacheOptions::default());
    sts.fail("a", Class::Permanent).await.unwrap_err();
    assert_eq!(sts.get("a").await.unwrap_err().code(), "refused");
    assert_eq!(sts.calls(), 1, "within 5 s nobody is asked again");
    assert!(sts.get("b").await.is_ok(), "another input is another key");
    sleep(Duration::from_secs(5)).await;
    assert!(sts.get("a").await.is_ok());
    sts.fail("c", Class::Transient).await.unwrap_err();
    assert!(sts.get("c").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_throttled_key_waits_as_long_as_it_was_asked_to() {
    let sts = Sts::new(CacheOptions::default());
    let error = || {
        ExchangeError::new(Class::Throttled, Stage::Exchange, "throttled")
            .retry_after(Some(Duration::from_secs(20)))
    };
    sts.cache.credential(&ask("a"), || sts.made(Err(error()))).await.unwrap_err();
    sleep(Duration::from_secs(19)).await;
    assert_eq!(sts.get("a").await.unwrap_err().code(), "throttled");
    assert_eq!(sts.calls(), 1);
    sleep(Duration::from_secs(1)).await;
    assert!(sts.get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn c_17_what_is_purged_on_its_way_is_not_kept() {
    let sts = Sts::new(CacheOptions::default());
    let waiting = tokio::spawn({
        let sts = sts.clone();
        async move { sts.get("ns/a").await }
    });
    tokio::task::yield_now().await;
    let generation = sts.cache.generation();
    assert_eq!(sts.cache.purge(&Purge::ServiceAccount("ns/a".parse().unwrap())), 1);
    assert_ne!(sts.cache.generation(), generation);
    assert_eq!(
        token(&waiting.await.unwrap().unwrap()),
        "token 2",
        "whoever waits gets one that was asked for later"
    );
    assert_eq!(sts.calls(), 2);
    sts.get("ns/b").await.unwrap();
    for (what, gone) in [
        (Purge::Provider("gcp".to_owned()), 0),
        (Purge::Identity("role of ns/b".to_owned()), 1),
        (Purge::Provider("aws".to_owned()), 1),
        (Purge::All, 0),
    ] {
        assert_eq!(sts.cache.purge(&what), gone, "{what:?}");
    }
    sts.get("ns/a").await.unwrap();
    assert_eq!(sts.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn c_16_short_lives_are_cached_by_their_length() {
    let sts = Sts { lifetime: Duration::from_secs(300), ..Sts::new(CacheOptions::default()) };
    sts.get("a").await.unwrap();
    sts.get("a").await.unwrap();
    assert_eq!(sts.calls(), 1, "five minutes are long enough");
    let once = Sts { lifetime: Duration::from_secs(30), ..sts.clone() };
    once.get("b").await.unwrap();
    once.get("b").await.unwrap();
    assert_eq!(sts.calls(), 3, "30 s are used once");
    assert_eq!(sts.cache.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn s0_01_after_a_revocation_a_credential_lives_no_longer_than_the_longest_duration() {
    let longest = Duration::from_secs(600);
    let sts = Sts { lifetime: 12 * HOUR, ..Sts::new(CacheOptions { longest, ..CacheOptions::default() }) };
    sts.get("a").await.unwrap();
    let given = Instant::now();
    while sts.fail("a", Class::Permanent).await.is_ok() {
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(given.elapsed().as_secs(), longest.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_life_that_is_asked_for_is_given_or_refused() {
    let sts = Sts::new(CacheOptions::default());
    let lasting = |seconds| Ask { remaining: Duration::from_secs(seconds), ..ask("a") };
    let get = |ask: Ask| {
        let sts = sts.clone();
        async move { sts.cache.credential(&ask, || sts.made(Ok(()))).await }
    };
    get(lasting(600)).await.unwrap();
    sleep(Duration::from_secs(1800)).await;
    assert_eq!(token(&get(lasting(1700)).await.unwrap()), "token 1");
    assert_eq!(token(&get(lasting(1900)).await.unwrap()), "token 2", "the old one would have ended before");
    assert_eq!(get(lasting(3000)).await.unwrap_err().code(), "min-ttl-too-long");
}
