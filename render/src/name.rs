//! Names of Kubernetes objects, checked before they are written into YAML.

use std::fmt;
use std::str::FromStr;

/// A name that is legal both for an object and as a label's value: an RFC 1123 label of at most 60 characters,
/// which leaves room for the suffix `-sa` (Kubernetes, Object Names and IDs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesName(String);

impl KubernetesName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KubernetesName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KubernetesName {
    type Err = KubernetesNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let legal = (1..=60).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if legal { Ok(Self(text.to_owned())) } else { Err(KubernetesNameError(text.to_owned())) }
    }
}

/// A string that cannot name an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name that Kubernetes takes here; expected 1 to 60 lower-case letters, digits and hyphens, with neither end a hyphen"
)]
pub struct KubernetesNameError(String);
