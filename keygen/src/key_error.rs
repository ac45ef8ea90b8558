//! What can fail with a key that is in our hands.

use crate::KeySpec;

/// What can fail with a key that is in our hands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The library could not make a key.
    #[error(
        "the cryptographic library could not make an {0} key; try again, and check that the system has memory and a working random number generator"
    )]
    Generate(KeySpec),
    /// The key could not be encoded.
    #[error(
        "the cryptographic library could not encode the key; this is a defect, report it without the key"
    )]
    Encode,
    /// The key with this id could not sign.
    #[error(
        "the cryptographic library could not sign with key {0}; this is a defect, report it without the key"
    )]
    Sign(String),
    /// The key could not be sealed.
    #[error("the key could not be sealed; this is a defect, report it without the key")]
    Seal,
}
