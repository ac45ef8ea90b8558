//! How long tokens live, by whom they are for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest lifetimes (`exp` minus `iat`) of two classes of tokens. kube-apiserver extends tokens for itself to up to
/// a year (KEP-1205) and none for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenLifetimes {
    /// Of tokens for relying parties outside, in seconds.
    #[serde(default)]
    pub external_seconds: u64,
    /// Of tokens for kube-apiserver itself, in seconds.
    #[serde(default)]
    pub api_server_seconds: u64,
}

impl TokenLifetimes {
    /// Both classes alike.
    pub fn both(seconds: u64) -> Self {
        Self { external_seconds: seconds, api_server_seconds: seconds }
    }

    /// The longer one of each class.
    #[must_use]
    pub fn longest_of(self, other: Self) -> Self {
        Self {
            external_seconds: self.external_seconds.max(other.external_seconds),
            api_server_seconds: self.api_server_seconds.max(other.api_server_seconds),
        }
    }

    /// The shorter one of each class.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        Self {
            external_seconds: self.external_seconds.min(limit.as_secs()),
            api_server_seconds: self.api_server_seconds.min(limit.as_secs()),
        }
    }

    /// The longest of tokens for the outside.
    pub fn external(self) -> Duration {
        Duration::from_secs(self.external_seconds)
    }

    /// The longest of any token.
    pub fn any(self) -> Duration {
        Duration::from_secs(self.external_seconds.max(self.api_server_seconds))
    }
}
