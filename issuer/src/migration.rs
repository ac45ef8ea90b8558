//! Looks at a cluster whose issuer is to change, and says what is to be done: [`chancery_core::migration`] decides.
//!
//! Nothing is changed, apart from the note of how long was waited. Every replica is asked by its own address
//! (`acceptance`), both issuers are read from outside, and time counts as `clock` tells it.

use std::collections::BTreeSet;

use chancery_cluster::cell::{Cell, CellError, CellStoreError, Schema, StoreMode, Swap};
use chancery_core::lint::Severity;
use chancery_core::migration::{Documents, Intent, Observed, Plan, WaitRecord, plan};
use chancery_core::{DocumentKind, IssuerUrl, KeyId};
use chancery_publisher::verify::report::VerifyReport;
use chancery_publisher::verify::{Expectation, Verifier};
use futures_util::future::join_all;
use serde::Deserialize;

use crate::config::MigrationConfig;
use crate::issuer::verifier_of;
use crate::source::SourceError;
use crate::source::kube_apiserver::replicas;

mod acceptance;
mod clock;

/// The note of the wait.
const WAIT: Schema = Schema { name: WaitRecord::DOCUMENT, version: WaitRecord::DOCUMENT_VERSION };

/// Looks once.
///
/// # Errors
/// When the configuration cannot be used, or the wait cannot be noted.
pub async fn look(config: &MigrationConfig) -> Result<Plan, MigrationError> {
    let intent = config.intent();
    let store = config.state.open(&config.base, StoreMode::Shared).await?;
    let replicas = replicas(&config.kube_apiserver, &config.base).await?;
    let asked = join_all(replicas.iter().map(|replica| acceptance::ask(replica, &intent))).await;
    let names = replicas.iter().map(|replica| replica.url().to_owned());
    let mut observed = Observed { api_servers: names.zip(asked).collect(), ..Observed::default() };
    // Before the documents are read: what takes time after the look at the replicas proves nothing of them.
    let now = clock::now();

    let seen = observed.api_servers.values().filter_map(|asked| asked.as_ref().ok());
    let keys: BTreeSet<KeyId> = seen.flat_map(|seen| seen.keys.clone()).collect();
    let outside = Outside::new(config, keys)?;
    observed.to_documents = outside.documents(&intent.to).await;
    observed.from_documents = match intent.from.parse() {
        Ok(from) if !intent.is_from_inside() => Some(outside.documents(&from).await),
        _ => None,
    };
    let cell = store.cell(intent.to.as_str(), WAIT);
    let wait = note(&cell, &intent, |wait| wait.look(observed.signing(&intent), now.clone())).await?;
    observed.waited = wait.waited();
    Ok(plan(&intent, &observed))
}

/// How both issuers are read.
struct Outside {
    verifier: Verifier,
    expected: Expectation,
}

#[derive(Deserialize)]
struct NamedIssuer {
    issuer: String,
}

impl Outside {
    fn new(config: &MigrationConfig, keys: BTreeSet<KeyId>) -> Result<Self, MigrationError> {
        let from: Option<IssuerUrl> = config.from.parse().ok();
        let issuers: Vec<&IssuerUrl> = from.iter().chain([&config.to]).collect();
        let verifier = verifier_of(&config.verify, &issuers).map_err(MigrationError::Verify)?;
        Ok(Self { verifier, expected: Expectation::of_keys(keys) })
    }

    async fn documents(&self, issuer: &IssuerUrl) -> Documents {
        let report = self.verifier.verify(issuer, &self.expected).await;
        let bad = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        let problems = bad.map(|finding| finding.message.clone()).collect();
        Documents { is_served: is_served(&report), problems }
    }
}

/// Whether a discovery document of the issuer is there, whatever else is wrong.
fn is_served(report: &VerifyReport) -> bool {
    let discovery = report.fetches.fetched(DocumentKind::Discovery).filter(|fetched| fetched.status == 200);
    let named = discovery.and_then(|fetched| serde_json::from_slice::<NamedIssuer>(&fetched.body).ok());
    named.is_some_and(|named| named.issuer == report.issuer.as_str())
}

/// Changes the note; somebody who looks at the same time has counted the same time.
async fn note(
    cell: &Cell<WaitRecord>,
    intent: &Intent,
    change: impl Fn(&mut WaitRecord),
) -> Result<WaitRecord, MigrationError> {
    let mut stored = cell.load().await?;
    loop {
        let known = stored.as_ref().map(|stored| &stored.document);
        let known = known.filter(|known| known.is_of(&intent.from, &intent.to)).cloned();
        let mut record = known.unwrap_or_else(|| WaitRecord::new(&intent.from, &intent.to));
        change(&mut record);
        match cell.swap(&record, stored.as_ref().map(|stored| &stored.version)).await? {
            Swap::Swapped(_) => return Ok(record),
            Swap::Lost(found) => stored = found,
        }
    }
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The replicas are not known.
    #[error(transparent)]
    Replicas(#[from] SourceError),
    /// The issuers cannot be read.
    #[error("{0}")]
    Verify(String),
    /// The place of the note cannot be opened.
    #[error("state: {0}")]
    State(#[from] CellStoreError),
    /// The note cannot be read or written.
    #[error("it cannot be noted for how long was waited: {0}")]
    Note(#[from] CellError),
}
