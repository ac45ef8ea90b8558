//! Targets, publishing and the outside view.
//!
//! A target is a place that relying parties read from. Publishing reads both documents of an issuer there, lets
//! [`chancery_core::publication`] decide, and makes the writes it decided on, each on the condition that the object
//! is still what was read. Whoever loses a race reads again; whoever crashes starts again. Afterwards, [`verify`]
//! looks at the issuer from outside, as an anonymous relying party does.
//!
//! | module | what is in it |
//! |---|---|
//! | [`store`] | [`DocumentStore`]: read an object, write it on a condition; memory, directory, S3, Azure Blob, GCS |
//! | [`mod@publish`] | [`publish()`]: the executor of publication plans |
//! | [`sink`] | [`JwksSink`](sink::JwksSink): a relying party that is given the keys themselves |
//! | [`trust`] | [`Registrar`](trust::Registrar): makes a cloud trust an issuer |
//! | [`target`] | [`TargetConfig`]: a target as configuration names it |
//! | [`open`] | [`TargetOpener`]: makes the stores of targets, with one connection for all of a server |
//! | [`verify`] | the outside view |
//! | [`doctor`] | why an anonymous reader cannot read, by the exact control that stops it |
//! | `conformance` | the battery that every store passes (feature `conformance`) |

#[cfg(feature = "s3")]
mod aws;
#[cfg(feature = "azure")]
mod azure;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod doctor;
#[cfg(feature = "gcp")]
mod google;
mod limits;
pub mod open;
pub mod publish;
pub mod sink;
pub mod store;
pub mod target;
pub mod trust;
pub mod verify;
pub mod writer_key_file;

pub use open::{TargetOpener, open_target};
pub use publish::{Outcome, PublishError, observe, publish};
pub use store::{DocumentStore, StoreError, StoreErrorKind};
pub use target::TargetConfig;
