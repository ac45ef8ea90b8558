//! A public key as a field of a document: one `PUBLIC KEY` PEM block.

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::{PublicKey, key_file};

/// Writes the key as PEM.
pub(crate) fn write_pem<S: Serializer>(key: &PublicKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&key.to_pem())
}

/// Reads one key.
pub(crate) fn read_pem<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut keys = key_file::read_public_keys(&text).keys.into_iter();
    match (keys.next(), keys.next()) {
        (Some(key), None) => Ok(key),
        _ => Err(de::Error::custom("expected one PUBLIC KEY PEM block")),
    }
}
