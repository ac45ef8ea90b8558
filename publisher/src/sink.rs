//! Relying parties that are given the keys themselves, because they cannot or may not read the issuer.
//!
//! [`upload()`] reads what a sink holds, lets [`chancery_core::upload`] decide and writes what it decided on.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::upload::{self, DesiredUpload, Held, UploadBlocked, UploadPlan};
use chancery_core::{Jwks, Owner};

use crate::store::{StoreError, StoreErrorKind};

#[cfg(feature = "gcp")]
pub mod gcp;

/// A place that holds a copy of the JWKS. Its errors are those of stores; the path in them is what the place calls it.
#[async_trait]
pub trait JwksSink: Send + Sync + fmt::Debug {
    /// What it holds. Changes nothing.
    ///
    /// # Errors
    /// When it cannot be read; see [`StoreErrorKind`].
    async fn read(&self) -> Result<Held, StoreError>;

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
    pub held: &'a Held,
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
}

/// Of several writers that race, one wins each time.
const TRIES: u32 = 5;
/// The first pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// Brings a sink up to date: reads, decides, writes; anew after a lost race or a lost answer. Returns the plan that
/// needed no write any more, or the one that was carried out.
///
/// # Errors
/// As [`UploadError`] says. No key that was trusted there has vanished, also after an error.
pub async fn upload(sink: &dyn JwksSink, desired: DesiredUpload<'_>) -> Result<UploadPlan, UploadError> {
    let mut failures = 0;
    loop {
        let failed = match attempt(sink, desired).await {
            Err(UploadError::Store(error)) if error.kind.is_transient() => error,
            result => return result,
        };
        failures += 1;
        if failures >= TRIES {
            return Err(failed.into());
        }
        tokio::time::sleep(PAUSE * (1 << (failures - 1))).await;
    }
}

async fn attempt(sink: &dyn JwksSink, desired: DesiredUpload<'_>) -> Result<UploadPlan, UploadError> {
    let held = sink.read().await?;
    let plan = upload::plan(desired, &held)
        .map_err(|blocked| UploadError::Blocked { sink: sink.describe(), blocked })?;
    if let Some(jwks) = &plan.upload {
        sink.write(Upload { jwks, owner: desired.owner, held: &held }).await?;
    }
    Ok(plan)
}

impl UploadError {
    /// Whether trying again later can help without anybody's doing.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if StoreErrorKind::is_transient(error.kind))
    }
}
