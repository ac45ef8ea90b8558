//! Whose turn it is to restart: one document beside the ring, taken and given back by compare-and-swap.

use chancery_cluster::cell::{Cell, CellError, CellStore, LaterFields, Schema, Stored, Swap};
use chancery_core::{IssuerUrl, KeyRing};
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartTurn {
    /// The node whose kube-apiserver may be restarted; nobody's when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    #[serde(flatten)]
    later: LaterFields,
}

/// The document of an issuer, where its ring is.
pub fn turn_cell(store: &CellStore, issuer: &IssuerUrl) -> Cell<RestartTurn> {
    store.cell(issuer.as_str(), Schema { name: "restart-turn", version: 1 })
}

/// The turn as it was read last.
#[derive(Debug)]
pub(super) struct Turn {
    cell: Cell<RestartTurn>,
    read: Option<Stored<RestartTurn>>,
}

impl Turn {
    pub fn new(store: &CellStore, issuer: &IssuerUrl) -> Self {
        Self { cell: turn_cell(store, issuer), read: None }
    }

    /// Whose it is. A node that a person has forgotten has none.
    pub async fn read(&mut self, ring: &KeyRing) -> Result<Option<String>, TurnError> {
        self.read = self.cell.load().await?;
        let holder = self.read.as_ref().and_then(|read| read.document.holder.clone());
        Ok(holder.filter(|holder| !ring.forgotten().any(|name| name == holder)))
    }

    /// Takes it, if nobody has written since it was read.
    pub async fn take(&self, name: &str) -> Result<(), TurnError> {
        self.swap(Some(name.to_owned())).await
    }

    /// Gives it back.
    pub async fn give_back(&self) -> Result<(), TurnError> {
        self.swap(None).await
    }

    async fn swap(&self, holder: Option<String>) -> Result<(), TurnError> {
        let read = self.read.as_ref();
        let later = read.map(|read| read.document.later.clone()).unwrap_or_default();
        match self.cell.swap(&RestartTurn { holder, later }, read.map(|read| &read.version)).await? {
            Swap::Swapped(_) => Ok(()),
            Swap::Lost(_) => Err(TurnError::Raced(self.cell.place())),
        }
    }
}

/// Why the turn was not read, taken or given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// It cannot be read or written.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// Another node was faster.
    #[error("{0} was written by another node meanwhile; it is read again")]
    Raced(String),
}
