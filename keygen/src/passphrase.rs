//! The passphrase that seals a private key.

use std::fmt;

use zeroize::Zeroizing;

/// A passphrase, wiped on drop and never shown.
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// The most bytes OpenSSL reads from a passphrase file (`APP_PASS_LEN` less its terminator).
    pub const MAX_BYTES: usize = 1023;

    /// Takes the content of a passphrase file, without one trailing newline.
    ///
    /// Only what OpenSSL's `-passin file:` reads as the very same passphrase is accepted, so that a key sealed here
    /// can be opened there.
    ///
    /// # Errors
    /// When it is empty, has several lines, a carriage return or a NUL, or is longer than [`Self::MAX_BYTES`].
    pub fn from_file_bytes(bytes: &[u8]) -> Result<Self, PassphraseError> {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if line.is_empty() {
            return Err(PassphraseError::Empty);
        }
        if line.contains(&b'\n') {
            return Err(PassphraseError::SeveralLines);
        }
        if line.ends_with(b"\r") {
            return Err(PassphraseError::CarriageReturn);
        }
        if line.contains(&0) {
            return Err(PassphraseError::Nul);
        }
        if line.len() > Self::MAX_BYTES {
            return Err(PassphraseError::TooLong(line.len()));
        }
        Ok(Self(Zeroizing::new(line.to_vec())))
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(REDACTED)")
    }
}

/// Why the content of a file is no passphrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseError {
    /// Nothing before the newline.
    #[error("the passphrase file is empty; expected one line, for example from `openssl rand -base64 32`")]
    Empty,
    /// More than one line.
    #[error("the passphrase file has several lines, of which OpenSSL reads the first alone; keep one line")]
    SeveralLines,
    /// A CRLF line ending.
    #[error(
        "the passphrase ends in a carriage return, surely a line ending from elsewhere; remove it with `tr -d '\\r'`"
    )]
    CarriageReturn,
    /// A NUL byte.
    #[error("the passphrase has a NUL byte, where OpenSSL stops reading; use text")]
    Nul,
    /// Longer than OpenSSL reads; the bytes.
    #[error("the passphrase has {0} bytes; expected at most 1023, which is what OpenSSL reads")]
    TooLong(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_one_line_as_openssl_does() {
        for (content, expected) in [("secret\n", "secret"), ("secret", "secret"), (" a b \n", " a b ")] {
            let passphrase = Passphrase::from_file_bytes(content.as_bytes()).unwrap();
            assert_eq!(passphrase.expose(), expected.as_bytes());
            assert!(!format!("{passphrase:?}").contains(expected));
        }
    }

    #[test]
    fn refuses_what_openssl_would_read_differently() {
        let long = vec![b'a'; 1024];
        for (content, expected) in [
            (&b""[..], PassphraseError::Empty),
            (b"\n", PassphraseError::Empty),
            (b"a\nb\n", PassphraseError::SeveralLines),
            (b"a\n\n", PassphraseError::SeveralLines),
            (b"a\r\n", PassphraseError::CarriageReturn),
            (b"a\0b", PassphraseError::Nul),
            (&long, PassphraseError::TooLong(1024)),
        ] {
            assert_eq!(Passphrase::from_file_bytes(content).unwrap_err(), expected);
        }
    }
}
