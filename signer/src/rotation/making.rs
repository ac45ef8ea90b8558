//! New keys, made and durably kept before anybody hears of them.

use std::sync::Arc;

use chancery_core::Algorithm;
use chancery_core::PublicKey;
use chancery_keygen::{KeyError, KeySpec, PrivateKey};
use tokio::task::spawn_blocking;

use crate::vault::{KeyVault, VaultError};

/// What keys of a kind sign.
pub(super) fn algorithm(spec: KeySpec) -> Algorithm {
    match spec {
        KeySpec::Rsa2048 | KeySpec::Rsa3072 | KeySpec::Rsa4096 => Algorithm::Rs256,
        KeySpec::P256 => Algorithm::Es256,
        KeySpec::P384 => Algorithm::Es384,
        KeySpec::P521 => Algorithm::Es512,
    }
}

/// Makes a key, and has its private half written and synced. Returns the public half, which may enter a ring then.
///
/// # Errors
/// When it cannot be made or kept.
pub async fn make_key(spec: KeySpec, vault: &dyn KeyVault) -> Result<PublicKey, MakingError> {
    let made = spawn_blocking(move || PrivateKey::generate(spec)).await;
    let key = Arc::new(made.map_err(|_| MakingError::Lost)??);
    vault.store(key.clone()).await?;
    Ok(key.public_key().clone())
}

/// Why there is no new key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakingError {
    /// The library makes none.
    #[error("a key cannot be made: {0}")]
    Key(#[from] KeyError),
    /// It cannot be kept.
    #[error("a new key cannot be kept: {0}")]
    Vault(#[from] VaultError),
    /// The work was cut short.
    #[error("making a key was cut short by a fault of ours; try again")]
    Lost,
}
