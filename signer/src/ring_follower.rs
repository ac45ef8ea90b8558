//! What whoever follows a ring under a signer's name has in common: a node with key files, and a control plane of Cluster API.

use std::sync::Arc;

use chancery_cluster::cell::{Cell, CellError, CellStore, CellStoreError, StoreMode};
use chancery_core::ring::{Acknowledgement, TokenLifetimes};
use chancery_core::{KeyId, KeyRing};
use chancery_keygen::PrivateKey;

use crate::acknowledgement::{AcknowledgementError, Acknowledger, Naming};
use crate::ring_source::ring_cell;
use crate::rotation::{CustodyError, KeyRingPolicyError, PolicyInForce, RotationConfig};
use crate::source::{SourceError, boot_id};
use crate::vault::{KeyVault, VaultError};

/// What it reads, and where it is heard.
#[derive(Debug)]
pub(crate) struct RingFollower {
    /// Where the ring is.
    pub store: CellStore,
    ring: Cell<KeyRing>,
    policy: PolicyInForce,
    vault: Arc<dyn KeyVault>,
    acknowledger: Acknowledger,
}

impl RingFollower {
    /// Opens what the policy says of the signer called `name`.
    pub async fn open(
        policy: &RotationConfig,
        name: &str,
        mode: StoreMode,
    ) -> Result<Self, RingFollowerError> {
        let (base, issuer) = (&policy.base, &policy.issuer);
        let Some(place) = policy.signers.get(name) else {
            return Err(RingFollowerError::UnknownName {
                name: name.to_owned(),
                known: chancery_core::listed(policy.signers.keys()),
            });
        };
        let store = policy.ring.open(base, mode).await?;
        let heard = place.as_ref().unwrap_or(&policy.ring).open(base, mode).await?;
        let boot = boot_id()?;
        Ok(Self {
            acknowledger: Acknowledger::new(&heard, issuer, Naming { signer: name, boot: &boot }),
            ring: ring_cell(&store, issuer),
            store,
            vault: policy.keys.open(base).await?,
            policy: PolicyInForce::open(policy.clone()).await?,
        })
    }

    /// The ring as it is now, if there is one. What was acknowledged before and the policy are known then, too.
    pub async fn look(&mut self) -> Result<Option<KeyRing>, RingFollowerError> {
        let Some(stored) = self.ring.load().await? else { return Ok(None) };
        self.acknowledger.read().await?;
        self.policy.look().await?;
        Ok(Some(stored.document))
    }

    /// Where the ring is, for a person.
    pub fn place(&self) -> String {
        self.ring.place()
    }

    /// How long tokens may live by the policy.
    pub fn allowed_lifetimes(&self) -> TokenLifetimes {
        self.policy.now().policy.allowed_lifetimes()
    }

    /// What was acknowledged last.
    pub fn acknowledged(&self) -> Option<&Acknowledgement> {
        self.acknowledger.last()
    }

    /// Acknowledges it.
    pub async fn acknowledge(&mut self, said: Acknowledgement) -> Result<(), RingFollowerError> {
        Ok(self.acknowledger.say(said).await?)
    }

    /// The private half of a key.
    pub async fn private_half(&self, kid: &KeyId) -> Result<PrivateKey, RingFollowerError> {
        Ok(self.vault.load(kid).await?)
    }
}

/// Why a ring cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingFollowerError {
    /// Nobody expects a signer of this name.
    #[error("no signer of the policy is called {name:?}; expected one of {known}. Add it to `signers` first")]
    UnknownName {
        /// What was given.
        name: String,
        /// Who there is.
        known: String,
    },
    /// It is not heard.
    #[error("this signer is not heard: {0}")]
    Acknowledgement(#[from] AcknowledgementError),
    /// A document cannot be read.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A place of documents cannot be opened.
    #[error(transparent)]
    Place(#[from] CellStoreError),
    /// What the owner of the ring decides is not known.
    #[error(transparent)]
    Policy(#[from] KeyRingPolicyError),
    /// The private halves cannot be reached.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// A private half cannot be had.
    #[error("the key that should sign cannot be loaded: {0}")]
    Vault(#[from] VaultError),
    /// No randomness for a name of this start.
    #[error(transparent)]
    Start(#[from] SourceError),
}
