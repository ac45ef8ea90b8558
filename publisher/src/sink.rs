//! Relying parties that are given the keys themselves, because they cannot or may not read the issuer.
//!
//! [`upload()`] reads what a sink holds, lets [`chancery_core::upload`] decide, writes what it decided on, and reads
//! again: some of these places know no versions, so a write may have been undone, or have undone somebody else's.
//!
//! | module | the place |
//! |---|---|
//! | [`config_map`] | a ConfigMap (feature `kube`) |
//! | `gcp` | a provider of a workload identity pool of Google (feature `gcp`) |
//! | [`http_put`] | anything that takes an HTTP PUT or POST |
//! | [`vault`] | the JWT auth method of Vault and OpenBao |
//! | [`config`] | a sink as configuration names it |

use std::fmt;

use async_trait::async_trait;
use chancery_core::upload::{self, DesiredUpload, HeldKeys, UploadBlocked, UploadPlan};
use chancery_core::{Jwks, KeyId, Owner};

use crate::publish::RACE_BUDGET;
use crate::store::{StoreError, StoreErrorKind};

pub mod config;
#[cfg(feature = "kube")]
pub mod config_map;
#[cfg(feature = "gcp")]
pub mod gcp;
mod http_client;
pub mod http_put;
mod secret_file;
pub mod vault;

pub use config::{SinkConfig, SinkPlace};

/// A place that holds a copy of the JWKS. Its errors are those of stores; the path in them is what the place calls it.
#[async_trait]
pub trait JwksSink: Send + Sync + fmt::Debug {
    /// What it holds. Changes nothing.
    ///
    /// # Errors
    /// When it cannot be read; see [`StoreErrorKind`].
    async fn read(&self) -> Result<HeldKeys, StoreError>;

    /// Replaces what it holds, on the condition that it is still what was read where the place can check that.
    ///
    /// # Errors
    /// [`StoreErrorKind::Conflict`] when it is not; otherwise see [`StoreErrorKind`].
    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError>;

    /// What a person calls it: `vault https://vault.example.com/v1/auth/jwt/config`.
    fn describe(&self) -> String;
}

/// One upload.
#[derive(Clone, Copy, Debug)]
pub struct Upload<'a> {
    /// The whole set.
    pub jwks: &'a Jwks,
    /// The marker, for places that can carry one.
    pub owner: &'a Owner,
    /// What was read.
    pub held: &'a HeldKeys,
}

/// Why a sink could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// What is there must not be touched.
    #[error("{sink}: {blocked}")]
    Blocked {
        /// The place, as [`JwksSink::describe`] calls it.
        sink: String,
        /// What blocks it, with the remedy.
        blocked: UploadBlocked,
    },
    /// The place failed, after repetitions where those could help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else wrote, each time.
    #[error(
        "{sink}: what was uploaded did not stay, {tries} times in a row; find out who else writes there, and let one of you rest"
    )]
    Contended {
        /// The place, as [`JwksSink::describe`] calls it.
        sink: String,
        /// How often it was tried.
        tries: u32,
    },
}

impl UploadError {
    /// What the place calls the request that failed, for its operators.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Store(error) => error.request_id.as_deref(),
            Self::Blocked { .. } | Self::Contended { .. } => None,
        }
    }

    /// Whether trying again later can help without anybody's doing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Blocked { .. } => false,
            Self::Store(error) => error.kind.is_transient(),
            Self::Contended { .. } => true,
        }
    }
}

/// Brings a sink up to date: reads, decides, writes, until a reading says that there is nothing to do. Returns what
/// was done on the way: the set written last, if any, every key added and withdrawn, and what the last reading found.
///
/// # Errors
/// As [`UploadError`] says. We have taken away no key but those that we withdrew ourselves, also after an error.
pub async fn upload(sink: &dyn JwksSink, desired: DesiredUpload<'_>) -> Result<UploadPlan, UploadError> {
    let mut done = None;
    let mut pauses = RACE_BUDGET.pauses();
    let tries = RACE_BUDGET.attempts;
    loop {
        let step = step(sink, desired).await;
        let pause = pauses.next();
        match (step, pause) {
            (Ok(plan), _) if plan.upload.is_none() => return Ok(together(done, plan)),
            (Ok(_), None) => return Err(UploadError::Contended { sink: sink.describe(), tries }),
            (Ok(plan), Some(_)) => {
                let first = done.is_none();
                done = Some(together(done, plan));
                // What was written for the first time is there, as a rule.
                if first {
                    continue;
                }
            }
            (Err(UploadError::Store(error)), None) if error.kind == StoreErrorKind::Conflict => {
                return Err(UploadError::Contended { sink: error.target, tries });
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) if !error.is_transient() => return Err(error),
            (Err(error), Some(_)) => tracing::debug!(sink.name = %sink.describe(), "trying again: {error}"),
        }
        tokio::time::sleep(pause.unwrap_or_default()).await;
    }
}

/// One reading, and the write that it asks for.
async fn step(sink: &dyn JwksSink, desired: DesiredUpload<'_>) -> Result<UploadPlan, UploadError> {
    let held = sink.read().await?;
    let plan = upload::plan(desired, &held)
        .map_err(|blocked| UploadError::Blocked { sink: sink.describe(), blocked })?;
    if let Some(jwks) = &plan.upload {
        sink.write(Upload { jwks, owner: desired.owner, held: &held }).await?;
    }
    Ok(plan)
}

/// What two steps did, and what the later one found.
fn together(done: Option<UploadPlan>, later: UploadPlan) -> UploadPlan {
    let Some(done) = done else { return later };
    let both = |mut done: Vec<KeyId>, later: Vec<KeyId>| {
        done.extend(later);
        done.sort();
        done.dedup();
        done
    };
    UploadPlan {
        upload: later.upload.or(done.upload),
        adds: both(done.adds, later.adds),
        withdraws: both(done.withdraws, later.withdraws),
        foreign: later.foreign,
        result: later.result,
    }
}

#[cfg(test)]
mod tests;
