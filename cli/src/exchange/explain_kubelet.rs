//! `chancery exchange explain-kubelet`: what keeps kubelet's image credential providers from working.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use chancery_exchange::kubelet::config::{Context, audiences, check};
use chancery_exchange::kubelet::rbac;
use serde_json::Value;

use crate::exit::unless_found;
use crate::given;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    /// Kubelet's --image-credential-provider-config
    #[arg(value_name = "FILE")]
    config: PathBuf,
    /// Manifests among which the right of nodes to ask for the audience is looked for. May be repeated
    #[arg(long, value_name = "FILE")]
    rbac: Vec<PathBuf>,
    /// An image of which a plugin should be asked. May be repeated
    #[arg(long)]
    image: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = documents(&args.config)?.into_iter().next().unwrap_or_default();
    let rbac: Vec<Vec<Value>> = args.rbac.iter().map(|path| documents(path)).collect::<Result<_, _>>()?;
    let context = Context { rbac: rbac.concat(), images: args.image.clone() };
    let findings = check(&config, &context);
    let mut text = String::new();
    if args.json {
        let report = serde_json::json!({ "passes": findings.is_empty(), "findings": findings });
        text = format!("{}\n", serde_json::to_string_pretty(&report)?);
    } else {
        for finding in &findings {
            _ = writeln!(text, "{} [{}]: {}", finding.place, finding.code, finding.words);
        }
        if findings.is_empty() {
            text.push_str("kubelet takes this configuration, and asks its plugins with a token\n");
        }
        if args.rbac.is_empty() {
            for audience in audiences(&config) {
                _ = writeln!(
                    text,
                    "\nnodes need this, or kubelet gets no token for {audience:?}:\n{}",
                    rbac::manifest(audience)
                );
            }
        }
    }
    say(&text)?;
    Ok(unless_found(findings.is_empty()))
}

/// The documents of a file of YAML, or of JSON, which is YAML too.
fn documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let bytes = given::read(path)?;
    let text = std::str::from_utf8(&bytes).with_context(|| format!("{} is no text", path.display()))?;
    serde_saphyr::from_multiple(text).with_context(|| format!("{} is no YAML", path.display()))
}
