//! Text that opens something: a token, a password, a key.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::HeaderValue;
use zeroize::Zeroizing;

/// Text that is wiped from memory when it is dropped, and that no `Debug` prints.
///
/// What is sent passes through buffers of the TLS and HTTP libraries, which wipe nothing: this keeps a secret from
/// lying about for the life of the process, and cannot promise that no copy is ever left.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes `text` over; no copy is made.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself. Its borrower must not print it, nor put it into a URL.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to keep secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a header: `prefix` and the secret. Marked, so that nobody prints it, and wiped with it.
    ///
    /// # Errors
    /// When it holds characters that no header can carry (RFC 9110 section 5.5), such as a newline.
    pub fn header_value(&self, prefix: &str) -> Result<HeaderValue, NotAHeaderValue> {
        let text = Zeroizing::new([prefix, self.expose()].concat().into_bytes());
        let mut value =
            HeaderValue::from_maybe_shared(Bytes::from_owner(text)).map_err(|_| NotAHeaderValue)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// `Bearer SECRET` (RFC 6750 section 2.1), as the value of `Authorization`.
    ///
    /// # Errors
    /// As [`Self::header_value`].
    pub fn bearer(&self) -> Result<HeaderValue, NotAHeaderValue> {
        self.header_value("Bearer ")
    }

    /// A text without the secret, for a server that repeats what it was sent.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match !self.is_empty() && text.contains(self.expose()) {
            true => Cow::Owned(text.replace(self.expose(), "[secret]")),
            false => Cow::Borrowed(text),
        }
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

/// A body that holds a secret: wiped when the last part of it is dropped.
pub fn wiped(body: Vec<u8>) -> Bytes {
    Bytes::from_owner(Zeroizing::new(body))
}

/// A secret with characters that no header can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it holds characters that no header can carry; expected the token alone, on one line")]
pub struct NotAHeaderValue;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_printed_nowhere() {
        let secret = Secret::new("hunter2".to_owned());
        let header = secret.bearer().unwrap();
        assert_eq!(header.as_bytes(), b"Bearer hunter2");
        let text = format!("{secret:?} {header:?} {:?}", Some(&secret));
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(Secret::new("a\nb".to_owned()).bearer(), Err(NotAHeaderValue));
    }

    #[test]
    fn an_echoed_secret_is_taken_out() {
        let secret = Secret::new("s3cr3t".to_owned());
        assert_eq!(secret.redact("denied for s3cr3t"), "denied for [secret]");
        assert_eq!(Secret::new(String::new()).redact("denied"), "denied");
    }
}
