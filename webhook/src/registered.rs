//! What the registration that stands in the cluster says of us: whether kube-apiserver would believe the certificate that
//! we show. If it would not, it asks in vain, and pods are let in without credentials or kept out.
//!
//! kube-apiserver holds the chain against `caBundle` alone, for the name of the Service or the host of the URL
//! (`staging/src/k8s.io/apiserver/pkg/util/webhook`); what it takes for the end of a chain must not have expired either.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::access::explain;
use chancery_cluster::backoff::Backoff;
use chancery_cluster::listener::Certificates;
use chancery_cluster::listener::certificate::validity;
use chancery_core::quoted::{one_line, quoted};
use futures_util::StreamExt as _;
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig};
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::metrics::Metrics;

/// How often the certificate is held against what was read, since either may expire and the certificate may be replaced.
const AGAIN: Duration = Duration::from_secs(5);

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The longest answer of an API server that is repeated, in characters.
const LONGEST_PROBLEM: usize = 300;

/// How our registration stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registered {
    /// Nobody has looked yet.
    #[default]
    Unseen,
    /// It is not looked at.
    Ignored,
    /// It cannot be read, and why. Nothing is concluded from that.
    Unreadable(String),
    /// There is none: kube-apiserver asks nobody yet.
    Missing,
    /// kube-apiserver believes the certificate that we show.
    Good,
    /// It does not, and why.
    Wrong(String),
}

impl Registered {
    /// The state in a word, as the metrics have it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Ignored => "ignored",
            Self::Unreadable(_) => "unreadable",
            Self::Missing => "missing",
            Self::Good => "good",
            Self::Wrong(_) => "wrong",
        }
    }

    /// Whether it stands in the way of being asked, in words.
    pub fn in_the_way(&self) -> Option<String> {
        match self {
            Self::Unseen => Some("our registration was not looked at yet".to_owned()),
            Self::Wrong(problem) => {
                Some(format!("kube-apiserver would not believe our certificate: {problem}"))
            }
            Self::Ignored | Self::Unreadable(_) | Self::Missing | Self::Good => None,
        }
    }
}

/// What is wrong in a registration for whoever shows this chain at `now`; without a chain, what is wrong for everybody.
pub fn problems(
    object: &MutatingWebhookConfiguration,
    chain: Option<&[CertificateDer<'_>]>,
    now: Timestamp,
) -> Vec<String> {
    let entries = object.webhooks.iter().flatten();
    let problem = |name: &str, client: &WebhookClientConfig| {
        let problem = problem(client, chain, now)?;
        Some(format!("the caBundle of {} {problem}", quoted(name)))
    };
    entries.filter_map(|entry| problem(&entry.name, &entry.client_config)).collect()
}

fn problem(
    client: &WebhookClientConfig,
    chain: Option<&[CertificateDer<'_>]>,
    now: Timestamp,
) -> Option<String> {
    let bundle = client.ca_bundle.as_ref().map(|bytes| bytes.0.as_slice()).unwrap_or_default();
    if bundle.is_empty() {
        let ours = "is empty; expected the certificate of who has signed that of the webhook";
        // Of an address the authorities of kube-apiserver's machine may know.
        return client.service.is_some().then(|| ours.to_owned());
    }
    let Ok(ends) = CertificateDer::pem_slice_iter(bundle).collect::<Result<Vec<_>, _>>() else {
        return Some("is not PEM".to_owned());
    };
    if ends.is_empty() {
        return Some("holds no CERTIFICATE block".to_owned());
    }
    let is_valid =
        |end: &&CertificateDer<'_>| validity(end).is_ok_and(|(from, until)| (from..=until).contains(&now));
    let valid: Vec<_> = ends.iter().filter(is_valid).collect();
    if valid.is_empty() {
        return Some("holds no certificate that is valid now".to_owned());
    }
    let host = host(client)?;
    let (leaf, between) = chain?.split_first()?;
    let Ok(name) = ServerName::try_from(host.clone()) else {
        return Some(format!("is for {host:?}, no host"));
    };
    let refused = if valid.contains(&leaf) {
        // Go, unlike webpki, takes a server's certificate for the end of its own chain.
        ParsedCertificate::try_from(leaf).and_then(|leaf| verify_server_name(&leaf, &name)).err()
    } else {
        verify((leaf, between), (&valid, &name), now).err()
    };
    let refused = refused?;
    Some(format!(
        "does not lead to our certificate for {host} ({refused}); register again with the right --ca"
    ))
}

fn verify(
    (leaf, between): (&CertificateDer<'_>, &[CertificateDer<'_>]),
    (ends, name): (&[&CertificateDer<'_>], &ServerName<'_>),
    now: Timestamp,
) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(ends.iter().map(|end| (*end).clone()));
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider())).build();
    let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
    let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    verifier.verify_server_cert(leaf, between, name, &[], UnixTime::since_unix_epoch(now)).map(|_verified| ())
}

/// The name for which kube-apiserver expects the certificate.
pub(crate) fn host(client: &WebhookClientConfig) -> Option<String> {
    if let Some(service) = &client.service {
        return Some(format!("{}.{}.svc", service.name, service.namespace));
    }
    let uri: Uri = client.url.as_deref()?.parse().ok()?;
    Some(uri.host()?.trim_matches(['[', ']']).to_owned())
}

/// Follows the registration called `name` for as long as it is polled, and says through `told` how it stands.
pub async fn follow(
    (watching, name): (Client, String),
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    told: watch::Sender<Registered>,
) {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let mut seen = Err("no answer yet".to_owned());
    let mut events = pin!(watch_object(Api::<MutatingWebhookConfiguration>::all(watching), &name));
    loop {
        match timeout(AGAIN, events.next()).await {
            Ok(Some(Ok(object))) => {
                backoff.reset();
                seen = Ok(object);
            }
            Ok(Some(Err(error))) => {
                // What was seen before is still used.
                seen = seen.map_err(|_| reason(&error));
                stand(&seen, (&certificates, &name), (&metrics, &told));
                sleep(backoff.next_pause()).await;
            }
            Ok(None) => return,
            Err(_) => {}
        }
        stand(&seen, (&certificates, &name), (&metrics, &told));
    }
}

fn reason(error: &watcher::Error) -> String {
    let text = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => explain(error),
        error => chancery_cluster::error_chain(error),
    };
    one_line(&text, LONGEST_PROBLEM)
}

fn stand(
    seen: &Result<Option<MutatingWebhookConfiguration>, String>,
    (certificates, name): (&Certificates, &str),
    (metrics, told): (&Metrics, &watch::Sender<Registered>),
) {
    let now = match seen {
        Err(why) => Registered::Unreadable(why.clone()),
        Ok(None) => Registered::Missing,
        Ok(Some(object)) => {
            let problems = problems(object, Some(&certificates.chain()), Timestamp::now());
            if problems.is_empty() { Registered::Good } else { Registered::Wrong(problems.join("; ")) }
        }
    };
    if *told.borrow() == now {
        return;
    }
    match &now {
        Registered::Wrong(problem) => {
            warn!(registration = name, "kube-apiserver would not believe our certificate: {problem}");
        }
        Registered::Unreadable(why) => {
            info!(
                registration = name,
                "our registration cannot be read, so nobody looks at its caBundle: {why}"
            );
        }
        Registered::Missing => info!(registration = name, "kube-apiserver is not told to ask us yet"),
        _ => info!(registration = name, "kube-apiserver believes our certificate"),
    }
    metrics.registered(now.as_str());
    told.send_replace(now);
}

/// What is wrong in the registration called `name` for everybody; `None` where it may not be read.
pub async fn look(client: Client, name: &str) -> Option<Vec<String>> {
    match Api::<MutatingWebhookConfiguration>::all(client).get_opt(name).await.ok()? {
        Some(object) => Some(problems(&object, None, Timestamp::now())),
        None => Some(vec![format!(
            "there is no MutatingWebhookConfiguration {name}, so no pod is looked at; `chancery webhook registration` prints one"
        )]),
    }
}
