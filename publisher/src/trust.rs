//! Makes a cloud trust an issuer: reads what is registered, lets [`chancery_core::trust`] decide, makes the calls.

use std::fmt;

use async_trait::async_trait;
use chancery_core::trust::TrustPlan;

#[cfg(feature = "s3")]
pub mod aws;
#[cfg(feature = "azure")]
pub mod azure;
pub(crate) mod error;
#[cfg(feature = "gcp")]
pub mod gcp;
pub mod registration;

pub use error::TrustError;
pub use registration::Registration;

/// The registration of one issuer with one cloud.
#[async_trait]
pub trait Registrar: Send + Sync + fmt::Debug {
    /// Reads what is registered and decides what to call. Changes nothing.
    ///
    /// # Errors
    /// When it cannot be read or may not be touched.
    async fn plan(&self) -> Result<TrustPlan, TrustError>;

    /// Makes the calls of a plan in their order, one at a time, each again where the cloud asks for patience.
    ///
    /// # Errors
    /// At the first call that fails. Those before it have taken effect; planning again goes on from there.
    async fn apply(&self, plan: &TrustPlan) -> Result<(), TrustError>;

    /// What a person calls it: `IAM OIDC provider of https://id.example.com in account 123456789012`.
    fn describe(&self) -> String;

    /// The least policy under which `plan` and `apply` work, in the form that the cloud takes.
    fn least_policy(&self) -> String;

    /// What else somebody needs before a workload gets in, as an example in the form that the cloud takes.
    ///
    /// # Errors
    /// When the cloud has to be asked for it and does not answer.
    async fn example(&self) -> Result<Option<String>, TrustError> {
        Ok(None)
    }
}
