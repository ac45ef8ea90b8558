//! The serving certificate where nobody else makes one: an authority in a Secret that all replicas share, a certificate of
//! it in the memory of each, and the `caBundle` of the registration.
//!
//! Rules:
//!
//! 1. The Secret is created or replaced only on the condition that it is what was read, so that replicas which start
//!    together agree on one authority. What is no authority is replaced; one that was deleted is written again as it was.
//! 2. At two thirds of the life of the newest authority another is made. Both stand in the `caBundle` until the old one has
//!    expired. The new one signs once it has stood there for [`SETTLING`]: every kube-apiserver knows it by then.
//! 3. The `caBundle` is written by server-side apply, that field alone, on the condition that the registration is what was
//!    read before the Secret was: a replica that was slow never puts an older list in the place of a newer one.
//! 4. A serving certificate is for the hosts by which the registration asks. It is made anew at two thirds of its life, when
//!    the hosts change, and when its authority is gone from the Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::access::explain;
use chancery_cluster::last_said::LastSaid;
use chancery_cluster::listener::{CertificateObserver, Certificates, Reload};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::authority::{self, Authority, AuthorityError, LEAF_LIFE, SKEW};
use crate::metrics::Metrics;
use crate::registered::{Registered, host};

/// How long a new authority stands in the `caBundle` before it signs.
pub const SETTLING: SignedDuration = SignedDuration::from_mins(10);

/// How often the Secret and the registration are looked at.
const AGAIN: Duration = Duration::from_secs(3);

/// Before it is read again what somebody else has written.
const PAUSE: Duration = Duration::from_millis(100);

/// The entries of the Secret: everything, and for persons the certificates alone.
const ENTRIES: [&str; 2] = ["authorities.pem", "ca.crt"];

/// Whose field the `caBundle` is.
const MANAGER: &str = "chancery-webhook-certificate";

/// Where it is kept, and how the webhook is called.
#[derive(Clone, Debug)]
pub struct Place {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The Secret.
    pub secret: String,
    /// The MutatingWebhookConfiguration.
    pub registration: String,
    /// The host that is served as long as no registration says another.
    pub host: String,
}

/// Keeps the certificate.
pub struct OwnCertificate {
    place: Place,
    secrets: Api<Secret>,
    registrations: Api<MutatingWebhookConfiguration>,
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    /// What the Secret held last.
    held: Vec<Authority>,
    leaf: Option<Leaf>,
}

/// What the certificate in use was made of.
struct Leaf {
    authority: CertificateDer<'static>,
    hosts: Vec<String>,
    until: Timestamp,
}

/// Why a look came to nothing.
enum Fault {
    /// Somebody else was faster.
    Lost,
    /// It could not be done, and why.
    Refused(String),
}

impl From<AuthorityError> for Fault {
    fn from(error: AuthorityError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Two thirds of a life, less what it was dated back.
fn due((from, until): (Timestamp, Timestamp)) -> Timestamp {
    let life = until.duration_since(from + SKEW);
    from + SKEW + life * 2 / 3
}

/// Takes out what has expired, and says whether another is to be made.
pub fn needs_another(authorities: &mut Vec<Authority>, now: Timestamp) -> bool {
    authorities.retain(|authority| authority.validity().1 > now);
    authorities.last().is_none_or(|newest| due(newest.validity()) <= now)
}

/// Who signs: the newest that has stood in the `caBundle` for long enough, and else the oldest, which stands there longest.
pub fn signing(authorities: &[Authority], now: Timestamp) -> Option<&Authority> {
    let is_settled = |authority: &&Authority| authority.validity().0 + SKEW + SETTLING <= now;
    authorities.iter().rev().find(is_settled).or(authorities.first())
}

impl OwnCertificate {
    /// A certificate that nobody believes yet stands in `certificates` until the first look.
    pub fn new(client: Client, place: Place, certificates: Arc<Certificates>, metrics: Arc<Metrics>) -> Self {
        let secrets = Api::namespaced(client.clone(), &place.namespace);
        let registrations = Api::all(client);
        Self { place, secrets, registrations, certificates, metrics, held: Vec::new(), leaf: None }
    }

    /// Keeps it for as long as it is polled. `registered` wakes it when the registration has changed; `kept` turns true once
    /// the authority of the certificate in use is one of the Secret.
    pub async fn keep(mut self, mut registered: watch::Receiver<Registered>, kept: watch::Sender<bool>) {
        let mut problem = LastSaid::default();
        loop {
            match self.look(Timestamp::now()).await {
                Ok(()) => {
                    kept.send_replace(true);
                    problem.forget();
                }
                Err(Fault::Lost) => {
                    sleep(PAUSE).await;
                    continue;
                }
                Err(Fault::Refused(why)) if problem.is_new(&why) => {
                    warn!("the webhook's own certificate cannot be kept, and the one in use stays: {why}");
                }
                Err(Fault::Refused(_)) => {}
            }
            if let Ok(Err(_)) = timeout(AGAIN, registered.changed()).await {
                // Nobody looks at the registration any more, so nobody wakes us.
                sleep(AGAIN).await;
            }
        }
    }

    async fn look(&mut self, now: Timestamp) -> Result<(), Fault> {
        let registration = self.registrations.get_opt(&self.place.registration);
        let registration = within(registration, "the registration").await?;
        self.share(now).await?;
        if let Some(registration) = &registration {
            self.register(registration).await?;
        }
        self.renew(registration.as_ref(), now)
    }

    /// Has the Secret hold what it should at `now`.
    async fn share(&mut self, now: Timestamp) -> Result<(), Fault> {
        let secret = within(self.secrets.get_opt(&self.place.secret), "the Secret").await?;
        let text = secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(ENTRIES[0]));
        let mut is_changed = true;
        match text.map(|text| authority::read(&text.0)) {
            Some(Ok(read)) => {
                let number = read.len();
                self.held = read;
                is_changed = needs_another(&mut self.held, now);
                is_changed |= self.held.len() != number;
            }
            Some(Err(problem)) => {
                let secret = &self.place.secret;
                warn!(secret, "the Secret holds no authority of ours, so it is replaced: {problem}");
            }
            None => {}
        }
        if !is_changed {
            return Ok(());
        }
        if needs_another(&mut self.held, now) {
            self.held.push(Authority::new(now)?);
            info!(secret = self.place.secret, "a new authority of the webhook's certificates");
        }
        let version = secret.and_then(|secret| secret.metadata.resource_version);
        self.write(version).await
    }

    async fn write(&self, version: Option<String>) -> Result<(), Fault> {
        let name = &self.place.secret;
        let texts = [authority::written(&self.held)?, authority::bundle(&self.held)?];
        let entries = ENTRIES.map(str::to_owned).into_iter().zip(texts);
        let object = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([("app.kubernetes.io/managed-by".to_owned(), "chancery".to_owned())].into()),
                resource_version: version.clone(),
                ..ObjectMeta::default()
            },
            data: Some(
                entries.map(|(key, text)| (key, ByteString(text.into_bytes()))).collect::<BTreeMap<_, _>>(),
            ),
            ..Secret::default()
        };
        let params = PostParams::default();
        match version {
            Some(_) => within(self.secrets.replace(name, &params, &object), "the Secret").await.map(drop),
            None => within(self.secrets.create(&params, &object), "the Secret").await.map(drop),
        }
    }

    /// Has every entry's `caBundle` name our authorities.
    async fn register(&self, registration: &MutatingWebhookConfiguration) -> Result<(), Fault> {
        let bundle = ByteString(authority::bundle(&self.held)?.into_bytes());
        let mut entries = registration.webhooks.iter().flatten();
        if entries.all(|entry| entry.client_config.ca_bundle.as_ref() == Some(&bundle)) {
            return Ok(());
        }
        let entries = registration.webhooks.iter().flatten();
        let entries = entries
            .map(|entry| json!({ "name": entry.name, "clientConfig": { "caBundle": bundle } }))
            .collect::<Vec<_>>();
        let (name, version) = (&self.place.registration, &registration.metadata.resource_version);
        let patch = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": name, "resourceVersion": version },
            "webhooks": entries,
        });
        let params = PatchParams::apply(MANAGER).force();
        within(self.registrations.patch(name, &params, &Patch::Apply(&patch)), "the registration").await?;
        info!(registration = name, authorities = self.held.len(), "wrote the caBundle");
        Ok(())
    }

    /// Makes the serving certificate anew if it is time.
    fn renew(
        &mut self,
        registration: Option<&MutatingWebhookConfiguration>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let entries = registration.and_then(|object| object.webhooks.as_ref()).into_iter().flatten();
        let mut hosts: BTreeSet<String> = entries.filter_map(|entry| host(&entry.client_config)).collect();
        if hosts.is_empty() {
            hosts.insert(self.place.host.clone());
        }
        let hosts: Vec<String> = hosts.into_iter().collect();
        let is_good = |leaf: &Leaf| {
            leaf.until > now
                && leaf.hosts == hosts
                && self.held.iter().any(|authority| *authority.certificate() == leaf.authority)
        };
        if self.leaf.as_ref().is_some_and(is_good) {
            return Ok(());
        }
        let Some(authority) = signing(&self.held, now) else { return Err(Fault::Lost) };
        self.certificates.replace(authority.issue(&hosts, now)?);
        self.leaf =
            Some(Leaf { authority: authority.certificate().clone(), until: now + LEAF_LIFE * 2 / 3, hosts });
        let standing = self.certificates.standing(now);
        CertificateObserver::looked(self.metrics.as_ref(), Path::new(""), &Reload::Replaced, &standing);
        info!(expires = %standing.not_after, "made a serving certificate");
        Ok(())
    }
}

/// The answer to a call of the API server.
async fn within<T>(call: impl Future<Output = kube::Result<T>>, what: &str) -> Result<T, Fault> {
    const LONGEST: Duration = Duration::from_secs(10);
    match timeout(LONGEST, call).await {
        Ok(Ok(answer)) => Ok(answer),
        // 409: it was changed, or is there already. 404: it was deleted meanwhile.
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Fault::Lost),
        Ok(Err(error)) => Err(Fault::Refused(format!("{what}: {}", explain(&error)))),
        Err(_) => Err(Fault::Refused(format!("{what}: no answer within {} s", LONGEST.as_secs()))),
    }
}
