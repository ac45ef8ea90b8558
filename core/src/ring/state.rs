//! What a key of a ring is for at the moment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The states of a key, in the order in which it passes through them. Of one ring at most one key is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyState {
    /// It is being published and was not yet seen everywhere.
    Pending,
    /// The standby: everybody sees it, and nobody signs with it but canaries.
    Published,
    /// It signs.
    Active,
    /// It signs no more, and tokens that it signed live.
    Retiring,
    /// Tokens for the outside are dead, those for kube-apiserver itself are not: it left the JWKS and is still verified
    /// with (`exclude_from_oidc_discovery` of KEP-740).
    VerifyOnly,
    /// Its last token is dead.
    Retired,
    /// A person has said that nobody may trust it any more.
    Revoked,
}

impl KeyState {
    /// Whether the JWKS shows it.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Pending | Self::Published | Self::Active | Self::Retiring)
    }

    /// Whether kube-apiserver verifies with it.
    pub fn is_verified_with(self) -> bool {
        self.is_shown() || self == Self::VerifyOnly
    }

    /// Whether it has signed and its tokens may live.
    pub fn is_draining(self) -> bool {
        matches!(self, Self::Retiring | Self::VerifyOnly)
    }

    /// Whether nothing but destroying its private half can happen to it.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Retired | Self::Revoked)
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pending => "Pending",
            Self::Published => "Published",
            Self::Active => "Active",
            Self::Retiring => "Retiring",
            Self::VerifyOnly => "VerifyOnly",
            Self::Retired => "Retired",
            Self::Revoked => "Revoked",
        })
    }
}
