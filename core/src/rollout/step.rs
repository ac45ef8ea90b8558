//! What a node does, and what it waits for.

use std::collections::BTreeSet;
use std::fmt;

use crate::ring::{Acknowledgement, Position};
use crate::{KeyId, listed};

/// One step of a node. Each may be cut short and taken again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// Say what its kube-apiserver has, where whoever rotates reads it.
    Acknowledge(Acknowledgement),
    /// Take the turn, if nobody else has it.
    TakeTurn,
    /// Put these keys into the file of those that verify, the one that is in the other file first.
    WriteVerifying(BTreeSet<KeyId>),
    /// Put this key into the file of the one that signs, and right after that first into the file of those that verify.
    WriteSigning(KeyId),
    /// Have the kube-apiserver of this node start again.
    Restart,
    /// Let another node have the turn.
    GiveTurnBack,
}

/// What is next, for a node if nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout<S = RolloutStep, W = RolloutWait> {
    /// This.
    Do {
        /// What to do.
        step: S,
        /// Why.
        because: String,
    },
    /// Something is wanted, and something else has to happen first.
    Wait(W),
    /// Nothing.
    Done,
}

/// What a node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutWait {
    /// The ring is older than what this node has acknowledged, or nobody has counted up to where it is.
    RingFromThePast {
        /// Where it is.
        ring: Position,
        /// What was acknowledged.
        acknowledged: Option<Position>,
    },
    /// The kube-apiserver is not ready.
    NotReady,
    /// The kube-apiserver was told to start again, and does not show it yet.
    Restarting,
    /// The kube-apiserver started again and shows other keys than those in the files.
    InVain,
    /// Another node has the turn.
    TurnOf(String),
    /// The kube-apiserver signs with a key that the ring has never heard of.
    SignsUnknown(KeyId),
    /// Another key signs by the ring, and the standby after it is not in the ring yet.
    NextStandby,
    /// Another key signs by the ring, and some node would reject its tokens.
    OthersDoNotVerify {
        /// Which key.
        kid: KeyId,
        /// Which nodes.
        nodes: Vec<String>,
    },
}

impl RolloutWait {
    /// Whether a rotation that goes well passes through it.
    pub fn is_usual(&self) -> bool {
        matches!(self, Self::NotReady | Self::Restarting | Self::TurnOf(_) | Self::NextStandby)
    }
}

impl fmt::Display for RolloutStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledge(said) => match &said.signs {
                Some(kid) => write!(
                    f,
                    "say that its kube-apiserver signs with {kid}, {} keys loaded",
                    said.loaded.len()
                ),
                None => write!(f, "acknowledge {}, {} keys loaded", said.position, said.loaded.len()),
            },
            Self::TakeTurn => f.write_str("take the turn"),
            Self::WriteVerifying(kids) => {
                write!(f, "write {} keys to verify with: {}", kids.len(), listed(kids))
            }
            Self::WriteSigning(kid) => write!(f, "write {kid} to sign with"),
            Self::Restart => f.write_str("restart kube-apiserver"),
            Self::GiveTurnBack => f.write_str("give the turn back"),
        }
    }
}

impl fmt::Display for RolloutWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RingFromThePast { ring, acknowledged: Some(acknowledged) } => write!(
                f,
                "the ring is at {ring}, and this node has acknowledged {acknowledged}; put the later ring back, or \
                 `chancery ring reset` this one"
            ),
            Self::RingFromThePast { ring, acknowledged: None } => {
                write!(f, "the ring is at {ring}, which nobody has counted up to; `chancery ring reset` it")
            }
            Self::NotReady => f.write_str("its kube-apiserver is not ready"),
            Self::Restarting => f.write_str("its kube-apiserver starts again"),
            Self::InVain => f.write_str(
                "its kube-apiserver was restarted and shows other keys than those in the files; check that its \
                 --service-account-signing-key-file and --service-account-key-file are these, and nothing else",
            ),
            Self::TurnOf(node) => write!(f, "it is the turn of {node}; if that node is gone for good, forget it"),
            Self::SignsUnknown(kid) => write!(
                f,
                "its kube-apiserver signs with {kid}, which the ring does not know; `chancery ring adopt` its files first"
            ),
            Self::NextStandby => f.write_str("the next standby, which the same restart will load"),
            Self::OthersDoNotVerify { kid, nodes } => {
                write!(f, "{kid} signs by the ring, and is not known to be verified with by {}", listed(nodes))
            }
        }
    }
}
