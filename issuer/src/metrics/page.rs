//! The page that scrapers read.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Metrics;

/// Renders metrics away from the threads that answer requests, once for all scrapers that wait: rendering takes
/// milliseconds for thousands of keys, and any number of scrapers costs one thread.
#[derive(Debug)]
pub struct MetricsPage {
    metrics: Arc<Metrics>,
    last: Mutex<Option<Rendered>>,
}

#[derive(Debug)]
struct Rendered {
    begun: Instant,
    text: bytes::Bytes,
}

impl MetricsPage {
    /// The page of `metrics`.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, last: Mutex::default() }
    }

    /// The metrics as they were at some time after this was called. `None` when they cannot be rendered.
    pub async fn read(&self) -> Option<bytes::Bytes> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(rendered) = last.as_ref().filter(|rendered| rendered.begun >= asked) {
            return Some(rendered.text.clone());
        }
        let (metrics, begun) = (self.metrics.clone(), Instant::now());
        let text = spawn_blocking(move || metrics.render(Timestamp::now())).await.ok()?.ok()?;
        let text = bytes::Bytes::from(text);
        *last = Some(Rendered { begun, text: text.clone() });
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn scrapers_that_wait_together_get_one_rendering_and_none_an_old_one() {
        let page = MetricsPage::new(Arc::new(Metrics::new("1")));
        let first = page.read().await.unwrap();
        let rendering = page.last.lock().await;
        // Both have asked and wait before the page can be rendered.
        let (second, third, ()) = tokio::join!(page.read(), page.read(), async { drop(rendering) });
        let at = |page: &Option<bytes::Bytes>| page.as_ref().unwrap().as_ptr();
        assert_ne!(first.as_ptr(), at(&second), "it was rendered before it was asked for");
        assert_eq!(at(&second), at(&third), "both asked before it was rendered");
    }
}
