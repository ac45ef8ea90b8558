//! A part of the service that breaks while it leads: the others are drained, and the Lease is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use chancery_issuer::config::Config;
use chancery_issuer::service::Service;
use chancery_publisher::writer_key_file::random_writer_key;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::{binary, wait};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::bench::{Bench, NAMESPACE};

const LEASE: &str = "chancery-issuer";

/// Panics in whoever logs next of those that publish, once it is told to: a real part of the service ends as a defect in it
/// would end it.
#[derive(Clone, Default)]
struct BrokenPublisher {
    broken: Arc<AtomicBool>,
}

impl Subscriber for BrokenPublisher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("chancery_issuer::reconcile")
    }

    fn event(&self, _: &Event<'_>) {
        assert!(!self.broken.swap(false, Ordering::SeqCst), "a defect in what publishes");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_part_that_breaks_is_named_and_the_lease_is_given_back() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let publisher = BrokenPublisher::default();
    let _logging = tracing::subscriber::set_default(publisher.clone());
    let (bench, watched, target) = (Bench::start().await?, Scratch::new("watched")?, Scratch::new("target")?);
    bench.key.put_public_half_into(watched.path())?;
    let mut site = Site::named("localhost")?;
    site.add_issuer_of_files("/cluster-a", &[watched.path()], json!([directory_target(target.path())]))?;
    // Longer than the test waits for anything: a Lease that is free was given back.
    let election = json!({
        "enabled": true, "namespace": NAMESPACE, "name": LEASE, "identity": "a",
        "kubeconfig": bench.dir.join("kubeconfig"),
        "leaseDuration": "300s", "renewDeadline": "200s", "retryPeriod": "1s",
    });
    let state = json!({
        "configMap": { "namespace": NAMESPACE, "name": "state", "kubeconfig": bench.dir.join("kubeconfig") },
    });
    let writer_key = bench.dir.write("writer-key", format!("{}\n", random_writer_key().to_secret_text()))?;
    let config = site.config.as_object_mut().context("no object")?;
    config.extend([
        ("leaderElection".to_owned(), election),
        ("state".to_owned(), state),
        ("writerKeyFile".to_owned(), json!(writer_key)),
    ]);
    let path = site.write_config()?;
    let service = Service::open(Config::read(&path)?, &path).await?;
    let running = tokio::spawn(service.run(std::future::pending()));
    let jwks = target.join("openid/v1/jwks");
    wait::until("the first publication", async || Ok(jwks.is_file())).await?;
    let holder = async || -> Result<Option<String>> {
        Ok(bench.objects::<Lease>().get(LEASE).await?.spec.and_then(|spec| spec.holder_identity))
    };
    assert!(holder().await?.is_some_and(|holder| holder.starts_with('a')), "{:?}", holder().await?);

    publisher.broken.store(true, Ordering::SeqCst);
    KeyFile::p256(&bench.dir, "second")?.put_public_half_into(watched.path())?;
    let ended = running.await?.expect_err("it goes on without what publishes").to_string();
    assert!(ended.contains("the writer to target directory"), "{ended}");
    assert!(ended.contains(&site.url("/cluster-a")), "{ended}");
    assert_eq!(holder().await?.unwrap_or_default(), "", "another replica may lead at once");
    Ok(())
}
