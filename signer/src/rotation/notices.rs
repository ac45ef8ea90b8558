//! What of a rotation is logged: each step with its reason, each thing that is waited for once, each trouble once.

use std::collections::BTreeSet;

use chancery_core::IssuerUrl;
use chancery_core::rotation::{BlockedStep, Guard, ImportedLeft, Plan, PlannedStep};
use tracing::{error, info, warn};

/// What was said already and goes on.
#[derive(Debug)]
pub(super) struct Notices {
    issuer: IssuerUrl,
    waits: BTreeSet<String>,
    troubles: BTreeSet<String>,
    bundles: Option<ImportedLeft>,
}

impl Notices {
    pub fn new(issuer: IssuerUrl) -> Self {
        Self { issuer, waits: BTreeSet::new(), troubles: BTreeSet::new(), bundles: None }
    }

    /// A step was taken.
    pub fn taken(&self, PlannedStep { step, because }: &PlannedStep) {
        info!(issuer = %self.issuer, because, "ring: {step}");
    }

    /// What holds steps back, where it is new.
    pub fn blocked(&mut self, plan: &Plan) {
        let mut waits = BTreeSet::new();
        for BlockedStep { step, blocks, .. } in &plan.blocked {
            for block in blocks {
                // Time that passes makes nothing new.
                let wait = format!("{step} {} {}", block.guard, lasting(&block.why));
                if !self.waits.contains(&wait) {
                    let (issuer, guard, why) = (&self.issuer, block.guard, &block.why);
                    match is_usual(guard) {
                        true => info!(%issuer, %guard, why, "ring: waits before it can {step}"),
                        false => warn!(%issuer, %guard, why, "ring: waits before it can {step}"),
                    }
                }
                waits.insert(wait);
            }
        }
        self.waits = waits;
    }

    /// What is left of the bundles, where it is few and has changed.
    pub fn imported(&mut self, left: Option<&ImportedLeft>) {
        if let Some(left) = left.filter(|left| left.is_low && self.bundles.as_ref() != Some(*left)) {
            warn!(issuer = %self.issuer, "ring: of the imported keys, {left}");
        }
        self.bundles = left.cloned();
    }

    /// What went wrong in a round, nothing included.
    pub fn troubles(&mut self, troubles: Vec<String>) {
        let issuer = &self.issuer;
        for trouble in troubles.iter().filter(|trouble| !self.troubles.contains(*trouble)) {
            error!(%issuer, "ring: {trouble}");
        }
        if troubles.is_empty() && !self.troubles.is_empty() {
            info!(%issuer, "ring: everything can be read and written again");
        }
        self.troubles = troubles.into_iter().collect();
    }
}

/// What of a reason stays the same while time passes: its words without numbers.
pub(super) fn lasting(why: &str) -> String {
    why.split(' ').filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a rotation that goes well passes through it.
pub(super) fn is_usual(guard: Guard) -> bool {
    use Guard::{
        CanaryMissing, NotDue, NotVisible, RollbackWindow, RotationInFlight, SignerNotLoaded,
        SignerNotStopped,
    };
    use Guard::{TokensAlive, VisibleTooShort};
    matches!(
        guard,
        CanaryMissing
            | NotDue
            | NotVisible
            | RollbackWindow
            | RotationInFlight
            | SignerNotLoaded
            | SignerNotStopped
            | TokensAlive
            | VisibleTooShort
    )
}
