//! Whether the bytes are the expected ones.

use chancery_core::DocumentKind;
use chancery_core::lint::{Finding, Severity};
use chancery_core::quoted::escaped;

use super::Standard;
use crate::verify::fetch::FetchedDocument;
use crate::verify::rule;

pub(super) fn judge(
    standard: Standard<'_>,
    kind: DocumentKind,
    fetched: &FetchedDocument,
) -> Option<Finding> {
    let expected = standard.expected.bytes.get(&kind)?;
    if *expected == fetched.body {
        return None;
    }
    let same = expected.iter().zip(&fetched.body).take_while(|(left, right)| left == right).count();
    let age =
        fetched.headers.age.as_deref().map(|age| format!(" It came from a cache, {} s old.", escaped(age)));
    Some(Finding {
        rule: rule::BYTES_DIFFER,
        severity: Severity::Warning,
        breaks: Vec::new(),
        message: format!(
            "the {kind} is not the one that was published: {} bytes came, {} were expected, the first difference is at byte {same}.{}",
            fetched.body.len(),
            expected.len(),
            age.unwrap_or_default()
        ),
        remedy: "wait for caches to give up the older one; if it stays, find out who else writes there"
            .to_owned(),
    })
}

/// What to add when a document cannot be parsed: the usual reasons, as far as they show.
pub(super) fn hint(fetched: &FetchedDocument) -> &'static str {
    let first = fetched.body.iter().find(|byte| !byte.is_ascii_whitespace());
    let encoding = fetched.headers.content_encoding.as_deref().unwrap_or("identity");
    match first {
        _ if !encoding.eq_ignore_ascii_case("identity") => " (it is compressed, which was not asked for)",
        None => " (it is empty)",
        Some(b'<') => " (it looks like HTML or XML)",
        Some(0xEF) => " (it starts with a byte order mark)",
        Some(_) => "",
    }
}
