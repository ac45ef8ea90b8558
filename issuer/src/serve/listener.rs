//! The public listener: the documents, answered to whoever connects.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chancery_cluster::listener::{
    CertificateObserver, CertificateStanding, Connections, ListenError, Listener, ListenerConfig, Reload,
};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::sync::watch;

use super::answer::answer;
use super::host::{ExtraHost, host_alone};
use super::{Documents, ServeConfig};
use crate::conditions::{ConditionStore, ConditionType, Subject, Verdict};
use crate::metrics::{CertificateReload, Metrics, RequestCounters};

/// What the servers of a process have in common.
#[derive(Clone)]
pub struct ServerParts {
    /// What is answered.
    pub documents: Documents,
    /// Where answers and certificates are counted.
    pub metrics: Arc<Metrics>,
    /// Where it is said what is wrong with a certificate.
    pub conditions: Arc<ConditionStore>,
    /// One budget for all listeners, the operators' port included.
    pub connections: Connections,
}

/// A bound listener that does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    answers: Answers,
}

impl Server {
    /// Reads the certificate, if there is one, and takes the address.
    ///
    /// # Errors
    /// Says which address or which file cannot be used.
    pub async fn bind(config: &ServeConfig, parts: &ServerParts) -> Result<Self, ListenError> {
        let ServerParts { documents, metrics, conditions, connections } = parts;
        let issuers = documents.issuers();
        let issuers = issuers.iter().map(|issuer| host_alone(issuer.authority()));
        let extra = config.extra_hosts.iter().map(|host| host_alone(ExtraHost::as_str(host)));
        let hosts = issuers.chain(extra).collect();
        let listener = ListenerConfig { address: config.listen, tls: config.tls.clone(), hosts };
        let counters = metrics.requests().clone();
        let observer = CertificateReporter { metrics: metrics.clone(), conditions: conditions.clone() };
        let listener = Listener::bind(&listener, connections, Arc::new(observer)).await?;
        Ok(Self { listener, answers: Answers { documents: documents.clone(), counters } })
    }

    /// The address that was taken, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Answers until `shutdown` turns true or its sender is gone, and ends in order.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        self.listener.run(self.answers, shutdown).await;
    }
}

/// Counts what becomes of a certificate, and says how it stands.
struct CertificateReporter {
    metrics: Arc<Metrics>,
    conditions: Arc<ConditionStore>,
}

impl CertificateObserver for CertificateReporter {
    fn looked(&self, certificate: &Path, reload: &Reload, standing: &CertificateStanding) {
        match reload {
            Reload::Unchanged => {}
            Reload::Replaced => self.metrics.certificate_reloaded(CertificateReload::Replaced),
            Reload::Refused(_) => self.metrics.certificate_reloaded(CertificateReload::Refused),
        }
        let path = certificate.display().to_string();
        self.metrics.certificate_expires(&path, standing.not_after);
        self.conditions.set(&Subject::certificate(&path), &verdict(standing));
    }
}

/// What is to be said of a certificate: first what its clients notice.
fn verdict(standing: &CertificateStanding) -> Verdict {
    let condition = ConditionType::Acceptable;
    match (&standing.problem, &standing.refused) {
        (Some(problem), None) => {
            Verdict::bad(condition, "Unacceptable", format!("the certificate in use {problem}"))
        }
        (Some(problem), Some(refused)) => {
            let message =
                format!("the certificate in use {problem}, and its files hold no better one: {refused}");
            Verdict::bad(condition, "Unacceptable", message)
        }
        (None, Some(refused)) => {
            let message = format!("what its files hold now is not taken: {refused}");
            Verdict::bad(condition, "ReplacementRefused", message)
        }
        (None, None) => Verdict::good(condition, "InUse", "clients take the certificate in use"),
    }
}

/// Answers from the table of the moment, without waiting for anything.
#[derive(Clone, Debug)]
struct Answers {
    documents: Documents,
    counters: RequestCounters,
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let response = answer(&self.documents.table(), &request);
        self.counters.answered(response.status());
        ready(Ok(response))
    }
}
