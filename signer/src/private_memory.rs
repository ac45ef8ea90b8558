//! What keeps private keys within this process.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tracing::warn;

/// Keeps private keys out of core dumps and from debuggers of other processes of this user.
pub fn keep() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "a core dump of this process would hold private keys; set LimitCORE=0");
    }
}
