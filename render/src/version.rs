//! Versions of distributions, as far as they are compared here.

use std::fmt;
use std::str::FromStr;

/// The first three numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// A version without a third number.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// A version with three numbers.
    pub const fn with_patch(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}")?;
        if *patch > 0 { write!(f, ".{patch}") } else { Ok(()) }
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads `1.36`, `v1.36.1+k3s1`, `edge-26.5.1` and `26.5.1-edge`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || VersionError(text.to_owned());
        let bare = text.strip_prefix("edge-").or_else(|| text.strip_prefix('v')).unwrap_or(text);
        let end = bare.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (numbers, rest) = bare.split_at(end.unwrap_or(bare.len()));
        if !(rest.is_empty() || rest.starts_with(['-', '+'])) {
            return Err(error());
        }
        let numbers: Vec<u32> =
            numbers.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| error())?;
        match numbers.as_slice() {
            [major, minor] => Ok(Self::new(*major, *minor)),
            [major, minor, patch] => Ok(Self::with_patch(*major, *minor, *patch)),
            _ => Err(error()),
        }
    }
}

/// A string that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version; expected two or three numbers, as in 1.36 or v1.36.1+k3s1")]
pub struct VersionError(String);
