//! The name of a credential in the cache.
//!
//! Two inputs that could yield two credentials have two keys: every field is written with its name, its kind, its count
//! and the length of each value, so that no comma, newline or empty list can stand for another, and the whole is hashed
//! with SHA-256. The subject token is never part of it: it changes, and the identity does not.

use std::fmt;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// What every preimage begins with: no other use of SHA-256 in the world gives the same key by accident.
const DOMAIN: &[u8] = b"chancery exchange cache key 1\0";

/// SHA-256 over everything that a credential depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey([u8; 32]);

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Collects the fields of a key, in the order in which they are given.
#[derive(Clone)]
pub struct KeyBuilder {
    // It may hold a client's secret.
    preimage: Zeroizing<Vec<u8>>,
}

impl Default for KeyBuilder {
    fn default() -> Self {
        Self { preimage: Zeroizing::new(DOMAIN.to_vec()) }
    }
}

impl KeyBuilder {
    /// A field with one value.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.field(name, b'1').bytes(value.as_bytes())
    }

    /// A field that may have no value, which is something else than an empty one.
    pub fn optional(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.field(name, b'0'),
        }
    }

    /// A field with a number.
    pub fn number(&mut self, name: &str, value: Option<u64>) -> &mut Self {
        self.optional(name, value.map(|value| value.to_string()).as_deref())
    }

    /// A field with values whose order counts.
    pub fn list<T: AsRef<str>>(&mut self, name: &str, values: &[T]) -> &mut Self {
        self.field(name, b'l').length(values.len());
        values.iter().for_each(|value| _ = self.bytes(value.as_ref().as_bytes()));
        self
    }

    /// A field with values that mean the same in any order and any number, such as OAuth's scopes (RFC 6749 section 3.3).
    pub fn set<T: AsRef<str>>(&mut self, name: &str, values: &[T]) -> &mut Self {
        let mut values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
        values.sort_unstable();
        values.dedup();
        self.list(name, &values)
    }

    /// The key.
    pub fn finish(&self) -> CacheKey {
        CacheKey(Sha256::digest(&self.preimage).into())
    }

    fn field(&mut self, name: &str, kind: u8) -> &mut Self {
        self.bytes(name.as_bytes());
        self.preimage.push(kind);
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.length(bytes.len());
        self.preimage.extend_from_slice(bytes);
        self
    }

    fn length(&mut self, length: usize) {
        self.preimage.extend_from_slice(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Fields {
        text: String,
        optional: Option<String>,
        list: Vec<String>,
        other: Vec<String>,
    }

    fn preimage(fields: &Fields) -> Vec<u8> {
        let mut key = KeyBuilder::default();
        key.text("text", &fields.text).optional("optional", fields.optional.as_deref());
        key.list("list", &fields.list).list("other", &fields.other);
        key.preimage.to_vec()
    }

    /// Texts that an encoding with separators would confuse.
    fn tricky() -> impl Strategy<Value = String> {
        prop_oneof![Just(String::new()), "[a,\n=]{0,4}", Just("text".to_owned()), any::<String>()]
    }

    fn fields() -> impl Strategy<Value = Fields> {
        let list = || proptest::collection::vec(tricky(), 0..4);
        (tricky(), proptest::option::of(tricky()), list(), list())
            .prop_map(|(text, optional, list, other)| Fields { text, optional, list, other })
    }

    proptest! {
        #[test]
        fn c_07_distinct_inputs_have_distinct_preimages(one in fields(), other in fields()) {
            prop_assert_eq!(one == other, preimage(&one) == preimage(&other));
        }
    }

    #[test]
    fn c_07_what_separators_confuse_is_told_apart() {
        let key = |list: &[&str]| KeyBuilder::default().list("l", list).finish();
        let lists: [&[&str]; 6] = [&[], &[""], &["", ""], &["a,b"], &["a", "b"], &["a\nb"]];
        let mut keys: Vec<CacheKey> = lists.iter().map(|list| key(list)).collect();
        keys.push(KeyBuilder::default().optional("l", None).finish());
        keys.push(KeyBuilder::default().optional("l", Some("")).finish());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 8);
    }

    #[test]
    fn c_03_scopes_are_a_set_and_audiences_a_list() {
        let set = |scopes: &[&str]| KeyBuilder::default().set("scope", scopes).finish();
        assert_eq!(set(&["a", "b"]), set(&["b", "a", "a"]));
        assert_ne!(set(&["a", "b"]), set(&["a"]));
        let list = |values: &[&str]| KeyBuilder::default().list("aud", values).finish();
        assert_ne!(list(&["a", "b"]), list(&["b", "a"]));
    }

    #[test]
    fn a_key_of_today_is_the_key_of_tomorrow() {
        let key = KeyBuilder::default().text("provider", "aws").optional("namespace", None).finish();
        assert_eq!(key.to_string().len(), 64);
        assert_eq!(key, KeyBuilder::default().text("provider", "aws").optional("namespace", None).finish());
    }
}
