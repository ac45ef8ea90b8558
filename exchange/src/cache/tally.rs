//! What became of the requests of one object.

use prometheus_client::metrics::counter::Counter;

/// Counts for one object. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// A credential was there.
    pub hits: Counter,
    /// One had to be waited for.
    pub misses: Counter,
    /// One was handed out although renewing it had failed.
    pub stale: Counter,
}
