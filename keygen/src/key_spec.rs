//! The kinds of key that can be made.

use std::fmt;
use std::str::FromStr;

/// What to make: the keys that kube-apiserver signs with and that we write in its form.
///
/// RSA-2048 is the default since it is what every relying party takes; the curves are for issuers whose relying
/// parties are known to take them, which `chancery lint` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeySpec {
    /// RSA with a modulus of 2048 bits, signs RS256.
    #[default]
    Rsa2048,
    /// RSA with a modulus of 3072 bits, signs RS256.
    Rsa3072,
    /// RSA with a modulus of 4096 bits, signs RS256.
    Rsa4096,
    /// ECDSA on NIST P-256, signs ES256.
    P256,
    /// ECDSA on NIST P-384, signs ES384.
    P384,
    /// ECDSA on NIST P-521, signs ES512.
    P521,
}

impl KeySpec {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 6] =
        [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096, Self::P256, Self::P384, Self::P521];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::Rsa3072 => "rsa-3072",
            Self::Rsa4096 => "rsa-4096",
            Self::P256 => "p-256",
            Self::P384 => "p-384",
            Self::P521 => "p-521",
        }
    }
}

impl fmt::Display for KeySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for KeySpec {
    type Err = KeySpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|spec| spec.as_str() == text).ok_or_else(|| KeySpecError(text.to_owned()))
    }
}

/// A name that is no kind of key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a kind of key that kube-apiserver signs with; expected rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or p-521"
)]
pub struct KeySpecError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_listed_in_the_refusal() {
        let refusal = "ed25519".parse::<KeySpec>().unwrap_err().to_string();
        for spec in KeySpec::ALL {
            assert_eq!(spec.as_str().parse(), Ok(spec));
            assert!(refusal.contains(spec.as_str()), "{refusal}");
        }
        assert!(refusal.contains("ed25519"), "{refusal}");
    }
}
