//! Everything that a node, or a control plane of machines, would do now, one step after another, if each went well and nobody
//! else did anything.

use std::fmt;

use super::{LastRestart, NodeView, Rollout, RolloutStep, RolloutWait, decide};

/// More steps than any node takes before it waits or is done.
const STEPS: usize = 20;

/// The steps, and how they end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast<S = RolloutStep, W = RolloutWait> {
    /// Each with its reason, in this order.
    pub steps: Vec<(S, String)>,
    /// What is waited for then; nothing when everything is done.
    pub then: Option<W>,
}

/// Goes on from `view` until nothing is left to be done.
pub fn foresee(view: &NodeView<'_>) -> Forecast {
    let (mut acknowledged, mut files) = (view.acknowledged.cloned(), view.files.clone());
    let (mut server, mut turn) = (view.server.cloned(), view.turn.map(str::to_owned));
    let (mut first, mut restart) = (view.first.cloned(), view.restart);
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        let now = NodeView {
            acknowledged: acknowledged.as_ref(),
            files: &files,
            first: first.as_ref(),
            server: server.as_ref(),
            turn: turn.as_deref(),
            restart,
            ..view.clone()
        };
        let (step, because) = match decide(&now) {
            Rollout::Do { step, because } => (step, because),
            Rollout::Wait(wait) => return Forecast { steps, then: Some(wait) },
            Rollout::Done => break,
        };
        match step.clone() {
            RolloutStep::Acknowledge(said) => acknowledged = Some(said),
            RolloutStep::TakeTurn => turn = Some(view.name.to_owned()),
            RolloutStep::WriteVerifying(kids) => (files.verifies, first) = (kids, files.signs.clone()),
            RolloutStep::WriteSigning(kid) => (files.signs, first) = (Some(kid.clone()), Some(kid)),
            RolloutStep::Restart => (server, restart) = (Some(files.clone()), LastRestart::Over),
            RolloutStep::GiveTurnBack => turn = None,
        }
        steps.push((step, because));
    }
    Forecast { steps, then: None }
}

impl<S: fmt::Display, W: fmt::Display> fmt::Display for Forecast<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, because) in &self.steps {
            writeln!(f, "then     {step}, since {because}")?;
        }
        match &self.then {
            Some(wait) => writeln!(f, "waits    {wait}"),
            None if self.steps.is_empty() => writeln!(f, "nothing to do"),
            None => Ok(()),
        }
    }
}
