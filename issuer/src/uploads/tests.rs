use std::sync::Mutex;

use async_trait::async_trait;
use chancery_core::upload::HeldKeys;
use chancery_core::{CachePolicy, DocumentSet, Jwks, PublicKey, WithdrawalCause, Withdrawals};
use chancery_publisher::sink::Upload;
use chancery_publisher::{StoreError, StoreErrorKind};

use super::*;
use crate::leadership::Leading;
use crate::pace::Pace;

/// A sink in memory, which may be out of reach.
#[derive(Debug, Default)]
struct Memory {
    keys: Mutex<Vec<PublicKey>>,
    is_down: Mutex<bool>,
    writes: Mutex<usize>,
}

impl Memory {
    fn answer<T>(&self, value: T, operation: chancery_publisher::store::Operation) -> Result<T, StoreError> {
        match *self.is_down.lock().unwrap() {
            false => Ok(value),
            true => Err(StoreError {
                kind: StoreErrorKind::Denied,
                target: self.describe(),
                operation,
                path: "keys".to_owned(),
                cause: "down".into(),
                remedy: "wait",
                request_id: None,
            }),
        }
    }
}

#[async_trait]
impl JwksSink for Memory {
    async fn read(&self) -> Result<HeldKeys, StoreError> {
        let held = HeldKeys { keys: self.keys.lock().unwrap().clone(), ..HeldKeys::default() };
        self.answer(held, chancery_publisher::store::Operation::Read)
    }

    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError> {
        *self.writes.lock().unwrap() += 1;
        *self.keys.lock().unwrap() = upload.jwks.keys().to_vec();
        self.answer((), chancery_publisher::store::Operation::Write)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

fn issuer() -> IssuerUrl {
    "https://id.example.com".parse().unwrap()
}

fn key(number: u8) -> PublicKey {
    let mut modulus = [0xa5; 128];
    modulus[1] = number;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

fn ids(numbers: &[u8]) -> Vec<KeyId> {
    numbers.iter().map(|number| key(*number).key_id().clone()).collect()
}

fn publication(numbers: &[u8], withdrawn: &[u8]) -> Option<Arc<Publication>> {
    let jwks = Jwks::new(numbers.iter().copied().map(key)).unwrap();
    let documents = DocumentSet::new(issuer(), jwks, CachePolicy::default());
    let withdrawals = Withdrawals::of(ids(withdrawn), WithdrawalCause::Retired, 1);
    Some(Arc::new(Publication { documents, withdrawals, decision: 1 }))
}

fn uploader(sink: &Arc<Memory>) -> Uploader {
    let config = SinkConfig { name: Some("m".to_owned()), ..SinkConfig::default() };
    let sink: Arc<dyn JwksSink> = Arc::<Memory>::clone(sink);
    let (metrics, conditions) = (Arc::new(Metrics::new("0")), Arc::new(ConditionStore::default()));
    let sink = OpenSink { config: &config, owner: "us".parse().unwrap(), sink };
    Uploader::new(&issuer(), sink, metrics, conditions)
}

#[tokio::test(start_paused = true)]
async fn the_sink_follows_and_the_view_says_what_is_known() {
    let sink = Arc::new(Memory::default());
    let uploader = uploader(&sink);
    let (mut view, metrics) = (uploader.view(), uploader.metrics.clone());
    let (publish, publications) = watch::channel(None);
    let (stop, shutdown) = watch::channel(false);
    let task = tokio::spawn(
        Pace { every: std::time::Duration::from_secs(60), publications, leading: Leading::Always, shutdown }
            .run(uploader),
    );
    view.wait_for(|view| view.name == "m" && view.held.is_empty()).await.unwrap();

    sink.keys.lock().unwrap().push(key(9));
    publish.send_replace(publication(&[1], &[]));
    view.wait_for(|view| view.held == ids(&[1, 9])).await.unwrap();
    publish.send_replace(publication(&[2, 1], &[]));
    view.wait_for(|view| view.held == ids(&[2, 1, 9])).await.unwrap();
    publish.send_replace(publication(&[2], &[1]));
    view.wait_for(|view| view.held == ids(&[2, 9])).await.unwrap();
    assert_eq!(sink.keys.lock().unwrap().as_slice(), [key(2), key(9)]);

    // Somebody takes our key away: the next look, at the latest, brings it back.
    sink.keys.lock().unwrap().clear();
    view.wait_for(|view| view.held == ids(&[2])).await.unwrap();
    *sink.is_down.lock().unwrap() = true;
    view.wait_for(|view| view.held.is_empty()).await.unwrap();
    *sink.is_down.lock().unwrap() = false;
    view.wait_for(|view| view.held == ids(&[2])).await.unwrap();
    let text = metrics.render(Timestamp::now()).unwrap();
    let up = r#"chancery_sink_up_to_date{issuer="https://id.example.com",sink="m"} 1"#;
    assert!(text.contains(up), "{text}");
    assert!(text.contains(r#"sink="m",result="failed"} "#), "{text}");

    stop.send_replace(true);
    task.await.unwrap();
    assert_eq!(*sink.writes.lock().unwrap(), 4);
}

#[cfg(feature = "kube")]
#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_writes_nothing_and_knows_nothing() {
    use chancery_cluster::lease::Term;

    let sink = Arc::new(Memory::default());
    let uploader = uploader(&sink);
    let mut view = uploader.view();
    let (_publish, publications) = watch::channel(publication(&[1], &[]));
    let (elect, term) = watch::channel(Term::default());
    let (_stop, shutdown) = watch::channel(false);
    let pace = Pace {
        every: std::time::Duration::from_secs(60),
        publications,
        leading: Leading::Elected(term),
        shutdown,
    };
    let task = tokio::spawn(pace.run(uploader));
    view.changed().await.unwrap();
    assert!(view.borrow_and_update().held.is_empty() && *sink.writes.lock().unwrap() == 0);

    let until = Some(tokio::time::Instant::now() + std::time::Duration::from_secs(10));
    elect.send_replace(Term { until, transitions: 1 });
    view.wait_for(|view| view.held == ids(&[1])).await.unwrap();
    elect.send_replace(Term::default());
    view.wait_for(|view| view.held.is_empty()).await.unwrap();
    assert_eq!(*sink.writes.lock().unwrap(), 1);
    task.abort();
}
