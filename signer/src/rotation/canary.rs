//! Shows declared relying parties a token of the key that signs next, and remembers what they say of it.
//!
//! Whoever rotates has the private half, signs a token for each of them that lives for minutes, and drops the half again.
//! They are asked beside the rounds, all at once and each within a time limit: one that is silent holds nothing up but the
//! activation. Each process asks for itself.
//!
//! A token is signed when the ring that is stored counts with its lifetime, and not before ([`Canaries::look`]).
//!
//! | room | what is in it |
//! |---|---|
//! | `config` | who is asked, as a policy names it |
//! | `waiting` | who has said what, and who is asked now |
//! | `first_tokens` | the same once, before a cluster depends on its first key |
//! | `token` | the token |
//! | `api_server` | kube-apiservers (feature `kube`) |
//! | `outside` | STS and any other verifier over HTTP (feature `canaries`) |

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chancery_cluster::error_chain;
use chancery_core::rotation::{CanaryAnswer, Policy, to_be_tried};
use chancery_core::{IssuerUrl, KeyId, KeyRing};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

pub use self::first_tokens::FirstTokens;

use self::config::{CanaryConfig, CanaryPlace};
use self::token::{CanaryToken, Claims};
use self::waiting::Waiting;
use super::config::RotationConfig;
use super::observer::Observed;
use crate::signing::ActiveKey;
use crate::vault::KeyVault;

#[cfg(feature = "kube")]
mod api_server;
pub(super) mod config;
mod first_tokens;
#[cfg(feature = "canaries")]
mod outside;
mod token;
mod waiting;

/// For everything that one party is asked, more than each of its requests may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Those who are asked for one ring.
#[derive(Debug)]
pub struct Canaries {
    about: Arc<About>,
    parties: BTreeMap<String, Arc<Party>>,
    waiting: Waiting,
    asking: Option<Asking>,
}

/// What all tokens have in common.
#[derive(Debug)]
struct About {
    issuer: IssuerUrl,
    vault: Arc<dyn KeyVault>,
}

/// One relying party.
#[derive(Debug)]
struct Party {
    audience: String,
    subject: String,
    /// How it is asked; by somebody else where this build cannot.
    asker: Option<Box<dyn Asker>>,
}

/// A way to ask.
#[async_trait]
trait Asker: Debug + Send + Sync {
    /// The private claims that the tokens need, or why they are not known.
    async fn claims(&self) -> Result<Option<Value>, String> {
        Ok(None)
    }

    /// Shows it a token. Nothing that it says in return repeats that.
    async fn ask(&self, token: &CanaryToken) -> CanaryAnswer;
}

/// Parties that are being asked. Dropped, nobody waits for them any more.
#[derive(Debug)]
struct Asking {
    answers: UnboundedReceiver<(String, CanaryAnswer)>,
    task: JoinHandle<()>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Canaries {
    /// Opens what a policy names. Nobody is asked yet.
    ///
    /// # Errors
    /// Which of them cannot be asked by what is said of it.
    pub async fn open(config: &RotationConfig, vault: Arc<dyn KeyVault>) -> Result<Self, CanaryError> {
        let parties: BTreeMap<_, _> = open_all(&config.canaries, &config.base).await?.into_iter().collect();
        let names = parties.keys().cloned().collect();
        let about = Arc::new(About { issuer: config.issuer.clone(), vault });
        Ok(Self { about, parties, waiting: Waiting::new(names, config.look), asking: None })
    }

    /// Has those asked who are to be asked now, and adds what was said so far to what was observed. `ring` is the one that
    /// is stored: a token is signed once that says how long tokens of its key live.
    pub fn look(&mut self, ring: &KeyRing, policy: &Policy, found: &mut Observed) {
        let now = Instant::now();
        let kid = to_be_tried(ring, policy, &found.observations);
        if self.waiting.is_about(kid.as_ref(), now) {
            self.asking = None;
        }
        let Some(kid) = kid else { return };
        self.hear(now);
        let lifetime = policy.canary_lifetime();
        let is_counted = ring.key(&kid).is_some_and(|key| key.signed.external() >= lifetime);
        let due = self.waiting.due(now);
        if is_counted && self.asking.is_none() && !due.is_empty() {
            self.ask(&kid, lifetime, &due);
        }
        let answers = self.waiting.answers();
        for (name, said) in &answers {
            let is_asked_here = self.parties.get(name).is_some_and(|party| party.asker.is_some());
            if is_asked_here && *said != CanaryAnswer::Accepted {
                found.troubles.push(format!("canary {name}, of key {kid}: it {said}"));
            }
        }
        found.observations.canaries.insert(kid, answers);
    }

    /// Waits for those who are being asked.
    pub async fn settle(&mut self) {
        if let Some(asking) = &mut self.asking {
            _ = (&mut asking.task).await;
        }
    }

    /// Takes in what was said since.
    fn hear(&mut self, now: Instant) {
        let Some(asking) = &mut self.asking else { return };
        // Before it is emptied: what is said last is said before the end.
        let is_over = asking.task.is_finished();
        while let Ok((name, answer)) = asking.answers.try_recv() {
            self.waiting.heard(&name, answer, now);
        }
        if is_over {
            self.asking = None;
        }
    }

    fn ask(&mut self, kid: &KeyId, lifetime: Duration, due: &[String]) {
        let parties = due.iter().filter_map(|name| Some((name.clone(), self.parties.get(name)?.clone())));
        let (said, answers) = unbounded_channel();
        let round = Round { about: self.about.clone(), kid: kid.clone(), lifetime, said };
        let task = tokio::spawn(round.run(parties.collect()));
        self.asking = Some(Asking { answers, task });
    }
}

/// One time of asking.
struct Round {
    about: Arc<About>,
    kid: KeyId,
    lifetime: Duration,
    said: UnboundedSender<(String, CanaryAnswer)>,
}

impl Round {
    async fn run(self, parties: Vec<(String, Arc<Party>)>) {
        let (parties, others): (Vec<_>, Vec<_>) =
            parties.into_iter().partition(|(_, party)| party.asker.is_some());
        for (name, _) in others {
            _ = self.said.send((name, elsewhere()));
        }
        if parties.is_empty() {
            return;
        }
        match self.key().await {
            Ok(key) => ask_all(parties, key, (&self.about.issuer, self.lifetime), &self.said).await,
            Err(why) => {
                for (name, _) in parties {
                    _ = self.said.send((name, CanaryAnswer::Silent(why.clone())));
                }
            }
        }
    }

    async fn key(&self) -> Result<ActiveKey, String> {
        let opened = self.about.vault.load(&self.kid).await;
        let opened =
            opened.map_err(|error| format!("{} cannot be opened: {}", self.kid, error_chain(&error)))?;
        ActiveKey::new(opened.into_signing_key()).map_err(|error| error_chain(&error))
    }
}

/// Opens what a policy names, in its order.
async fn open_all(canaries: &[CanaryConfig], base: &Path) -> Result<Vec<(String, Arc<Party>)>, CanaryError> {
    let mut parties = Vec::new();
    for canary in canaries {
        let of = |problem| CanaryError { name: canary.name.clone(), problem };
        let place = canary.place().map_err(|error| of(error.to_string()))?;
        let asker = asker(place, base).await.map_err(|error| of(error_chain(error.as_ref())))?;
        let party = Party { audience: canary.audience.clone(), subject: canary.subject(), asker };
        parties.push((canary.name.clone(), Arc::new(party)));
    }
    Ok(parties)
}

/// Shows each party a token of its own, all at once.
async fn ask_all(
    parties: Vec<(String, Arc<Party>)>,
    key: ActiveKey,
    (issuer, lifetime): (&IssuerUrl, Duration),
    said: &UnboundedSender<(String, CanaryAnswer)>,
) {
    let key = Arc::new(key);
    let mut asking = JoinSet::new();
    for (name, party) in parties {
        let (said, issuer, key) = (said.clone(), issuer.clone(), key.clone());
        asking.spawn(async move {
            let silent = |_| CanaryAnswer::Silent(format!("no answer within {} s", LIMIT.as_secs()));
            let answer = timeout(LIMIT, party.answer(&issuer, key, lifetime)).await.unwrap_or_else(silent);
            // Nobody may wait for it any more.
            _ = said.send((name, answer));
        });
    }
    // The private half goes with the last token that is signed.
    drop(key);
    while asking.join_next().await.is_some() {}
}

impl Party {
    async fn answer(&self, issuer: &IssuerUrl, key: Arc<ActiveKey>, lifetime: Duration) -> CanaryAnswer {
        let Some(asker) = &self.asker else { return elsewhere() };
        let kubernetes = match asker.claims().await {
            Ok(claims) => claims,
            Err(why) => return CanaryAnswer::Silent(why),
        };
        let (subject, audience) = (self.subject.as_str(), self.audience.as_str());
        let claims = Claims { issuer, subject, audience, lifetime, kubernetes };
        let signed = claims.sign(&key, Timestamp::now());
        drop(key);
        match signed {
            Ok(token) => asker.ask(&token).await,
            Err(error) => CanaryAnswer::Silent(error_chain(&error)),
        }
    }
}

fn elsewhere() -> CanaryAnswer {
    CanaryAnswer::Silent(
        "this build cannot; let the whole tool rotate beside it, `chancery ring run`".to_owned(),
    )
}

/// The way to ask one; none where this build has no such way.
#[cfg_attr(
    not(any(feature = "kube", feature = "canaries")),
    expect(unused_variables, reason = "no way at all")
)]
async fn asker(place: CanaryPlace<'_>, base: &Path) -> Result<Option<Box<dyn Asker>>, Box<dyn Error>> {
    match place {
        #[cfg(feature = "kube")]
        CanaryPlace::ApiServer(server) => {
            Ok(Some(Box::new(api_server::ApiServer::open(server, base).await?)))
        }
        #[cfg(feature = "canaries")]
        CanaryPlace::Sts(sts) => Ok(Some(Box::new(outside::Sts::open(sts, base)?))),
        #[cfg(feature = "canaries")]
        CanaryPlace::Oidc(verifier) => Ok(Some(Box::new(outside::Oidc::open(verifier, base)?))),
        #[cfg(not(all(feature = "kube", feature = "canaries")))]
        _ => Ok(None),
    }
}

/// Why one cannot be asked by what a policy says of it.
#[derive(Debug, thiserror::Error)]
#[error("canary {name}: {problem}")]
pub struct CanaryError {
    /// Which.
    name: String,
    /// What is wrong.
    problem: String,
}

#[cfg(test)]
mod tests;
