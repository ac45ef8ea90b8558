//! How a finding calls the entries of a set.

use crate::jwks::ObservedJwk;

/// The entries that `disliked` picks, by kid or position; `None` when it picks none.
pub(super) fn name(entries: &[ObservedJwk], disliked: impl Fn(&ObservedJwk) -> bool) -> Option<String> {
    describe(entries, disliked, |_| String::new())
}

/// Like [`name`], with a word on each.
pub(super) fn describe(
    entries: &[ObservedJwk],
    disliked: impl Fn(&ObservedJwk) -> bool,
    word: impl Fn(&ObservedJwk) -> String,
) -> Option<String> {
    const SHOWN: usize = 3;
    let picked: Vec<_> = (1..).zip(entries).filter(|(_, entry)| disliked(entry)).collect();
    let mut shown: Vec<String> = picked
        .iter()
        .take(SHOWN)
        .map(|(position, entry)| match (label(*position, entry), word(entry)) {
            (label, word) if word.is_empty() => label,
            (label, word) => format!("{label} ({word})"),
        })
        .collect();
    if picked.len() > SHOWN {
        shown.push(format!("{} more", picked.len() - SHOWN));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// What a person calls an entry.
fn label(position: usize, entry: &ObservedJwk) -> String {
    let kid = entry.kid.as_deref().filter(|kid| !kid.is_empty());
    kid.map_or_else(|| format!("entry {position}"), quoted)
}

/// Somebody else's text, escaped and cut so that it stays a short line on a terminal.
pub(super) fn quoted(text: &str) -> String {
    crate::quoted::quoted(text).to_string()
}
