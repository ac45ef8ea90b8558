//! An `Issuer` object as the service hears of it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_saphyr::Spanned;
use tokio::sync::watch;

use crate::config::IssuerConfig;

/// An object that is there, and what of it can be followed.
#[derive(Clone, Debug)]
pub struct DeclaredIssuer {
    /// Its name in its namespace.
    pub name: String,
    /// When it was made; the older of two wins.
    pub created: Timestamp,
    /// `metadata.generation`: which spec it has.
    pub generation: u64,
    /// Its last good spec, as an entry of the configuration; nothing when there was none since this process started.
    pub config: Option<Arc<Spanned<IssuerConfig>>>,
    /// Why the spec that it has now cannot be followed, if it cannot.
    pub refusal: Option<String>,
}

/// All objects that are there: nothing before they were listed once. Only what is newest matters.
pub type Declarations = watch::Receiver<Option<Arc<Vec<DeclaredIssuer>>>>;
