//! What holds a step back.

use std::fmt;

use serde::Serialize;

/// What holds a step back, and so what is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Guard {
    /// Some edge does not show the key, or nobody can tell: a relying party that reads there rejects its tokens.
    NotVisible,
    /// Every edge shows the key, but not for long enough: a relying party may hold a set without it.
    VisibleTooShort,
    /// A signer has not loaded the key, so its kube-apiserver would reject the tokens of the others.
    SignerNotLoaded,
    /// A kube-apiserver does not verify with the key yet: it reads the keys of its signer when it likes.
    VerifierNotLoaded,
    /// A node joins the control plane, or leaves it, or is upgraded: what it will verify with nobody knows.
    NodeInMotion,
    /// A signer still signs by an earlier epoch: the rotation before is not over.
    RotationInFlight,
    /// A declared relying party has not accepted a canary of the key.
    CanaryMissing,
    /// A declared relying party does not verify the algorithm.
    AlgorithmRefused,
    /// The schedule does not ask for it now.
    NotDue,
    /// The wall clock shows an earlier time than a decision was taken at: what it says of the schedule is worth nothing.
    ClockWentBack,
    /// There are as many keys as relying parties take.
    TooManyKeys,
    /// A signer has not said that it stopped to sign with the key.
    SignerNotStopped,
    /// Somebody who is no signer of this ring signs with the key.
    SignedElsewhere,
    /// Tokens of the key may live.
    TokensAlive,
    /// A census found copies of tokens of the key that live still, such as those of `kubernetes.io/service-account-token` Secrets,
    /// which do not expire; or the census that is wanted is not there.
    LegacyTokens,
    /// A token of the key was seen in use, although by all that is known none should live.
    SeenInUse,
    /// The key may have to sign again.
    RollbackWindow,
    /// No other key is ready to take its place.
    NoSuccessor,
    /// The ring's numbers cannot have been counted: nobody could tell a later ring from this one.
    PositionPoisoned,
    /// A signer has acknowledged a later ring: this one comes from a backup, and does not know what happened since.
    RingFromThePast,
}

impl Guard {
    /// Every guard.
    pub const ALL: [Self; 20] = [
        Self::NotVisible,
        Self::VisibleTooShort,
        Self::SignerNotLoaded,
        Self::VerifierNotLoaded,
        Self::NodeInMotion,
        Self::RotationInFlight,
        Self::CanaryMissing,
        Self::AlgorithmRefused,
        Self::NotDue,
        Self::ClockWentBack,
        Self::TooManyKeys,
        Self::SignerNotStopped,
        Self::SignedElsewhere,
        Self::TokensAlive,
        Self::LegacyTokens,
        Self::SeenInUse,
        Self::RollbackWindow,
        Self::NoSuccessor,
        Self::PositionPoisoned,
        Self::RingFromThePast,
    ];

    /// The name in logs, metrics and plans: `NotVisible`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotVisible => "NotVisible",
            Self::VisibleTooShort => "VisibleTooShort",
            Self::SignerNotLoaded => "SignerNotLoaded",
            Self::VerifierNotLoaded => "VerifierNotLoaded",
            Self::NodeInMotion => "NodeInMotion",
            Self::RotationInFlight => "RotationInFlight",
            Self::CanaryMissing => "CanaryMissing",
            Self::AlgorithmRefused => "AlgorithmRefused",
            Self::NotDue => "NotDue",
            Self::ClockWentBack => "ClockWentBack",
            Self::TooManyKeys => "TooManyKeys",
            Self::SignerNotStopped => "SignerNotStopped",
            Self::SignedElsewhere => "SignedElsewhere",
            Self::TokensAlive => "TokensAlive",
            Self::LegacyTokens => "LegacyTokens",
            Self::SeenInUse => "SeenInUse",
            Self::RollbackWindow => "RollbackWindow",
            Self::NoSuccessor => "NoSuccessor",
            Self::PositionPoisoned => "PositionPoisoned",
            Self::RingFromThePast => "RingFromThePast",
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A guard at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Which.
    pub guard: Guard,
    /// What it waits for, by name.
    pub why: String,
}

impl Block {
    pub(super) fn new(guard: Guard, why: impl Into<String>) -> Self {
        Self { guard, why: why.into() }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.guard, self.why)
    }
}
