//! Those of the metrics that a person is shown as well.

use chancery_core::IssuerUrl;
use jiff::Timestamp;

use super::Metrics;
use super::labels::{CertificateLabels, IssuerLabels, TargetLabels};

impl Metrics {
    /// Whether this replica publishes.
    pub fn is_leader(&self) -> bool {
        self.leader.get() == 1
    }

    /// When a target was last written or found up to date.
    pub fn last_publish(&self, target: &TargetLabels) -> Option<Timestamp> {
        Timestamp::from_second(self.last_publish.get(target)?.get()).ok()
    }

    /// When an anonymous read of the public URL was last completed.
    pub fn last_verify(&self, issuer: &IssuerUrl) -> Option<Timestamp> {
        let labels = IssuerLabels { issuer: issuer.to_string() };
        Timestamp::from_second(self.last_verify.get(&labels)?.get()).ok()
    }

    /// When the serving certificate of a file, which is in use, expires.
    pub fn certificate_expiry(&self, certificate: &str) -> Option<Timestamp> {
        let labels = CertificateLabels { certificate: certificate.to_owned() };
        Timestamp::from_second(self.certificate_expiry.get(&labels)?.get()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{PublishResult, SinkLabels, SourceLabels};

    #[test]
    fn what_was_counted_is_read_back_and_what_never_happened_is_nothing() {
        let (metrics, issuer) = (Metrics::new("0"), "https://id.example.com".parse().unwrap());
        let second = |second| Timestamp::from_second(second).unwrap();
        let target = TargetLabels::new(&issuer, "bucket");
        let (sink, source) = (SinkLabels::new(&issuer, "vault"), SourceLabels::new(&issuer, "files"));
        let read = || {
            let path = metrics.certificate_expiry("/tls.crt");
            let (uploaded, read) =
                (metrics.sinks().last_upload(&sink), metrics.sources().last_success(&source));
            [metrics.last_publish(&target), metrics.last_verify(&issuer), path, uploaded, read]
        };
        assert_eq!((read(), metrics.is_leader()), ([None; 5], false));
        metrics.leads(true);
        metrics.published(&target, PublishResult::Written, second(1));
        metrics.published(&target, PublishResult::Failed, second(9));
        metrics.verified(&issuer, [], second(2));
        metrics.certificate_expires("/tls.crt", second(3));
        metrics.sinks().uploaded(&sink, PublishResult::Unchanged, second(4));
        metrics.sources().read(&source, second(5));
        assert_eq!((read(), metrics.is_leader()), ([1, 2, 3, 4, 5].map(|at| Some(second(at))), true));
    }
}
