//! `chancery publish restore`: everything that a configuration describes, brought back from what is left of it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use chancery_core::{IssuerUrl, KeyId, Owner, PublicKey};
use chancery_issuer::config::Config;
use chancery_issuer::restore::{Restoration, RestoreChoices, Step};
use serde_json::{Value, json};

use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::block_on;

#[derive(clap::Args)]
#[command(
    after_help = "The documents are written again from the state, the key sources and what is still published. Where the state is lost, each published key that no source shows is shown, and has to be named with --import, if tokens of it are in use, or with --drop. Where the state is whole nothing is imported: a key that it does not know is an intruder's. Stop the service first.\nExit code: 0 when every place is up to date, 1 when something failed, 3 when `--plan` found something to do."
)]
pub struct Args {
    /// The configuration of the service
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only this issuer of it
    #[arg(long, value_name = "URL")]
    issuer: Option<IssuerUrl>,
    /// The id in the marker of the documents, when the state that kept it is lost
    #[arg(long, value_name = "ID")]
    owner: Option<Owner>,
    /// Where the state is lost: go on publishing this key, which no source shows. May be repeated
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    import: Vec<KeyId>,
    /// Where the state is lost: let this published key go. May be repeated
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    drop: Vec<KeyId>,
    /// Show what would be done and change nothing
    #[arg(long)]
    plan: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What came of one issuer.
struct Restored {
    restoration: Restoration,
    /// What was, or is to be, done in each place.
    steps: Vec<Step>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::read(&args.config)?;
    block_on(2, async {
        let wanted = |url: &IssuerUrl| args.issuer.as_ref().is_none_or(|wanted| wanted == url);
        let positions: Vec<usize> = config
            .issuers
            .iter()
            .enumerate()
            .filter(|(_, issuer)| wanted(&issuer.value.url))
            .map(|(position, _)| position)
            .collect();
        ensure!(
            !positions.is_empty(),
            "{} has no such issuer; name one of its `url`s",
            args.config.display()
        );
        ensure!(
            args.owner.is_none() || positions.len() == 1,
            "--owner is the id of one issuer, and the configuration has {}; name one of them with --issuer",
            positions.len(),
        );
        let mut restored = Vec::new();
        for position in positions {
            restored.push(restore(&config, position, &args).await?);
        }
        report(&restored, &args)
    })
}

async fn restore(config: &Config, position: usize, args: &Args) -> anyhow::Result<Restored> {
    let (import, drop) = (args.import.clone(), args.drop.clone());
    let choices = RestoreChoices { owner: args.owner.clone(), import, drop };
    let mut restoration = Restoration::read(config, position, &args.config, &choices).await?;
    let steps = match args.plan {
        true => restoration.plan().await,
        false => restoration.carry_out(config, &args.config).await?,
    };
    Ok(Restored { restoration, steps })
}

fn report(restored: &[Restored], args: &Args) -> anyhow::Result<ExitCode> {
    if args.json {
        let document: Vec<Value> = restored.iter().map(Restored::to_json).collect();
        say(&format!("{}\n", serde_json::to_string_pretty(&document).context("cannot write JSON")?))?;
    } else {
        for issuer in restored {
            say(&issuer.to_text(args.plan))?;
        }
    }
    let results = || restored.iter().flat_map(|issuer| &issuer.steps).map(|step| &step.result);
    if results().any(Result::is_err) {
        return Ok(ExitCode::FAILURE);
    }
    let to_do = results().flatten().any(|done| !done.is_empty());
    Ok(unless_found(!(args.plan && to_do)))
}

impl Restored {
    fn keys(&self) -> Vec<&KeyId> {
        let publication = self.restoration.publication.iter();
        publication
            .flat_map(|publication| publication.documents.jwks().keys())
            .map(PublicKey::key_id)
            .collect()
    }

    fn to_text(&self, planned: bool) -> String {
        let Restoration { issuer, owner, had_state, imported, undecided, unknown, unread, .. } =
            &self.restoration;
        let state = if *had_state { "found" } else { "lost, begun anew" };
        let mut text = format!("issuer  {issuer}\nowner   {owner}\nstate   {state}\n");
        for problem in unread {
            text.push_str(&format!("\nnot read: {problem}\n"));
        }
        text.push_str("\nkeys\n");
        for kid in self.keys() {
            let note = if imported.contains(kid) { "  imported from what is published, stays" } else { "" };
            text.push_str(&format!("  {kid}{note}\n"));
        }
        for kid in undecided {
            text.push_str(&format!("  {kid}  published, and no source shows it: say --import or --drop\n"));
        }
        for kid in unknown {
            text.push_str(&format!("  {kid}  published, and our state does not know it: it goes\n"));
        }
        for Step { place, result } in &self.steps {
            let line = match result {
                Err(problem) => format!("failed: {problem}"),
                Ok(done) if done.is_empty() => "up to date".to_owned(),
                Ok(done) if planned => format!("to be written: {}", done.join(", ")),
                Ok(done) => format!("written: {}", done.join(", ")),
            };
            text.push_str(&format!("\n{place}\n  {line}\n"));
        }
        text.push('\n');
        text
    }

    fn to_json(&self) -> Value {
        let Restoration { issuer, owner, had_state, imported, undecided, unknown, unread, .. } =
            &self.restoration;
        let steps = self.steps.iter().map(|Step { place, result }| match result {
            Ok(done) => json!({ "place": place, "written": done }),
            Err(problem) => json!({ "place": place, "error": problem }),
        });
        json!({
            "issuer": issuer.as_str(),
            "owner": owner.as_str(),
            "stateFound": had_state,
            "keys": self.keys(),
            "imported": imported,
            "undecided": undecided,
            "unknown": unknown,
            "unread": unread,
            "steps": steps.collect::<Vec<_>>(),
        })
    }
}
