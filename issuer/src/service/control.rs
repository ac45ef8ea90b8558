//! Issuers that come and go while the service runs.

use chancery_core::IssuerUrl;
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, IssuerConfig};
use crate::serve::TableError;

/// Tells a running service which issuers it is to have. Clones speak to the same service.
#[derive(Clone, Debug)]
pub struct ServiceControl(mpsc::Sender<Change>);

/// What a service is told.
#[derive(Debug)]
pub(super) enum Change {
    Add(Box<Spanned<IssuerConfig>>, oneshot::Sender<Result<(), ControlError>>),
    Remove(IssuerUrl, oneshot::Sender<Result<(), ControlError>>),
    Reload(Box<Config>, oneshot::Sender<Result<Reloaded, ControlError>>),
}

/// What a new configuration changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Issuers that are new, or were opened anew since their entry changed.
    pub added: Vec<IssuerUrl>,
    /// Issuers that are gone.
    pub removed: Vec<IssuerUrl>,
    /// Whether something besides the issuers changed, which takes a restart.
    pub needs_restart: bool,
}

impl ServiceControl {
    pub(super) fn new() -> (Self, mpsc::Receiver<Change>) {
        let (sender, changes) = mpsc::channel(1);
        (Self(sender), changes)
    }

    /// Adds an issuer. Returns when it is known: it is opened, and tried again where that fails, by the service.
    ///
    /// # Errors
    /// When it is there already, or would answer where another one does.
    pub async fn add(&self, issuer: Spanned<IssuerConfig>) -> Result<(), ControlError> {
        self.ask(|reply| Change::Add(Box::new(issuer), reply)).await
    }

    /// Removes an issuer: its writes under way end, then its tasks. Returns when none of them is left. What was
    /// published stays at its targets.
    ///
    /// # Errors
    /// When there is no such issuer.
    pub async fn remove(&self, issuer: IssuerUrl) -> Result<(), ControlError> {
        self.ask(|reply| Change::Remove(issuer, reply)).await
    }

    /// Takes over the issuers of `config`: those that are new are added, those that are not there are removed, and those
    /// whose entry changed are opened anew.
    ///
    /// # Errors
    /// When two of them would answer at one place; nothing is changed then.
    pub async fn reload(&self, config: Config) -> Result<Reloaded, ControlError> {
        self.ask(|reply| Change::Reload(Box::new(config), reply)).await
    }

    async fn ask<T>(
        &self,
        change: impl FnOnce(oneshot::Sender<Result<T, ControlError>>) -> Change,
    ) -> Result<T, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.0.send(change(reply)).await.map_err(|_| ControlError::Stopped)?;
        answer.await.map_err(|_| ControlError::Stopped)?
    }
}

/// Why the issuers of a service stay what they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It is there already.
    #[error("issuer {0} is there already; remove it first")]
    Exists(IssuerUrl),
    /// It is not there.
    #[error("there is no issuer {0}; expected one that was configured or added")]
    Unknown(IssuerUrl),
    /// It would answer where another one does.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The service does not run, or stops.
    #[error("the service does not run any more")]
    Stopped,
}
