//! Leader election by a Lease.

use std::time::Duration;

use anyhow::{Context, Result};
use chancery_cluster::lease::{Elector, LeaseConfig, Term, Timing};
use e2e::binary;
use e2e::kube_apiserver::KubeApiserver;
use e2e::wait::SOON;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::bench::{Bench, NAMESPACE};

const LEASE: &str = "chancery-issuer";

/// A candidate that runs.
struct Candidate {
    leadership: watch::Receiver<Term>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Waits that no test outlasts: a hand-over that happens was not caused by the lease running out.
fn long() -> Result<Timing> {
    Ok(Timing::new(SOON * 4, SOON * 2, Duration::from_millis(200))?)
}

/// Short enough to be waited for; a busy machine does not miss it by chance.
fn short() -> Result<Timing> {
    Ok(Timing::new(Duration::from_secs(8), Duration::from_secs(6), Duration::from_millis(200))?)
}

impl Candidate {
    fn start(client: &Client, identity: &str, timing: Timing) -> Result<Self> {
        let config = LeaseConfig {
            namespace: NAMESPACE.to_owned(),
            name: LEASE.to_owned(),
            identity: identity.to_owned(),
            timing,
        };
        let (elector, leadership) = Elector::new(client.clone(), config)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async {
            let _ = stopped.await;
        }));
        Ok(Self { leadership, stop, task })
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().is_leader()
    }

    async fn told(&mut self, leading: bool) -> Result<Term> {
        let told = self.leadership.wait_for(|leadership| leadership.until.is_some() == leading);
        Ok(*timeout(SOON, told).await.context("nothing was told")??)
    }
}

async fn record(bench: &Bench) -> Result<LeaseSpec> {
    bench.objects::<Lease>().get(LEASE).await?.spec.context("a Lease without a spec")
}

#[tokio::test]
async fn a_leader_that_ends_hands_over_at_once() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let mut first = Candidate::start(&bench.client, "first", long()?)?;
    assert_eq!(first.told(true).await?.transitions, 0);
    let mut second = Candidate::start(&bench.client, "second", long()?)?;
    e2e::wait::until("the first to renew", async || {
        let record = record(&bench).await?;
        assert_eq!(record.holder_identity.as_deref(), Some("first"));
        Ok(record.renew_time > record.acquire_time)
    })
    .await?;
    assert!(first.leads() && !second.leads());

    let _ = first.stop.send(());
    first.task.await?;
    assert!(!first.leadership.borrow().is_leader());
    assert_eq!(second.told(true).await?.transitions, 1);
    let record = record(&bench).await?;
    assert_eq!((record.holder_identity.as_deref(), record.lease_transitions), (Some("second"), Some(1)));
    Ok(())
}

#[tokio::test]
async fn a_leader_that_dies_is_succeeded_when_its_lease_has_run_out() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let mut first = Candidate::start(&bench.client, "first", short()?)?;
    first.told(true).await?;
    let mut second = Candidate::start(&bench.client, "second", short()?)?;
    // Dies without a word: its last word in the channel runs out by itself.
    first.task.abort();
    let _ = first.task.await;
    assert!(first.leadership.borrow().until.is_some());
    let term = second.told(true).await?;
    assert!(!first.leadership.borrow().is_leader(), "two lead");
    assert_eq!(term.transitions, 1);
    Ok(())
}

#[tokio::test]
async fn a_leader_without_an_api_server_stops_leading() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut bench = Bench::start().await?;
    let mut leader = Candidate::start(&bench.client, "leader", short()?)?;
    let first = leader.told(true).await?;
    bench.server.process().kill()?;
    assert!(!leader.told(false).await?.is_leader());

    // Nobody else has held the Lease meanwhile, so the term goes on.
    let port = bench.server.url().rsplit(':').next().context("a port")?.parse()?;
    bench.server = KubeApiserver::start_on(port, &bench.cluster).await?;
    assert_eq!(leader.told(true).await?.transitions, first.transitions);
    Ok(())
}
