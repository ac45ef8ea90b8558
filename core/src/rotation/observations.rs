//! What was seen of the world when a plan is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::CanaryAnswer;
use crate::key_bundle::BundledKey;
use crate::ring::{Acknowledgement, WallTime};
use crate::visibility::{Obstacle, VisibilityRecord};
use crate::{KeyId, PublicKey};

/// What was seen of the world. Whatever is missing here was not seen, and what was not seen holds steps back.
#[derive(Clone, Debug)]
pub struct Observations {
    /// The wall clock.
    pub now: WallTime,
    /// The last acknowledgement of every signer that was heard, by name.
    pub acknowledgements: BTreeMap<String, Acknowledgement>,
    /// The signers that there should be, heard or not.
    pub expected_signers: BTreeSet<String>,
    /// Every kube-apiserver that there should be, by the name of its node.
    pub api_servers: BTreeMap<String, ApiServer>,
    /// Why it is not known which nodes the control plane has, where somebody wants to know.
    pub unknown_nodes: Option<String>,
    /// Which key is seen where, for how long; or why that is not known.
    pub visibility: Result<VisibilityRecord, Obstacle>,
    /// What relying parties said to canaries, by key and name. A key that is to be tried is here before anybody was asked:
    /// that its canaries live for a while is written into the ring before one is signed.
    pub canaries: BTreeMap<KeyId, BTreeMap<String, CanaryAnswer>>,
    /// How long ago a token of a key was last seen in use.
    pub last_use: BTreeMap<KeyId, Duration>,
    /// How many copies of tokens that live still a census found, by key: those that do not expire above all. Or why they could not
    /// be counted.
    pub legacy_tokens: Result<BTreeMap<KeyId, usize>, String>,
    /// The keys in custody.
    pub held: Vec<PublicKey>,
    /// Every key of the bundles that were imported, in the order in which they are to sign; or why that is not known.
    pub imported: Result<Vec<BundledKey>, String>,
    /// When the calendar asks for the next rotation after the last one.
    pub calendar: Option<NextDue>,
}

impl Default for Observations {
    fn default() -> Self {
        Self {
            now: WallTime::default(),
            acknowledgements: BTreeMap::new(),
            expected_signers: BTreeSet::new(),
            api_servers: BTreeMap::new(),
            unknown_nodes: None,
            visibility: Err(Obstacle::NoRecord),
            canaries: BTreeMap::new(),
            last_use: BTreeMap::new(),
            legacy_tokens: Ok(BTreeMap::new()),
            held: Vec::new(),
            imported: Err("nobody has looked".to_owned()),
            calendar: None,
        }
    }
}

impl Observations {
    /// The keys that some kube-apiserver was seen to sign with.
    pub(super) fn signed_with(&self) -> BTreeSet<KeyId> {
        self.api_servers.values().filter_map(|node| node.signs.clone()).collect()
    }
}

/// What one kube-apiserver shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiServer {
    /// The keys it verifies with.
    pub verifies: BTreeSet<KeyId>,
    /// The key of the last token that it issued, when it was last asked for one.
    pub signs: Option<KeyId>,
    /// What happens to its node.
    pub motion: Option<Motion>,
    /// Why it is not seen now. The rest is what it showed last then, and nothing if it was never seen.
    pub unseen: Option<String>,
}

/// What happens to a node of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// It comes in.
    Joining,
    /// It goes away.
    Leaving,
    /// Its kube-apiserver is being replaced.
    Upgrading,
    /// It does not say that it is ready: nobody knows whether it comes back.
    Unready,
}

impl fmt::Display for Motion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Joining => "joining",
            Self::Leaving => "leaving",
            Self::Upgrading => "being upgraded",
            Self::Unready => "not ready",
        })
    }
}

/// When a calendar asks for a rotation: from a time on, as long as its maintenance window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDue {
    /// The window opens.
    pub at: WallTime,
    /// And closes.
    pub until: WallTime,
}
