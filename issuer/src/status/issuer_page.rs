//! The page of one issuer.

use chancery_core::ring::KeyState;
use jiff::Timestamp;

use super::keys::{keys, withdrawn_keys};
use super::model::{ConditionRow, FORMAT, IssuerPage, OutsideView, PartRow, Rotation, TargetRow};
use super::overview::replica_row;
use super::remedy::meaning;
use super::snapshot::{IssuerDetails, IssuerSnapshot, ReplicaSnapshot};
use super::standing::{Standing, problems, standing};
use super::state::State;
use super::views::views;
use crate::conditions::{Condition, ConditionType, PartKind};

/// Everything there is to say of one issuer.
pub fn issuer_page(replica: &ReplicaSnapshot, details: &IssuerDetails) -> IssuerPage {
    let issuer = &details.issuer;
    let publishes = replica.publishes;
    IssuerPage {
        format: FORMAT,
        replica: replica_row(replica),
        issuer: issuer.url().to_string(),
        discovery_url: issuer.url().discovery_url(),
        jwks_url: issuer.url().jwks_uri(),
        standing: standing(issuer, publishes),
        problems: problems(issuer, publishes),
        keys: keys(issuer, publishes),
        withdrawn_keys: withdrawn_keys(issuer),
        rotation: rotation(issuer),
        sources: sources(details),
        targets: targets(details, publishes),
        sinks: sinks(details, publishes),
        outside: outside(details),
        conditions: issuer.conditions.iter().map(ConditionRow::from).collect(),
    }
}

fn rotation(issuer: &IssuerSnapshot) -> Option<Rotation> {
    let ring = issuer.known.ring.as_ref()?;
    let followed = !issuer.known.ring_is_older();
    let active = ring.states.iter().find(|(_, state)| *state == KeyState::Active);
    let next = match (followed, ring.is_rotation_asked) {
        (false, _) => "What the ring says is not followed.",
        (true, true) => "A rotation was asked for: it begins as soon as it is safe.",
        (true, false) => {
            "The schedule is known to whoever rotates: `chancery ring status` says when the next rotation is due."
        }
    };
    Some(Rotation {
        epoch: ring.position.epoch,
        generation: ring.position.generation,
        followed,
        active_key: active.map(|(kid, _)| kid.to_string()),
        activated_at: ring.activated,
        asked: ring.is_rotation_asked,
        next,
    })
}

fn sources(details: &IssuerDetails) -> Vec<PartRow> {
    let sources = details.issuer.conditions.iter().filter(|it| it.subject.kind() == PartKind::Source);
    let mut names: Vec<&str> = sources.map(|condition| condition.subject.name()).collect();
    names.dedup();
    names.into_iter().map(|name| part(details, PartKind::Source, name)).collect()
}

fn sinks(details: &IssuerDetails, publishes: bool) -> Vec<PartRow> {
    let sinks = details.issuer.declared.sinks.iter();
    sinks.map(|name| written(part(details, PartKind::Sink, name), publishes)).collect()
}

fn targets(details: &IssuerDetails, publishes: bool) -> Vec<TargetRow> {
    let targets = details.issuer.declared.targets.iter().map(|name| TargetRow {
        part: written(part(details, PartKind::Target, name), publishes),
        drift: fact(details, name, ConditionType::Drifted),
        foreign_keys: fact(details, name, ConditionType::ForeignKeys),
    });
    targets.collect()
}

/// What a replica can say of a part that is written: one that does not publish knows nothing of it.
fn written(row: PartRow, publishes: bool) -> PartRow {
    if row.standing.state != State::Unknown {
        return row;
    }
    let sentence = match publishes {
        true => "It was not read yet.",
        false => "Not known here: ask the replica that publishes.",
    };
    PartRow { standing: Standing { sentence: sentence.to_owned(), ..row.standing }, ..row }
}

/// How a part stands by the worst of its conditions, apart from drift and foreign keys, which are shown by themselves.
fn part(details: &IssuerDetails, kind: PartKind, name: &str) -> PartRow {
    let apart = |it: &&Condition| matches!(it.condition, ConditionType::Drifted | ConditionType::ForeignKeys);
    let mut said = conditions(details, kind, name).filter(|it| !apart(it)).peekable();
    let is_known = said.peek().is_some();
    let worst = said.filter_map(|it| Some((meaning(it)?, it.last_transition_time)));
    let worst = worst.min_by_key(|(meaning, _)| (meaning.state, meaning.rank));
    let standing = match worst {
        Some((meaning, since)) => Standing {
            state: meaning.state,
            sentence: meaning.sentence,
            action: Some(meaning.action.to_owned()),
            since: Some(since),
        },
        None if is_known => Standing::healthy(match kind {
            PartKind::Source => "Every part of it was read.",
            PartKind::Sink => "It holds every key.",
            _ => "It holds what is to be published.",
        }),
        None => Standing { state: State::Unknown, sentence: String::new(), action: None, since: None },
    };
    PartRow { name: name.to_owned(), standing, last_good_at: last_good(details, kind, name) }
}

/// What one condition of a target says.
fn fact(details: &IssuerDetails, target: &str, condition: ConditionType) -> Option<Standing> {
    let mut said = conditions(details, PartKind::Target, target);
    let said = said.find(|it| it.condition == condition)?;
    let (since, state) = (Some(said.last_transition_time), super::remedy::state(said));
    let action = meaning(said).map(|meaning| meaning.action.to_owned());
    Some(Standing { state, sentence: said.message.clone(), action, since })
}

fn conditions<'a>(
    details: &'a IssuerDetails,
    kind: PartKind,
    name: &'a str,
) -> impl Iterator<Item = &'a Condition> {
    let all = details.issuer.conditions.iter();
    all.filter(move |it| it.subject.kind() == kind && it.subject.name() == name)
}

fn last_good(details: &IssuerDetails, kind: PartKind, name: &str) -> Option<Timestamp> {
    details.last_good.iter().find(|last| last.kind == kind && last.name == name).map(|last| last.at)
}

fn outside(details: &IssuerDetails) -> OutsideView {
    let seen = &details.issuer.seen;
    OutsideView {
        looked_at: details.issuer.declared.is_looked_at,
        obstacle: seen.obstacle.as_ref().map(ToString::to_string),
        last_look_at: details.last_look,
        wait_seconds: seen.record.wait(seen.usual_wait).as_secs(),
        longest_max_age_seconds: seen.record.longest_lifetime().map(|longest| longest.as_secs()),
        views: views(&details.issuer),
    }
}
