//! Lists that somebody else's input may make long, as short text.

use std::fmt::Display;

/// How many things a list names.
const NAMED: usize = 5;

/// The first few of some things and the number of the others: `a, b, c, d, e and 7 more`.
///
/// ```
/// use chancery_core::listed;
/// assert_eq!(listed(["a", "b"]), "a, b");
/// assert_eq!(listed(1..=12), "1, 2, 3, 4, 5 and 7 more");
/// ```
pub fn listed<T: Display>(things: impl IntoIterator<Item = T>) -> String {
    let mut things = things.into_iter();
    let named: Vec<String> = things.by_ref().take(NAMED).map(|thing| thing.to_string()).collect();
    match things.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
