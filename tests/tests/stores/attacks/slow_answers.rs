//! Slow answers: a store that gives an answer drop by drop, for longer than anybody should wait for it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chancery_core::DocumentKind;
use chancery_publisher::publish::PublishError;
use chancery_publisher::{DocumentStore, StoreErrorKind};
use e2e::fault_proxy::{Fault, FaultProxy, On};

use super::{Keys, Writer, kinds};

/// A drop every six minutes.
const DROPS: Fault = Fault::Slow(Duration::from_secs(3600));

/// Reads that do not end are given up, and so are writes; what such a write did is known as ours.
pub(super) async fn from_the_store(
    endpoint: &str,
    writes: On,
    open: impl AsyncFn(&str) -> Result<Arc<dyn DocumentStore>>,
) -> Result<()> {
    let (keys, proxy) = (Keys::new()?, FaultProxy::start(endpoint).await?);
    let store = open(proxy.url()).await?;
    let mut writer = Writer::new(store.as_ref());
    writer.observes(&[&keys.old]);
    writer.period().await.context("nothing is slow")?;
    let before = writer.object(DocumentKind::Jwks).await?.bytes;
    writer.observes(&[&keys.old, &keys.new]);

    proxy.fail(On::get("").always(), DROPS);
    given_up(writer.try_period().await.err().context("a read of an hour")?)?;
    proxy.heal();
    assert_eq!(writer.object(DocumentKind::Jwks).await?.bytes, before, "nothing is written unread");

    // A write that is not answered is looked at: it is there, and nobody else wrote it.
    proxy.fail(writes.always(), DROPS);
    writer.period().await.context("a write that is answered in an hour")?;
    proxy.heal();
    let (outcome, drift) = writer.period().await?;
    assert_eq!((kinds(&drift), outcome.intruders), (vec![], vec![]));
    assert_eq!(writer.shown().await?.len(), 2);
    Ok(())
}

fn given_up(error: PublishError) -> Result<()> {
    let timed_out = matches!(&error, PublishError::Store(error) if error.kind == StoreErrorKind::TimedOut);
    ensure!(timed_out, "{error:?}");
    Ok(())
}
