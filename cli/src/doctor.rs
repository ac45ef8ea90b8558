//! `chancery doctor`: one look at an issuer from every side, explained.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use chancery_core::IssuerUrl;
use chancery_core::lint::Finding;
use chancery_issuer::config::Config;
use chancery_issuer::doctor::{Look, Workload, examine};
use serde_json::{Value, json};

use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{Logs, block_on};

#[derive(clap::Args)]
#[command(
    after_help = "Nothing is changed. With --mint, a token is requested in the name of that ServiceAccount, compared and dropped.\nExit code: 0 when nothing is wrong, 3 when something was found, 1 when the configuration cannot be used.\nThe rules are in docs/doctor.md and docs/verify.md."
)]
pub struct Args {
    /// The configuration of the service
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only this issuer of it
    #[arg(long, value_name = "URL")]
    issuer: Option<IssuerUrl>,
    /// Mint a token of this ServiceAccount and compare its issuer and key with what the world sees
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = workload)]
    mint: Option<Workload>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn workload(text: &str) -> Result<Workload, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Workload { namespace: namespace.to_owned(), service_account: name.to_owned() })
        }
        _ => Err(format!("{text:?} came; expected NAMESPACE/NAME of a ServiceAccount")),
    }
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("error,aws_config=off")?;
    let config = Config::read(&args.config)?;
    let looks = block_on(2, async {
        let mut looks = Vec::new();
        for issuer in &config.issuers {
            if args.issuer.as_ref().is_none_or(|wanted| *wanted == issuer.value.url) {
                let line = issuer.referenced.line();
                let seen = examine(&issuer.value, line, &args.config, args.mint.as_ref()).await?;
                looks.push((issuer.value.url.clone(), seen));
            }
        }
        Ok(looks)
    })?;
    ensure!(!looks.is_empty(), "{} has no such issuer; name one of its `url`s", args.config.display());
    if args.json {
        let document: Vec<Value> = looks.iter().map(|(issuer, looks)| to_json(issuer, looks)).collect();
        say(&format!("{}\n", serde_json::to_string_pretty(&document).context("cannot write JSON")?))?;
    } else {
        for (issuer, looks) in &looks {
            say(&to_text(issuer, looks))?;
        }
    }
    let good = looks.iter().flat_map(|(_, looks)| looks).all(Look::is_good);
    Ok(unless_found(good))
}

fn to_json(issuer: &IssuerUrl, looks: &[Look]) -> Value {
    let looks = looks.iter().map(|look| {
        json!({ "subject": look.subject, "seen": look.seen, "good": look.is_good(), "findings": look.findings })
    });
    json!({ "issuer": issuer.as_str(), "looks": looks.collect::<Vec<_>>() })
}

fn to_text(issuer: &IssuerUrl, looks: &[Look]) -> String {
    let mut text = format!("issuer  {issuer}\n");
    for Look { subject, seen, findings } in looks {
        text.push_str(&format!("\n{subject}: {seen}\n"));
        for Finding { rule, severity, message, remedy, .. } in findings {
            text.push_str(&format!("  {severity} {rule}: {message}\n    remedy: {remedy}\n"));
        }
    }
    text.push('\n');
    text
}
