//! A key ring: the source that decides.
//!
//! Whoever rotates the keys of an issuer keeps its ring in a document, public halves alone, and changes it by
//! compare-and-swap. It is read here and never written. A ring that cannot be read takes nothing away: what it said last
//! holds, also over a restart.

use std::path::Path;
use std::time::Duration;

use chancery_cluster::cell::{Cell, CellStoreConfig, Schema, StoreMode};
use chancery_core::{IssuerUrl, KeyRing};

use super::SourceError;
use super::reporter::SourceReporter;
use crate::error_chain;

/// How often the ring is read: a revoked key is gone, and a new one is there, this much later at most.
const POLL: Duration = Duration::from_secs(2);

/// The ring of one issuer.
#[derive(Debug)]
pub(super) struct Ring {
    issuer: IssuerUrl,
    cell: Cell<KeyRing>,
}

impl Ring {
    pub async fn open(
        config: &CellStoreConfig,
        issuer: &IssuerUrl,
        base: &Path,
    ) -> Result<Self, SourceError> {
        let store = config.open(base, StoreMode::ReadOnly).await?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        Ok(Self { issuer: issuer.clone(), cell: store.cell(issuer.as_str(), schema) })
    }

    pub async fn run(self, mut reporter: SourceReporter) {
        loop {
            match self.cell.load().await {
                Ok(Some(ring)) => {
                    reporter.shows_ring(&ring.document);
                    reporter.decide(ring.document.decision()).await;
                }
                Ok(None) => reporter.fail(self.missing()).await,
                Err(error) => reporter.fail(error_chain(&error)).await,
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn missing(&self) -> String {
        format!(
            "there is no key ring of {} ({}); begin one with `chancery ring init` or `chancery ring adopt`, or correct the place",
            self.issuer,
            self.cell.place()
        )
    }
}
