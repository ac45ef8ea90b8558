//! `chancery ring status`: the keys, the signers, and what is waited for.

use std::fmt::Write as _;
use std::time::Duration;

use chancery_cluster::cell::StoreMode;
use chancery_core::in_words;
use chancery_core::ring::{Custody, KeyState, RingKey};
use chancery_core::rotation::Schedule;
use chancery_signer::key_file_node::turn_cell;
use jiff::Timestamp;
use serde_json::json;

use super::look::{Look, LookArgs};
use super::servers;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    look: LookArgs,
    /// For a machine: the ring as it is kept, and the plan
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut look = args.look.take().await?;
    let turn = turn(&look).await.unwrap_or_else(|error| {
        look.notes.push(format!("whose turn it is to restart is not known: {error:#}"));
        None
    });
    if args.json {
        let all = json!({
            "issuer": look.config.issuer, "ring": look.ring, "turn": turn,
            "apiServers": servers::value(&look.observations.api_servers), "plan": look.plan, "notes": look.notes
        });
        return say(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    say(&text(&look, turn.as_deref())?)
}

/// Whose kube-apiserver may restart now, where kube-apiservers sign with files.
async fn turn(look: &Look) -> anyhow::Result<Option<String>> {
    let store = look.config.ring.open(&look.config.base, StoreMode::ReadOnly).await?;
    let stored = turn_cell(&store, &look.config.issuer).load().await?;
    Ok(stored.and_then(|stored| stored.document.holder))
}

fn text(look: &Look, turn: Option<&str>) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "{} at {}\n\nkeys", look.config.issuer, look.ring.position())?;
    for key in look.ring.keys() {
        writeln!(text, "  {}  {:<10}  {}", key.kid(), key.state, about(look, key))?;
    }
    for over in look.ring.tombstones() {
        let custody = if over.custody == Custody::Held { ", its private half is still held" } else { "" };
        writeln!(text, "  {}  {:<10}  over{custody}", over.kid, over.state)?;
    }
    writeln!(text, "\nsigners")?;
    for (name, said) in look.ring.signers() {
        write!(text, "  {name}  at {}, {} keys loaded", said.position, said.loaded.len())?;
        if let Some(kid) = &said.signs {
            write!(text, ", signs with {kid} still")?;
        }
        writeln!(text)?;
    }
    let known: Vec<&str> = look.ring.signers().map(|(name, _)| name).collect();
    for name in look.observations.expected_signers.iter().filter(|name| !known.contains(&name.as_str())) {
        writeln!(text, "  {name}  never heard")?;
    }
    if let Some(name) = turn {
        writeln!(text, "  it is the turn of {name} to restart its kube-apiserver; the others wait for that")?;
    }
    let servers = &look.observations.api_servers;
    if !servers.is_empty() {
        write!(text, "\nkube-apiservers\n{}", servers::table(servers, &look.ring))?;
    }
    canaries(look, &mut text)?;
    writeln!(text, "\nnext rotation\n  {}", next(look))?;
    writeln!(text, "\nplan\n{}", indented(&look.plan.to_string()))?;
    for note in &look.notes {
        writeln!(text, "note: {note}")?;
    }
    Ok(text)
}

/// What those said who are shown a token of the key that signs next.
fn canaries(look: &Look, text: &mut String) -> anyhow::Result<()> {
    let declared = &look.config.policy.settings().canaries;
    if declared.is_empty() {
        return Ok(());
    }
    writeln!(text, "\ncanaries")?;
    let shown = look.observations.canaries.iter().next();
    for canary in declared {
        let said = shown.and_then(|(kid, answers)| Some((kid, answers.get(&canary.name)?)));
        match said {
            Some((kid, said)) => writeln!(text, "  {}  of {kid}: {said}", canary.name)?,
            None => writeln!(
                text,
                "  {}  is asked when everybody has seen the standby for long enough",
                canary.name
            )?,
        }
    }
    Ok(())
}

/// What there is to say of a key in its state.
fn about(look: &Look, key: &RingKey) -> String {
    let age = |seconds| in_words(Duration::from_secs(seconds));
    let mut words = vec![key.public_key.algorithm().to_string()];
    match key.state {
        KeyState::Active => words.push(format!("signs for {}", age(key.active_seconds))),
        KeyState::Pending | KeyState::Published => words.push(visible(look, key)),
        state if state.is_draining() => {
            let still = look.ring.signing_still(key);
            if still.is_empty() {
                let left = look.config.policy.drain_left(key, key.outlived_by().any());
                words.push(format!("stopped for {}, stays {} more", age(key.drained_seconds), age(left)));
            } else {
                words.push(format!("{} may sign with it still", still.join(", ")));
            }
        }
        _ => {}
    }
    if key.tainted {
        words.push("tainted".to_owned());
    }
    if key.is_to_be_revoked() {
        words.push("to be revoked".to_owned());
    }
    match key.custody {
        Custody::Held => {}
        Custody::Elsewhere => words.push("private half elsewhere".to_owned()),
        Custody::Destroyed => words.push("private half destroyed".to_owned()),
    }
    words.join(", ")
}

fn visible(look: &Look, key: &RingKey) -> String {
    let Ok(record) = &look.observations.visibility else {
        return "nobody knows whether it is seen".to_owned();
    };
    let seen =
        record.views().map(|(_, view)| view.keys.get(key.kid()).map_or(0, |seen| seen.visible_seconds));
    let seen = in_words(Duration::from_secs(seen.min().unwrap_or_default()));
    let wait = in_words(record.wait(look.config.policy.wait()));
    format!("seen everywhere for {seen} of {wait}")
}

/// When the schedule asks next.
fn next(look: &Look) -> String {
    if look.ring.is_rotation_asked() {
        return "asked for: as soon as it is safe".to_owned();
    }
    let active = look.ring.active().map_or(0, |key| key.active_seconds);
    match look.config.policy.settings().schedule {
        Schedule::ByHand => "when somebody asks: `chancery ring rotate`".to_owned(),
        Schedule::Every(period) => {
            let left = period.saturating_sub(Duration::from_secs(active));
            format!("in {} of accumulated time; every {}", in_words(left), in_words(period))
        }
        Schedule::Calendar { .. } => match look.observations.calendar {
            Some(due) => match i64::try_from(due.at.0).ok().and_then(|at| Timestamp::from_second(at).ok()) {
                Some(at) => format!(
                    "{at}, in a window of {}",
                    in_words(Duration::from_secs(due.until.0.saturating_sub(due.at.0)))
                ),
                None => "out of reach of any clock".to_owned(),
            },
            None => "the calendar names no date".to_owned(),
        },
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
