//! Keys by number, since a token in a simulation needs no signature.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chancery_core::{KeyId, PublicKey};

use crate::fixture;

pub type Number = u16;

/// How many RSA keys there are; beyond them is one for ES256.
pub const RSA_KEYS: Number = 256;
pub const ES256_KEY: Number = RSA_KEYS;

static KEYS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| {
    let rsa = (0..=u8::MAX).map(fixture::numbered_key);
    rsa.chain([fixture::key("p256")]).collect()
});
static NUMBERS: LazyLock<BTreeMap<KeyId, Number>> =
    LazyLock::new(|| (0..).zip(KEYS.iter()).map(|(number, key)| (key.key_id().clone(), number)).collect());

pub fn key(number: Number) -> &'static PublicKey {
    &KEYS[usize::from(number)]
}

pub fn number(kid: &KeyId) -> Number {
    NUMBERS[kid]
}
