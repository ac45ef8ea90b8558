//! JSON bytes as Go's `encoding/json` writes them, since our documents must equal kube-apiserver's.

use serde::Serialize;

/// Compact JSON without a trailing newline, with `<`, `>`, `&`, U+2028 and U+2029 escaped as Go escapes them.
///
/// The types rendered here are structs of strings and lists in this crate, which serialise without failing.
pub(crate) fn to_go_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    escaped.into_bytes()
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_what_go_escapes_and_nothing_else() {
        let bytes = super::to_go_bytes(&"a&b<c>\u{2028}é/");
        assert_eq!(String::from_utf8(bytes).unwrap(), "\"a\\u0026b\\u003cc\\u003e\\u2028é/\"");
    }
}
