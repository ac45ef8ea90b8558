//! What was said of something that goes on: a problem, at every try the same, or what is waited for.

use std::borrow::Borrow;

/// The same is said once, and again when it is over or another was said since.
#[derive(Debug)]
pub struct LastSaid<T = String>(Option<T>);

impl<T> LastSaid<T> {
    /// Whether `now` differs from what was said last.
    pub fn is_new<Q>(&mut self, now: &Q) -> bool
    where
        T: Borrow<Q>,
        Q: ToOwned<Owned = T> + PartialEq + ?Sized,
    {
        let is_new = self.0.as_ref().is_none_or(|last| last.borrow() != now);
        if is_new {
            self.0 = Some(now.to_owned());
        }
        is_new
    }

    /// It is over: whatever comes next is new. Tells whether anything was said.
    pub fn forget(&mut self) -> bool {
        self.0.take().is_some()
    }
}

impl<T> Default for LastSaid<T> {
    fn default() -> Self {
        Self(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_and_again_when_it_was_over() {
        let mut said: LastSaid = LastSaid::default();
        let news = ["a", "a", "b", "a"].map(|text| said.is_new(text));
        assert_eq!(news, [true, false, true, true]);
        assert_eq!([said.forget(), said.forget(), said.is_new("a")], [true, false, true]);
    }
}
