//! What of an issuer's visibility is shared between replicas and outlives them.

use chancery_cluster::cell::{LaterFields, Schema};
use chancery_core::IssuerUrl;
use chancery_core::visibility::VisibilityRecord;
use serde::{Deserialize, Serialize};

use crate::published_history::HistoryRecord;

/// The documents with the visibility of the issuers. Their cells are named by the issuer URL.
pub const VISIBILITY: Schema =
    Schema { name: VisibilityRecord::DOCUMENT, version: VisibilityRecord::DOCUMENT_VERSION };

/// The visibility of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VisibilityDocument {
    /// Whose it is, so that a file under a wrong name is not taken for another's.
    pub issuer: IssuerUrl,
    /// What was seen.
    #[serde(default)]
    pub record: VisibilityRecord,
    /// What the targets held lately.
    #[serde(default)]
    pub published: HistoryRecord,
    /// What a later release has put there.
    #[serde(flatten)]
    pub later: LaterFields,
}

impl VisibilityDocument {
    /// Of an issuer that nobody has looked at yet.
    pub fn begin(issuer: IssuerUrl) -> Self {
        let (record, published) = (VisibilityRecord::default(), HistoryRecord::default());
        Self { issuer, record, published, later: LaterFields::default() }
    }
}
