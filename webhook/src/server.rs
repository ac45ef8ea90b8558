//! Answers kube-apiserver: `/mutate` over TLS, and the operators' port.
//!
//! | path of the operators' port | answer |
//! |---|---|
//! | `/livez` | 200 as long as requests are answered at all |
//! | `/readyz` | 200 once every ServiceAccount was listed and a certificate of our own is kept, unless kube-apiserver would not believe it; until the signal to stop |
//! | `/metrics` | every metric of [`crate::metrics`] |

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_cluster::access::{AccessError, ClusterChoice, client, watching_client};
use chancery_cluster::listener::{Certificates, Connections, ListenError, Listener, ListenerConfig};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::accounts::Accounts;
use crate::admission::{self, Question};
use crate::authority::{Authority, AuthorityError};
use crate::config::Config;
use crate::decision::decide;
use crate::metrics::{MEDIA_TYPE, Metrics, Outcome};
use crate::own_certificate::{OwnCertificate, Place};
use crate::pod::Pod;
use crate::registered::{self, Registered};
use crate::settings::Settings;

/// The largest request, in bytes: etcd takes objects of 1.5 MiB, and one may be in a request twice.
const LARGEST: usize = 8 << 20;

/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(10);

/// A webhook that has its addresses and does not answer yet.
pub struct Webhook {
    listener: Listener,
    admin: Option<Listener>,
    answers: Answers,
    watching: kube::Client,
    registration: String,
    registered: watch::Sender<Registered>,
    own: Option<OwnCertificate>,
    kept: watch::Sender<bool>,
    drain: Duration,
}

/// What an answer is made of. Clones share it.
#[derive(Clone, Debug)]
struct Answers {
    settings: Arc<Settings>,
    accounts: Accounts,
    metrics: Arc<Metrics>,
    registered: watch::Receiver<Registered>,
    /// Whether the certificate is one that whoever has to can know.
    kept: watch::Receiver<bool>,
}

impl Webhook {
    /// Reads the certificate and takes the addresses. `base` is where a relative kubeconfig starts.
    ///
    /// # Errors
    /// Says which file or address cannot be used.
    pub async fn open(config: &Config, base: &Path) -> Result<Self, OpenError> {
        let metrics = Arc::new(Metrics::new());
        let choice = ClusterChoice {
            kubeconfig: config.kubeconfig.as_deref(),
            context: config.context.as_deref(),
            base,
        };
        let access = choice.config().await?;
        let place = config.self_signed.as_ref().map(|own| {
            let namespace = own.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
            Place {
                host: format!("{}.{namespace}.svc", own.service),
                secret: own.secret.clone(),
                registration: config.registration.clone(),
                namespace,
            }
        });
        let watching = watching_client(access.clone())?;
        let client = client(access)?;
        let accounts = Accounts::new(client.clone(), metrics.clone());
        let connections = Connections::default();
        let served = ListenerConfig { address: config.listen, tls: config.tls.clone(), hosts: Vec::new() };
        let listener = Listener::bind(&served, &connections, metrics.clone()).await?;
        let (listener, own) = match place {
            Some(place) => {
                let first = Authority::new(Timestamp::now())?
                    .issue(std::slice::from_ref(&place.host), Timestamp::now())?;
                let shown = Arc::new(Certificates::given(first));
                let own = OwnCertificate::new(client, place, shown.clone(), metrics.clone());
                (listener.showing(shown)?, Some(own))
            }
            None => (listener, None),
        };
        let admin = match &config.admin {
            Some(admin) => Some(Listener::plain(admin.listen, &connections).await?),
            None => None,
        };
        let (registered, told) = watch::channel(Registered::Unseen);
        let (kept, is_kept) = watch::channel(own.is_none());
        let answers = Answers {
            settings: Arc::new(config.settings()),
            accounts,
            metrics,
            registered: told,
            kept: is_kept,
        };
        let (registration, drain) = (config.registration.clone(), Duration::from_secs(config.drain_seconds));
        Ok(Self { listener, admin, answers, watching, registration, registered, own, kept, drain })
    }

    /// Answers until `stop` resolves, then for as long as requests may still come, and ends in order.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, admin, answers, watching, registration, registered, own, kept, drain } = self;
        let (stopping, is_stopping) = watch::channel(false);
        let (ending, end) = watch::channel(false);
        let following = tokio::spawn(answers.accounts.clone().follow(watching.clone()));
        let keeping = own.map(|own| tokio::spawn(own.keep(registered.subscribe(), kept)));
        let looking = tokio::spawn(look((watching, registration), &listener, &answers.metrics, registered));
        let admin = tokio::spawn(run_admin(admin, (answers.clone(), is_stopping, end.clone())));
        let answer = service_fn(move |request: Request<Incoming>| {
            let answers = answers.clone();
            async move { Ok::<_, Infallible>(answers.answer(request).await) }
        });
        let serving = tokio::spawn(listener.run(answer, end));
        stop.await;
        info!(seconds = drain.as_secs(), "not ready any more; requests are still taken");
        stopping.send_replace(true);
        sleep(drain).await;
        ending.send_replace(true);
        for task in [serving, admin] {
            if task.await.is_err() {
                warn!("a listener ended by a fault of ours");
            }
        }
        following.abort();
        looking.abort();
        if let Some(keeping) = keeping {
            keeping.abort();
        }
    }
}

/// Looks at the registration, if there is one to be looked at and a certificate to be held against it.
fn look(
    (watching, name): (kube::Client, String),
    listener: &Listener,
    metrics: &Arc<Metrics>,
    told: watch::Sender<Registered>,
) -> impl Future<Output = ()> + Send + 'static {
    let (certificates, metrics) = (listener.certificates().filter(|_| !name.is_empty()), metrics.clone());
    async move {
        if let Some(certificates) = certificates {
            return registered::follow((watching, name), certificates, metrics, told).await;
        }
        metrics.registered(Registered::Ignored.as_str());
        told.send_replace(Registered::Ignored);
    }
}

async fn run_admin(
    listener: Option<Listener>,
    (answers, is_stopping, end): (Answers, watch::Receiver<bool>, watch::Receiver<bool>),
) {
    let Some(listener) = listener else { return };
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = answers.operators(request.uri().path(), *is_stopping.borrow());
        async move { Ok::<_, Infallible>(answer) }
    });
    listener.run(answer, end).await;
}

impl Answers {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.uri().path() != "/mutate" {
            return text(StatusCode::NOT_FOUND, "expected /mutate\n");
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "expected POST\n");
        }
        let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
        if media_type != "application/json" {
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json\n");
        }
        let body = match timeout(BODY, Limited::new(request.into_body(), LARGEST).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return text(StatusCode::PAYLOAD_TOO_LARGE, "expected a body of 8 MiB at most\n"),
            Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "expected the whole body within 10 s\n"),
        };
        match admission::question(&body) {
            Ok(question) => self.review(question).await,
            Err(problem) => {
                self.metrics.admitted(Outcome::Invalid);
                text(StatusCode::BAD_REQUEST, format!("{problem}\n"))
            }
        }
    }

    async fn review(&self, question: Question) -> Response<Full<Bytes>> {
        let Question { uid, namespace, pod } = question;
        let Some(pod) = &pod else { return json(&admission::let_in(&uid)) };
        let pod = Pod(pod);
        let account = self.accounts.find(&namespace, pod.service_account()).await;
        let decision = match decide(&self.settings, pod, (&namespace, &account)) {
            Ok(decision) => decision,
            Err(undecided) => {
                self.metrics.admitted(Outcome::Undecided);
                warn!(pod = %format!("{namespace}/{}", pod.name()), "{undecided}");
                // Not an answer: `failurePolicy` says what becomes of the pod.
                return text(StatusCode::SERVICE_UNAVAILABLE, format!("{undecided}\n"));
            }
        };
        let outcome = match () {
            () if !decision.refusals.is_empty() => Outcome::Refused,
            () if decision.unknown.is_some() => Outcome::Unknown,
            () if decision.plan.is_empty() => Outcome::Unchanged,
            () => Outcome::Mutated,
        };
        self.metrics.admitted(outcome);
        self.metrics.told(&decision.refusals, decision.warnings.len());
        if outcome == Outcome::Mutated {
            self.metrics.served(decision.plan.clouds());
        }
        if let Some(unknown) = &decision.unknown {
            warn!(pod = %format!("{namespace}/{}", pod.name()), "let in as it is: {unknown}");
        }
        json(&admission::answer(&uid, pod, &decision))
    }

    fn operators(&self, path: &str, is_stopping: bool) -> Response<Full<Bytes>> {
        match path {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" if is_stopping => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\nnot ready\n"),
            "/readyz" if !self.accounts.is_complete() => {
                text(StatusCode::SERVICE_UNAVAILABLE, "ServiceAccounts were not listed yet\nnot ready\n")
            }
            "/readyz" if !*self.kept.borrow() => {
                let problem = "our own certificate is not kept yet; see the log\nnot ready\n";
                text(StatusCode::SERVICE_UNAVAILABLE, problem)
            }
            "/readyz" => match self.registered.borrow().in_the_way() {
                Some(problem) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\nnot ready\n")),
                None => text(StatusCode::OK, "ready\n"),
            },
            "/metrics" => match self.metrics.render() {
                Ok(page) => of_type(text(StatusCode::OK, page), MEDIA_TYPE),
                Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, ""),
            },
            _ => text(StatusCode::NOT_FOUND, "expected /livez, /readyz or /metrics\n"),
        }
    }
}

fn json(value: &serde_json::Value) -> Response<Full<Bytes>> {
    of_type(text(StatusCode::OK, value.to_string()), "application/json")
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    of_type(answer, "text/plain; charset=utf-8")
}

fn of_type(mut answer: Response<Full<Bytes>>, media_type: &'static str) -> Response<Full<Bytes>> {
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// Why the webhook does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The cluster cannot be reached by what the configuration says.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The certificate or an address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No certificate can be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] AuthorityError),
}
