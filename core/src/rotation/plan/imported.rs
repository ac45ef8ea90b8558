//! Keys that are made elsewhere, on a machine without a network, and come in bundles: one of them ahead of need, in
//! their order.

use super::guards::Guards;
use crate::key_bundle::BundledKey;
use crate::rotation::{Block, Guard, ImportedLeft, KeySupply};
use crate::{KeyId, PublicKey};

impl Guards<'_> {
    /// What is left of the bundles; `None` where keys are made.
    pub(super) fn imported_left(&self) -> Option<ImportedLeft> {
        let KeySupply::Imported { fewest } = self.policy.settings().supply else { return None };
        let keys = self.observed.imported.as_ref().ok().map(|_| self.imported().count());
        Some(ImportedLeft { keys, is_low: keys.is_some_and(|keys| keys < fewest) })
    }

    /// The key that is to become the standby: the first that the ring does not know, and no later one.
    pub(super) fn next_imported(&self) -> Result<&PublicKey, Block> {
        let none = |why: String| Block::new(Guard::NoSuccessor, why);
        if let Err(why) = &self.observed.imported {
            return Err(none(format!("the imported keys cannot be read: {why}")));
        }
        let next = self.imported().next().ok_or_else(|| {
            let algorithm = self.policy.settings().algorithm;
            none(format!(
                "no imported key for {algorithm} is left; bring a new bundle with `chancery ring import`"
            ))
        })?;
        match self.observed.held.iter().any(|key| key.key_id() == next.kid()) {
            true => Ok(&next.public_key),
            false => Err(none(format!(
                "{} is next, and its private half is not in custody; import its bundle again",
                next.kid()
            ))),
        }
    }

    /// Whether the bundle of the key lets it sign only later.
    pub(super) fn not_before(&self, kid: &KeyId) -> Option<Block> {
        let bundled = self.observed.imported.as_ref().ok()?.iter().find(|key| key.kid() == kid)?;
        let left = bundled.not_before?.0.checked_sub(self.observed.now.0).filter(|left| *left > 0)?;
        Some(Block::new(Guard::NotDue, format!("its bundle lets it sign in {left} s and not before")))
    }

    /// What the ring has not taken yet.
    fn imported(&self) -> impl Iterator<Item = &BundledKey> {
        let wanted = self.policy.settings().algorithm;
        let is_new = |key: &&BundledKey| {
            self.ring.key(key.kid()).is_none() && self.ring.tombstone(key.kid()).is_none()
        };
        let imported = self.observed.imported.as_ref().map_or(&[][..], Vec::as_slice);
        imported.iter().filter(is_new).filter(move |key| key.public_key.algorithm() == wanted)
    }
}
