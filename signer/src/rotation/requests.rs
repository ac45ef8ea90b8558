//! Changes of a ring that a person asks for, each by compare-and-swap.

use chancery_cluster::cell::{Cell, CellError, CellStoreError, StoreMode, Swap};
use chancery_core::KeyRing;
use chancery_core::ring::{Request, RingError};

use super::config::RotationConfig;
use crate::ring_source::ring_cell;

/// How often a lost race is run again. Whoever rotates writes once in seconds.
const TRIES: usize = 10;

/// The ring of a policy, to be changed.
#[derive(Clone, Debug)]
pub struct RingDesk {
    cell: Cell<KeyRing>,
}

impl RingDesk {
    /// Opens the place of the ring, which others write too.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn open(config: &RotationConfig, mode: StoreMode) -> Result<Self, CellStoreError> {
        let store = config.ring.open(&config.base, mode).await?;
        Ok(Self { cell: ring_cell(&store, &config.issuer) })
    }

    /// The document.
    pub fn cell(&self) -> &Cell<KeyRing> {
        &self.cell
    }

    /// The ring as it stands.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn read(&self) -> Result<KeyRing, RequestError> {
        Ok(self.cell.load().await?.ok_or_else(|| RequestError::NoRing(self.cell.place()))?.document)
    }

    /// Begins a ring where there is none.
    ///
    /// # Errors
    /// When there is one already, or it cannot be written.
    pub async fn begin(&self, ring: &KeyRing) -> Result<(), RequestError> {
        match self.cell.swap(ring, None).await? {
            Swap::Swapped(_) => Ok(()),
            Swap::Lost(_) => Err(RequestError::IsThere(self.cell.place())),
        }
    }

    /// Asks, and returns the ring as it stands then.
    ///
    /// # Errors
    /// When the ring does not allow it, there is none, or it cannot be written.
    pub async fn ask(&self, request: &Request) -> Result<KeyRing, RequestError> {
        let mut stored = self.cell.load().await?;
        for _ in 0..TRIES {
            let Some(before) = stored else { return Err(RequestError::NoRing(self.cell.place())) };
            let after = before.document.request(request)?;
            if after == before.document {
                return Ok(after);
            }
            match self.cell.swap(&after, Some(&before.version)).await? {
                Swap::Swapped(_) => return Ok(after),
                Swap::Lost(found) => stored = found,
            }
        }
        Err(RequestError::Contended(self.cell.place()))
    }
}

/// Why nothing was asked of a ring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// There is no ring.
    #[error(
        "{0} is not there; begin a ring with `chancery ring init`, or take over the keys of a running cluster with `chancery ring adopt`"
    )]
    NoRing(String),
    /// There is a ring.
    #[error("{0} is there already: the ring was begun before; see `chancery ring status`")]
    IsThere(String),
    /// It says no.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// It cannot be read or written.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// Somebody else writes all the time.
    #[error("{0} is written by somebody else all the time; try again")]
    Contended(String),
}
