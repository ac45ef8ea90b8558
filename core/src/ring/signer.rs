//! What a signer says of itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Position, TokenLifetimes};
use crate::KeyId;

/// The last acknowledgement of one signer.
///
/// A signer acknowledges a position only once it has loaded all of that ring and signs by it. After a start it signs and
/// answers nothing before it has read the ring from the store, whatever its own copy says: between a start from an older
/// copy and the first acknowledgement nobody can know with which key it signs. Its first acknowledgement must have been
/// taken before it signs: a signer that nobody has heard of is waited for by nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledgement {
    /// Another one with every start of its process: what an earlier one signed and did not report, nobody will say.
    #[serde(default)]
    pub boot: String,
    /// The ring by which it signs.
    pub position: Position,
    /// The keys that it hands to its kube-apiserver.
    #[serde(default)]
    pub loaded: BTreeSet<KeyId>,
    /// The longest lifetimes that it has signed, by key, since its start.
    #[serde(default)]
    pub signed: BTreeMap<KeyId, TokenLifetimes>,
    /// The key that it signs with, or will after a restart, where that is not the one that signs by its position: a kube-apiserver
    /// that has not read its key files again, or files that have not followed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs: Option<KeyId>,
}
