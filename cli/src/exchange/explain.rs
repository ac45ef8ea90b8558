//! `chancery exchange explain`: what would be exchanged, and which trust makes it pass.

use std::process::ExitCode;

use chancery_exchange::explain::explain;
use chancery_exchange::subject::Environment;
use jiff::Timestamp;

use super::way::Way;
use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::block_on;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    /// Read the documents of the token's issuer, as whoever verifies it does, and look for its key in them
    #[arg(long)]
    check_issuer: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let explanation = block_on(1, async {
        let opened = args.way.open(&Environment::of_process()).await?;
        let audience = opened.chain.expectation.audiences.first().cloned().unwrap_or_default();
        let token = opened.chain.source.token(&audience).await;
        let mut explanation = explain(&opened.chain, token.as_ref(), Timestamp::now());
        if let (true, Ok(token)) = (args.check_issuer, &token) {
            explanation.check_issuer(opened.runner.transport(), token).await;
        }
        Ok(explanation)
    })?;
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&explanation)?),
        false => explanation.to_text(),
    };
    say(&text)?;
    Ok(unless_found(explanation.passes))
}
