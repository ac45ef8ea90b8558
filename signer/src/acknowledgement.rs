//! What this signer says of itself where the ring's writer reads it: one document for each signer, which nobody else writes.

use chancery_cluster::cell::{Cell, CellError, CellStore, Schema, Stored, Swap, Version};
use chancery_core::IssuerUrl;
use chancery_core::ring::{Acknowledgement, Position};

/// The document's kind.
pub const SCHEMA: Schema = Schema { name: "signer-acknowledgement", version: 1 };

/// What the document of one signer is about.
pub fn subject(issuer: &IssuerUrl, signer: &str) -> String {
    // A space can be in no URL, so no two pairs meet.
    format!("{issuer} {signer}")
}

/// Writes the acknowledgements of one signer.
#[derive(Debug)]
pub struct Acknowledger {
    cell: Cell<Acknowledgement>,
    written: Option<Stored<Acknowledgement>>,
    is_read: bool,
    boot: String,
}

impl Acknowledger {
    /// The document of the signer called `signer`, of which nothing is read yet. `boot` tells this start of it from every
    /// other one.
    pub fn new(store: &CellStore, issuer: &IssuerUrl, naming: Naming<'_>) -> Self {
        let cell = store.cell(&subject(issuer, naming.signer), SCHEMA);
        Self { cell, written: None, is_read: false, boot: naming.boot.to_owned() }
    }

    /// Reads what an earlier start of this signer has left, if that was not done yet.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(&mut self) -> Result<(), CellError> {
        if !self.is_read {
            self.written = self.cell.load().await?;
            self.is_read = true;
        }
        Ok(())
    }

    /// The position that was acknowledged last, by this start or an earlier one.
    pub fn acknowledged(&self) -> Option<Position> {
        self.written.as_ref().map(|written| written.document.position)
    }

    /// What was acknowledged last.
    pub fn last(&self) -> Option<&Acknowledgement> {
        self.written.as_ref().map(|written| &written.document)
    }

    /// Says it, unless it was said already.
    ///
    /// # Errors
    /// When it cannot be written, or somebody else writes there.
    pub async fn say(&mut self, mut said: Acknowledgement) -> Result<(), AcknowledgementError> {
        said.boot.clone_from(&self.boot);
        if self.written.as_ref().is_some_and(|written| written.document == said) {
            return Ok(());
        }
        let version: Option<&Version> = self.written.as_ref().map(|written| &written.version);
        match self.cell.swap(&said, version).await? {
            Swap::Swapped(version) => self.written = Some(Stored { document: said, version }),
            // An answer of ours was lost, or it was deleted.
            Swap::Lost(found) if found.as_ref().is_none_or(|found| found.document.boot == self.boot) => {
                self.written = found;
                return Err(AcknowledgementError::Raced(self.cell.place()));
            }
            Swap::Lost(_) => return Err(AcknowledgementError::SameName(self.cell.place())),
        }
        Ok(())
    }
}

/// Who acknowledges.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// The signer's name.
    pub signer: &'a str,
    /// This start of its process.
    pub boot: &'a str,
}

/// Why an acknowledgement was not said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcknowledgementError {
    /// The store refused or does not answer.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The document was changed since.
    #[error("{0} was written or deleted meanwhile; it is read again")]
    Raced(String),
    /// Another process has this name.
    #[error(
        "{0} is written by another signer of the same name; give each signer a --name of its own, or a rotation waits for one of them alone"
    )]
    SameName(String),
}

#[cfg(test)]
mod tests {
    use chancery_cluster::cell::StoreMode;

    use super::*;

    #[tokio::test]
    async fn a_signer_is_known_again_and_a_second_one_of_its_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = CellStore::directory(folder.path(), StoreMode::ReadWrite).await.unwrap();
        let issuer: IssuerUrl = "https://id.example.com".parse().unwrap();
        let open = async |boot| {
            let mut acknowledger = Acknowledger::new(&store, &issuer, Naming { signer: "a", boot });
            acknowledger.read().await.unwrap();
            acknowledger
        };
        let said = |generation| Acknowledgement {
            position: Position { epoch: 1, generation },
            ..Acknowledgement::default()
        };
        let mut first = open("one").await;
        assert_eq!(first.acknowledged(), None);
        first.say(said(1)).await.unwrap();
        let mut second = open("two").await;
        assert_eq!(second.acknowledged(), Some(said(1).position));
        second.say(said(2)).await.unwrap();
        second.say(said(2)).await.unwrap();
        assert!(matches!(first.say(said(2)).await, Err(AcknowledgementError::SameName(_))));
        assert!(matches!(first.say(said(3)).await, Err(AcknowledgementError::SameName(_))));
        second.say(said(3)).await.unwrap();
    }
}
