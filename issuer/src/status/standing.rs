//! How an issuer stands: one sentence, and what to do.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. Every condition that is not good is a problem, as bad as [`remedy`](super::remedy) says; so is a key ring that comes
//!    from a backup, an issuer without documents or without a key, and a key that waits to be seen.
//! 2. The worst problem speaks for the issuer; of those that are as bad, the most urgent.
//! 3. A key that a ring signs with, or that was seen for long enough before a restart, does not wait.

use chancery_core::ring::KeyState;
use chancery_core::visibility::Obstacle;
use chancery_core::{KeyId, in_words};
use jiff::Timestamp;
use serde::Serialize;

use super::may_sign::MaySign;
use super::remedy::meaning;
use super::snapshot::IssuerSnapshot;
use super::state::State;

/// How something stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// In one word.
    pub state: State,
    /// In one sentence.
    pub sentence: String,
    /// What to do, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Since when it is so, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Standing {
    /// All is well.
    pub fn healthy(sentence: impl Into<String>) -> Self {
        Self { state: State::Healthy, sentence: sentence.into(), action: None, since: None }
    }
}

/// A problem and how urgent it is among those that are as bad.
struct Ranked {
    rank: usize,
    standing: Standing,
}

impl Ranked {
    /// Less urgent than what conditions say, since it is found by what they are about.
    fn late(state: State, sentence: impl Into<String>, action: &str) -> Self {
        let (sentence, action) = (sentence.into(), Some(action.to_owned()));
        Self { rank: usize::MAX, standing: Standing { state, sentence, action, since: None } }
    }
}

/// How an issuer stands, said by a replica that publishes or not.
pub fn standing(issuer: &IssuerSnapshot, publishes: bool) -> Standing {
    let worst = problems(issuer, publishes).into_iter().next();
    worst.unwrap_or_else(|| Standing::healthy(healthy(issuer, publishes)))
}

/// Everything that is not as it should be, the worst first.
pub fn problems(issuer: &IssuerSnapshot, publishes: bool) -> Vec<Standing> {
    let said = issuer.conditions.iter().filter_map(|condition| {
        let meaning = meaning(condition)?;
        let (state, sentence) = (meaning.state, meaning.sentence);
        let (action, since) = (Some(meaning.action.to_owned()), Some(condition.last_transition_time));
        Some(Ranked { rank: meaning.rank, standing: Standing { state, sentence, action, since } })
    });
    let others = [older_ring(issuer), no_documents(issuer), no_key(issuer), waiting(issuer, publishes)];
    let mut problems: Vec<Ranked> = said.chain(others.into_iter().flatten()).collect();
    problems.sort_by_key(|problem| (problem.standing.state, problem.rank));
    problems.into_iter().map(|problem| problem.standing).collect()
}

fn older_ring(issuer: &IssuerSnapshot) -> Option<Ranked> {
    let known = &issuer.known;
    let (ring, followed) = (known.ring.as_ref()?, known.followed?);
    let sentence = format!(
        "The key ring is at {}, and was at {followed} before: it comes from a backup, and what it says is not followed.",
        ring.position
    );
    let action = "Bring back the later one, or have this one go on after it: `chancery ring reset`.";
    known.ring_is_older().then(|| Ranked::late(State::Broken, sentence, action))
}

fn no_documents(issuer: &IssuerSnapshot) -> Option<Ranked> {
    let progress = &issuer.progress;
    if progress.has_documents || progress.problem.is_some() {
        return None;
    }
    Some(match progress.waited_for {
        true => Ranked::late(
            State::Broken,
            "No key has been seen yet, so that nothing is published.",
            "Look at its sources: none shows a key, or one does not answer.",
        ),
        false => Ranked::late(
            State::Waiting,
            "Its sources are being read for the first time.",
            "Nothing: it passes by itself.",
        ),
    })
}

fn no_key(issuer: &IssuerSnapshot) -> Option<Ranked> {
    let is_empty = issuer.publication.is_some() && issuer.kids().next().is_none();
    is_empty.then(|| {
        Ranked::late(
            State::Attention,
            "Every key was revoked: an empty set is published, and every token of this issuer is refused.",
            "Publish another key, unless the issuer is to be out of use.",
        )
    })
}

/// The keys that nobody may sign with yet, and somebody could.
pub(super) fn waiting_keys(issuer: &IssuerSnapshot, publishes: bool) -> Vec<(&KeyId, MaySign)> {
    let is_idle = |kid: &&KeyId| match issuer.known.ring_state(kid) {
        Some(state) => matches!(state, KeyState::Pending | KeyState::Published),
        None => true,
    };
    let keys = issuer.kids().filter(is_idle).map(|kid| (kid, MaySign::of(issuer, publishes, kid)));
    let waits =
        |(_, may): &(&KeyId, MaySign)| matches!(may, MaySign::NotYet(_)) && !may.is_only_interrupted();
    keys.filter(waits).collect()
}

fn waiting(issuer: &IssuerSnapshot, publishes: bool) -> Option<Ranked> {
    let keys = waiting_keys(issuer, publishes);
    let (kid, first) = keys.first()?;
    let earliest = keys.iter().map(|(_, may)| may.earliest()).collect::<Option<Vec<_>>>();
    let sentence = match (earliest.and_then(|all| all.into_iter().max()), keys.len()) {
        (Some(still), 1) => format!(
            "Key {kid} is not visible for long enough yet; it may sign in {} at the earliest.",
            in_words(still)
        ),
        (Some(still), many) => format!(
            "{many} keys are not visible for long enough yet; all of them may sign in {} at the earliest.",
            in_words(still)
        ),
        (None, many) => {
            let others = if many > 1 { format!(" (and {} more)", many - 1) } else { String::new() };
            format!("Key {kid}{others} may not sign yet: {}.", in_the_way(first))
        }
    };
    let action =
        "Nothing, if the look from outside succeeds: it happens by itself. Do not sign with it before.";
    Some(Ranked::late(State::Waiting, sentence, action))
}

/// The first thing in the way of a key that is not time alone.
fn in_the_way(may: &MaySign) -> String {
    let MaySign::NotYet(obstacles) = may else { return String::new() };
    let is_time = |it: &&Obstacle| matches!(it, Obstacle::TooShort { .. } | Obstacle::Interrupted { .. });
    let obstacle = obstacles.iter().find(|it| !is_time(it)).or(obstacles.first());
    obstacle.map(ToString::to_string).unwrap_or_default()
}

fn healthy(issuer: &IssuerSnapshot, publishes: bool) -> String {
    let published = match issuer.kids().count() {
        1 => "1 key is published".to_owned(),
        many => format!("{many} keys are published"),
    };
    let seen = match issuer.declared.is_looked_at {
        true => "",
        false => "; nobody looks from outside, so that nobody knows which of them may sign",
    };
    let known = match publishes {
        true => "",
        false => ", as far as a replica knows that does not publish",
    };
    format!("All is as it should be: {published}{seen}{known}.")
}
