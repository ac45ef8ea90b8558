//! What the three calls of KEP-740 are answered, from memory alone.
//!
//! | call | answer |
//! |---|---|
//! | Sign | header and signature over the encoded claims as they came, by the rules of [`crate::claims`]; verified before it is given, and recorded before it outlives what was recorded |
//! | FetchKeys | prepared when the keys change: anybody can have kube-apiserver ask, with a token of a forged kid |
//! | Metadata | the longest lifetime |
//!
//! The caller is told what kind of failure it was, in words that fit everybody: kube-apiserver passes them on to whoever
//! asked for a token. The log has the rest, and neither has a claim or a signature.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chancery_core::ring::TokenLifetimes;
use tonic::Status;
use tracing::{error, warn};

use crate::admission::{Admission, Place};
use crate::claims::{AcceptedClaims, IssuancePolicy};
use crate::log_pace::LogPace;
use crate::messages::{FetchKeysResponse, Key, MetadataResponse, SignJwtRequest, SignJwtResponse, Timestamp};
use crate::metrics::{Metrics, SignOutcome};
use crate::record::RecordKeeper;
use crate::signer_keys::{SignerKeys, SignerKeysReceiver};
use crate::signing::ActiveKey;

/// Answers for one issuer.
#[derive(Debug)]
pub struct SignerService {
    policy: IssuancePolicy,
    refresh_hint: Duration,
    keys: SignerKeysReceiver,
    prepared: Mutex<Option<Prepared>>,
    record: Arc<RecordKeeper>,
    admission: Admission,
    metrics: Arc<Metrics>,
    refusals: LogPace,
    sheds: LogPace,
}

/// The answer to FetchKeys for one set of keys.
#[derive(Debug)]
struct Prepared {
    keys: Arc<SignerKeys>,
    answer: Arc<FetchKeysResponse>,
}

/// What a [`SignerService`] is made of.
#[derive(Debug)]
pub struct SignerServiceParts {
    /// What may be signed.
    pub policy: IssuancePolicy,
    /// After how long kube-apiserver shall ask for the keys again.
    pub refresh_hint: Duration,
    /// The keys.
    pub keys: SignerKeysReceiver,
    /// Where the lifetimes are kept.
    pub record: Arc<RecordKeeper>,
    /// How many signatures are made and waited for at a time.
    pub concurrency: usize,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl SignerService {
    /// Answers from now on.
    pub fn new(parts: SignerServiceParts) -> Self {
        let SignerServiceParts { policy, refresh_hint, keys, record, concurrency, metrics } = parts;
        Self {
            policy,
            refresh_hint,
            keys,
            prepared: Mutex::default(),
            record,
            admission: Admission::new(concurrency),
            metrics,
            refusals: LogPace::default(),
            sheds: LogPace::default(),
        }
    }

    /// Signs.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when too many wait, `INVALID_ARGUMENT` for claims that are not signed, `UNAVAILABLE` while no
    /// key signs or nothing can be recorded, `INTERNAL` when the key failed.
    pub async fn sign(&self, request: SignJwtRequest) -> Result<SignJwtResponse, Status> {
        let begun = std::time::Instant::now();
        let signed = self.sign_unmeasured(request).await;
        let outcome = signed.as_ref().map_or_else(|refusal| refusal.outcome, |_| SignOutcome::Signed);
        self.metrics.signed(outcome, begun.elapsed());
        signed.map_err(|refusal| refusal.status)
    }

    async fn sign_unmeasured(&self, request: SignJwtRequest) -> Result<SignJwtResponse, Refused> {
        let mut place = self.place()?;
        let accepted = self.policy.check(&request.claims).map_err(|reason| {
            if let Some(others) = self.refusals.may_log() {
                warn!(others, "not signed: {reason}");
            }
            let words = "these claims are not signed here; the signer's log says why";
            Refused { status: Status::invalid_argument(words), outcome: SignOutcome::Refused }
        })?;
        let active = self.active_key(&accepted)?;
        if !self.record.covers(active.public_key().key_id(), lifetimes(&accepted)) {
            // A disk that hangs must not keep the places of those who need none.
            drop(place);
            self.record_lifetime(&active, &accepted).await?;
            place = self.place()?;
        }
        let header = active.header().to_owned();
        let signed = place.work(move || active.sign(&request.claims)).await;
        let failed = |problem: &str| {
            error!("not signed: {problem}");
            let status = Status::internal("the signing key failed; the signer's log says why");
            Refused { status, outcome: SignOutcome::Failed }
        };
        match signed {
            Some(Ok(signature)) => Ok(SignJwtResponse { header, signature }),
            Some(Err(problem)) => Err(failed(&problem.to_string())),
            None => Err(failed("it panicked, as standard error tells")),
        }
    }

    /// A place among those who wait for a signature.
    fn place(&self) -> Result<Place, Refused> {
        self.admission.admit().ok_or_else(|| {
            if let Some(others) = self.sheds.may_log() {
                warn!(others, "too many signatures are waited for, and those that came now were turned away");
            }
            let status = Status::resource_exhausted("too many signatures are waited for; try again later");
            Refused { status, outcome: SignOutcome::Shed }
        })
    }

    /// The key that signs these claims.
    fn active_key(&self, accepted: &AcceptedClaims) -> Result<Arc<ActiveKey>, Refused> {
        let keys = self.keys.borrow().clone();
        let Some(active) = keys.as_ref().and_then(|keys| keys.active()) else {
            if let Some(others) = self.refusals.may_log() {
                error!(others, "not signed: no key signs at present");
            }
            return Err(Refused::unavailable("no key signs at present"));
        };
        let allowed = keys.as_ref().and_then(|keys| keys.allowed());
        let wanted = lifetimes(accepted);
        if allowed.is_some_and(|allowed| allowed.longest_of(wanted) != allowed) {
            if let Some(others) = self.refusals.may_log() {
                let seconds = accepted.lifetime_seconds;
                warn!(others, seconds, "not signed: the ring allows no lifetime that long");
            }
            let status = Status::invalid_argument("the key ring allows no lifetime that long");
            return Err(Refused { status, outcome: SignOutcome::Refused });
        }
        Ok(active.clone())
    }

    async fn record_lifetime(&self, key: &ActiveKey, accepted: &AcceptedClaims) -> Result<(), Refused> {
        let kid = key.public_key().key_id();
        self.record.cover(kid, lifetimes(accepted)).await.map_err(|problem| {
            if let Some(others) = self.refusals.may_log() {
                let seconds = accepted.lifetime_seconds;
                error!(others, seconds, "not signed, since no lifetime that long is recorded yet: {problem}");
            }
            Refused::unavailable("the signer cannot record what it signs; its log says why")
        })
    }

    /// The keys.
    ///
    /// # Errors
    /// `UNAVAILABLE` before there are any.
    pub fn fetch_keys(&self) -> Result<Arc<FetchKeysResponse>, Status> {
        let answer = self.prepared_answer();
        self.metrics.fetched(answer.is_some());
        answer.ok_or_else(|| Status::unavailable("no keys were read yet"))
    }

    /// What kube-apiserver must know.
    pub fn metadata(&self) -> MetadataResponse {
        self.metrics.asked_for_metadata();
        MetadataResponse { max_token_expiration_seconds: seconds(self.policy.longest_lifetime) }
    }

    fn prepared_answer(&self) -> Option<Arc<FetchKeysResponse>> {
        let keys = self.keys.borrow().clone()?;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = prepared.as_ref().filter(|prepared| Arc::ptr_eq(&prepared.keys, &keys)) {
            return Some(prepared.answer.clone());
        }
        let answer = Arc::new(answer(&keys, self.refresh_hint));
        *prepared = Some(Prepared { keys, answer: answer.clone() });
        Some(answer)
    }
}

/// Why a signature was not given: to the caller, and to whoever counts.
struct Refused {
    status: Status,
    outcome: SignOutcome,
}

impl Refused {
    fn unavailable(words: &str) -> Self {
        Self { status: Status::unavailable(words), outcome: SignOutcome::Unavailable }
    }
}

/// The lifetime of a token in the classes that it belongs to.
fn lifetimes(accepted: &AcceptedClaims) -> TokenLifetimes {
    let of = |is_of_class| if is_of_class { accepted.lifetime_seconds } else { 0 };
    TokenLifetimes {
        external_seconds: of(accepted.is_for_outside),
        api_server_seconds: of(accepted.is_for_api_server),
    }
}

fn answer(keys: &SignerKeys, refresh_hint: Duration) -> FetchKeysResponse {
    let confirmed = keys.confirmed_at();
    FetchKeysResponse {
        keys: keys
            .verification()
            .iter()
            .map(|key| Key {
                key_id: key.public_key.key_id().to_string(),
                key: key.public_key.spki_der().to_vec(),
                exclude_from_oidc_discovery: key.is_excluded,
            })
            .collect(),
        data_timestamp: Some(Timestamp {
            seconds: confirmed.as_second(),
            nanos: confirmed.subsec_nanosecond(),
        }),
        refresh_hint_seconds: seconds(refresh_hint).max(1),
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}
