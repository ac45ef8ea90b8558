//! Bodies as HTML forms send them (`application/x-www-form-urlencoded`).

use bytes::Bytes;
use url::form_urlencoded;

use crate::secret;

/// The media type of such a body.
pub const MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

/// A form with these fields in this order. It may hold secrets: it is wiped with its last part, and made in one piece
/// so that no copy stays behind.
pub fn encode<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)> + Clone) -> Bytes {
    // A byte becomes three at most, and each field has a separator before it and one within.
    let longest = fields.clone().into_iter().map(|(name, value)| 3 * (name.len() + value.len()) + 2).sum();
    let mut form = form_urlencoded::Serializer::new(String::with_capacity(longest));
    form.extend_pairs(fields);
    secret::wiped(form.finish().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_form_is_escaped() {
        let form = encode([("Action", "A B"), ("Url", "https://a/?b=c&d=é"), ("Empty", "")]);
        assert_eq!(form, "Action=A+B&Url=https%3A%2F%2Fa%2F%3Fb%3Dc%26d%3D%C3%A9&Empty=");
    }
}
