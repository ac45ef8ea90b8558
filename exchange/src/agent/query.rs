//! What stands after the path of a request: each name once, all of it bounded by the head of a request.

use std::collections::BTreeMap;

use url::form_urlencoded;

/// Names and values.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// # Errors
    /// When a name stands there twice: two readers might each believe another one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut fields = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if fields.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err("a parameter stands in the URL twice".to_owned());
            }
        }
        Ok(Self(fields))
    }

    /// A value, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether any of the names is there.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }
}

/// Whether a text may become one scope or audience of a request: visible ASCII, so that a blank makes no second one of
/// it, and no more than a server would take.
pub(super) fn is_one_word(text: &str) -> bool {
    (1..=2048).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
