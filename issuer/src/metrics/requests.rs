//! Counters of answers, each found without a lock or a hash.

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::labels::CodeLabels;

/// Answers of the public server by status code. Clones count together.
#[derive(Clone, Debug)]
pub struct RequestCounters {
    family: Family<CodeLabels, Counter>,
    ok: Counter,
    not_modified: Counter,
}

impl RequestCounters {
    /// One more answer with this status.
    pub fn answered(&self, status: StatusCode) {
        match status {
            StatusCode::OK => self.ok.inc(),
            StatusCode::NOT_MODIFIED => self.not_modified.inc(),
            _ => self.family.get_or_create(&CodeLabels { code: status.as_u16() }).inc(),
        };
    }

    pub(super) fn family(&self) -> Family<CodeLabels, Counter> {
        self.family.clone()
    }
}

impl Default for RequestCounters {
    fn default() -> Self {
        let family = Family::<CodeLabels, Counter>::default();
        let counter = |status: StatusCode| family.get_or_create_owned(&CodeLabels { code: status.as_u16() });
        let (ok, not_modified) = (counter(StatusCode::OK), counter(StatusCode::NOT_MODIFIED));
        Self { family, ok, not_modified }
    }
}
