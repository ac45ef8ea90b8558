//! What lies behind an error: its sources, as text and by type.

use std::error::Error;
use std::iter::successors;

use chancery_core::quoted::{each_once, one_line};

use crate::limits::EXCERPT;

/// An error and what lies behind it, each as `spell` puts it, on one line that is safe to print. What is empty or was
/// said already is left out.
pub fn describe(error: &(dyn Error + 'static), spell: impl Fn(&(dyn Error + 'static)) -> String) -> String {
    each_once(chain(error).map(|error| one_line(&spell(error), EXCERPT)))
}

/// The first of an error and its sources that is a `T`.
pub fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Link(&'static str, #[source] Option<Box<Link>>);

    #[test]
    fn causes_are_told_once_and_cannot_steer_a_terminal() {
        let cause = Link("no\n2026-01-01 ERROR forged\u{1b}[2J", None);
        let error = Link("outer", Some(Box::new(Link("outer", Some(Box::new(cause))))));
        assert_eq!(describe(&error, ToString::to_string), "outer: no 2026-01-01 ERROR forged\\u{1b}[2J");
        assert!(find::<Link>(&error).is_some_and(|link| link.0 == "outer"));
    }
}
