//! The one way in which the suites wait: ask again until the answer is there, or a deadline has passed.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Twenty times what the slowest step takes on two busy cores: only a test that fails waits for it.
pub const SOON: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(20);

/// Asks `probe` until it is true. `what` completes the sentence "waited for …".
pub async fn until(what: &str, mut probe: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    value(what, async || Ok(probe().await?.then_some(()))).await
}

/// Asks `probe` until it returns something, and returns that. An error of the probe counts as "not yet": what is
/// waited for may not even listen. The last one is told when [`SOON`] has passed.
pub async fn value<T>(what: &str, probe: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    value_within(SOON, what, probe).await
}

/// The same for what takes many steps, such as servers that start one after another.
pub async fn value_within<T>(
    deadline: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        let last = match probe().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => "it was not so yet".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if started.elapsed() > deadline {
            bail!("waited {deadline:?} in vain for {what}; at last: {last}");
        }
        tokio::time::sleep(POLL).await;
    }
}
