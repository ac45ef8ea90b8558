//! What the status of objects is made of.

use std::sync::Arc;

use crate::conditions::ConditionStore;
use crate::leadership::Leading;
use crate::metrics::Metrics;
use crate::roster::Roster;

/// What the status of objects is made of.
#[derive(Debug)]
pub struct Watched {
    /// What is said about issuers.
    pub conditions: Arc<ConditionStore>,
    /// What they show.
    pub roster: Roster,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Whether this replica publishes.
    pub leading: Leading,
}
