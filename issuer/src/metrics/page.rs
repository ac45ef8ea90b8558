//! The page that scrapers read.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Metrics;

/// Renders metrics away from the threads that answer requests, once for all scrapers that wait: rendering takes
/// milliseconds for thousands of keys, and any number of scrapers costs one thread, also when they leave without waiting
/// for their answer.
#[derive(Debug)]
pub struct MetricsPage {
    metrics: Arc<Metrics>,
    last: Arc<Mutex<Option<Rendered>>>,
}

#[derive(Debug)]
struct Rendered {
    begun: Instant,
    text: Bytes,
}

impl MetricsPage {
    /// The page of `metrics`.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, last: Arc::default() }
    }

    /// The metrics as they were at some time after this was called. `None` when they cannot be rendered.
    pub async fn read(&self) -> Option<Bytes> {
        let asked = Instant::now();
        let mut last = self.last.clone().lock_owned().await;
        if let Some(rendered) = last.as_ref().filter(|rendered| rendered.begun >= asked) {
            return Some(rendered.text.clone());
        }
        let metrics = self.metrics.clone();
        // The rendering keeps the lock itself: a scraper that leaves does not end it, and the next must not begin another.
        let rendering = spawn_blocking(move || {
            let begun = Instant::now();
            let text = Bytes::from(metrics.render(Timestamp::now()).ok()?);
            *last = Some(Rendered { begun, text: text.clone() });
            Some(text)
        });
        rendering.await.ok()?
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn scrapers_that_wait_together_get_one_rendering_and_none_an_old_one() {
        let page = MetricsPage::new(Arc::new(Metrics::new("1")));
        let first = page.read().await.unwrap();
        let rendering = page.last.lock().await;
        // Both have asked and wait before the page can be rendered.
        let (second, third, ()) = tokio::join!(page.read(), page.read(), async { drop(rendering) });
        let at = |page: &Option<Bytes>| page.as_ref().unwrap().as_ptr();
        assert_ne!(first.as_ptr(), at(&second), "it was rendered before it was asked for");
        assert_eq!(at(&second), at(&third), "both asked before it was rendered");
    }

    /// The keys are locked, so that a rendering that has begun does not end: no thread that answers waits for it, and
    /// scrapers that come and leave begin no second one.
    #[tokio::test]
    async fn scrapers_that_leave_do_not_begin_a_second_rendering() {
        let page = MetricsPage::new(Arc::new(Metrics::new("1")));
        let keys = page.metrics.first_seen.lock().unwrap();
        for _ in 0..20 {
            // Polled once, and dropped as the server drops it when its client closes the connection.
            assert!(page.read().now_or_never().is_none(), "a thread that answers requests has rendered");
        }
        assert_eq!(Arc::strong_count(&page.metrics), 2, "the page, and one rendering");
        drop(keys);
        assert!(page.read().await.unwrap().ends_with(b"# EOF\n"));
        assert!(page.last.lock().await.is_some());
    }
}
