//! What lies behind an error: its sources, as text and by type.

use std::error::Error;
use std::iter::successors;

/// An error and what lies behind it, each as `spell` puts it. What is empty or was said already is left out.
pub(crate) fn in_words(
    error: &(dyn Error + 'static),
    spell: impl Fn(&(dyn Error + 'static)) -> String,
) -> String {
    let mut words: Vec<String> = Vec::new();
    for text in chain(error).map(spell) {
        if !text.is_empty() && !words.iter().any(|said| said.contains(&text)) {
            words.push(text);
        }
    }
    words.join(": ")
}

/// The first of an error and its sources that is a `T`.
pub(crate) fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}
