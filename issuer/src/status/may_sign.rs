//! Whether a key may sign, and if not, why, in words for a person.

use std::time::Duration;

use chancery_core::KeyId;
use chancery_core::ring::KeyState;
use chancery_core::visibility::Obstacle;

use super::snapshot::IssuerSnapshot;

/// Whether a key may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MaySign {
    /// Every relying party can have it.
    Yes,
    /// It will, once nothing of this is in the way any more.
    NotYet(Vec<Obstacle>),
    /// It should not any more.
    Over(&'static str),
    /// Nobody can tell, and why.
    NotKnown(String),
}

impl MaySign {
    /// What is to be said of a key of an issuer by a replica that publishes or not. Rules, in the order in which the code
    /// applies them:
    ///
    /// 1. A key that a ring has stopped, or that no source shows any more, is over, whoever sees it.
    /// 2. Where nobody looks from outside, and on a replica that does not observe and reads no record, it is not known.
    /// 3. Otherwise the visibility record decides.
    pub fn of(issuer: &IssuerSnapshot, publishes: bool, kid: &KeyId) -> Self {
        let known = &issuer.known;
        if known.ring_state(kid).is_some_and(KeyState::is_draining) && !known.ring_is_older() {
            return Self::Over("it has stopped to sign; it stays until its last token is dead");
        }
        if known.key(kid).is_some_and(|key| key.leaves_after.is_some()) {
            return Self::Over("no source shows it any more, so nobody should sign with it");
        }
        if !issuer.declared.is_looked_at {
            return Self::NotKnown("nobody looks from outside (`verify.enabled: false`)".to_owned());
        }
        match &issuer.seen.obstacle {
            Some(obstacle) if !publishes => {
                Self::NotKnown(format!("{obstacle}, and this replica does not look itself"))
            }
            _ => match issuer.seen.obstacles(kid) {
                obstacles if obstacles.is_empty() => Self::Yes,
                obstacles => Self::NotYet(obstacles),
            },
        }
    }

    /// What is in the way, as sentences.
    pub fn because(&self) -> Vec<String> {
        match self {
            Self::Yes => Vec::new(),
            Self::NotYet(obstacles) => obstacles.iter().map(ToString::to_string).collect(),
            Self::Over(why) => vec![(*why).to_owned()],
            Self::NotKnown(why) => vec![why.clone()],
        }
    }

    /// How long it takes at least, if nothing but time is in the way.
    pub fn earliest(&self) -> Option<Duration> {
        let Self::NotYet(obstacles) = self else { return None };
        let still = obstacles.iter().map(|obstacle| match obstacle {
            Obstacle::TooShort { still_seconds, .. } | Obstacle::Interrupted { still_seconds, .. } => {
                Some(*still_seconds)
            }
            _ => None,
        });
        still.collect::<Option<Vec<u64>>>()?.into_iter().max().map(Duration::from_secs)
    }

    /// Whether it was seen for long enough before, and was only not looked at in between, as after a restart. Whoever has
    /// signed with it goes on.
    pub fn is_only_interrupted(&self) -> bool {
        let Self::NotYet(obstacles) = self else { return false };
        obstacles.iter().all(|obstacle| matches!(obstacle, Obstacle::Interrupted { .. }))
    }
}
