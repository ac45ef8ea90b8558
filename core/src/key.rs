//! Public keys, the algorithm each one implies, and the key id that Kubernetes gives it.

mod algorithm;
mod curve;
mod key_id;
mod public_key;

pub use algorithm::Algorithm;
pub use curve::Curve;
pub use key_id::{KeyId, KeyIdError};
pub use public_key::{KeyMaterial, PublicKey, PublicKeyError};
