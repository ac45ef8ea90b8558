//! `chancery publish restore`: everything that a configuration describes, brought back from what is left of it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use chancery_core::{DocumentKind, IssuerUrl, KeyId, Owner, PublicKey};
use chancery_issuer::config::Config;
use chancery_issuer::restore::Restoration;
use serde_json::{Value, json};

use super::FOUND;
use crate::output::say;
use crate::runtime::block_on;

#[derive(clap::Args)]
#[command(
    after_help = "The documents are written again from the state, the key sources and what is still published. A key that is published and that nobody else knows is imported: it stays until a person withdraws it. Nothing becomes empty and nothing is withdrawn that was not withdrawn before. Stop the service first.\nExit code: 0 when every target is up to date, 1 when something failed, 3 when `--plan` found something to do."
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
    /// For each target the paths that are, or were, written, or what is in the way.
    targets: Vec<(String, Result<Vec<&'static str>, String>)>,
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
    let restoration = Restoration::read(config, position, (&args.config, args.owner.as_ref())).await?;
    let targets = if args.plan {
        let paths = |plan: chancery_core::publication::Plan| {
            plan.writes.iter().map(|write| write.document.kind.path()).collect()
        };
        let plans = restoration.plan().await;
        plans.into_iter().map(|(name, plan)| (name, plan.map(paths))).collect()
    } else {
        let paths = |outcome: chancery_publisher::Outcome| {
            outcome.written.into_iter().map(DocumentKind::path).collect()
        };
        let outcomes = restoration.carry_out(config, &args.config).await?;
        outcomes.into_iter().map(|(name, outcome)| (name, outcome.map(paths))).collect()
    };
    Ok(Restored { restoration, targets })
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
    let targets = || restored.iter().flat_map(|issuer| &issuer.targets);
    if targets().any(|(_, result)| result.is_err()) {
        return Ok(ExitCode::FAILURE);
    }
    let to_do = targets().any(|(_, paths)| paths.as_ref().is_ok_and(|paths| !paths.is_empty()));
    Ok(if args.plan && to_do { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
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
        let Restoration { issuer, owner, had_state, imported, unread, .. } = &self.restoration;
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
        for (name, result) in &self.targets {
            let line = match result {
                Err(problem) => format!("failed: {problem}"),
                Ok(paths) if paths.is_empty() => "up to date".to_owned(),
                Ok(paths) if planned => format!("would write {}", paths.join(" and ")),
                Ok(paths) => format!("wrote {}", paths.join(" and ")),
            };
            text.push_str(&format!("\ntarget  {name}\n  {line}\n"));
        }
        text.push('\n');
        text
    }

    fn to_json(&self) -> Value {
        let Restoration { issuer, owner, had_state, imported, unread, .. } = &self.restoration;
        let targets = self.targets.iter().map(|(name, result)| match result {
            Ok(paths) => json!({ "target": name, "written": paths }),
            Err(problem) => json!({ "target": name, "error": problem }),
        });
        json!({
            "issuer": issuer.as_str(),
            "owner": owner.as_str(),
            "stateFound": had_state,
            "keys": self.keys(),
            "imported": imported,
            "unread": unread,
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}
