//! `chancery lint`: an issuer URL and keys held against what relying parties accept, without touching the network.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use chancery_core::jwks::ObservedJwks;
use chancery_core::lint::{Finding, Severity, lint_keys, lint_text};
use chancery_core::profile::{RelyingParty, list};
use chancery_core::quoted::escaped;
use chancery_core::{Jwks, key_file};
use serde_json::json;

use crate::exit::unless_found;
use crate::given;

#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 when nothing or only notes are found, 3 on a warning or an error, 1 on input that cannot be read.\nThe rules and their remedies are in docs/relying-parties.md."
)]
pub struct Args {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(value_name = "ISSUER_URL")]
    issuer: String,
    /// PEM files of public keys or certificates
    #[arg(long = "key", value_name = "FILE", num_args = 1.., conflicts_with = "jwks")]
    keys: Vec<PathBuf>,
    /// A JWKS as it is, or would be, published
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Relying parties to hold them against: kubernetes, aws, azure, gcp, vault (or openbao), minio, common, or a
    /// library such as go-oidc or pyjwt; docs/relying-parties.md has them all
    #[arg(long = "for", value_name = "PARTY,...", value_delimiter = ',', default_values_t = RelyingParty::USUAL)]
    parties: Vec<RelyingParty>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let keys = read_keys(&args)?;
    let mut findings = lint_text(&args.issuer, &args.parties);
    if let Some(keys) = &keys {
        findings.extend(lint_keys(keys, &args.parties));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let report =
        if args.json { to_json(&args, &findings)? } else { to_text(&args, keys.as_ref(), &findings) };
    crate::output::say(&report)?;
    let found = findings.iter().any(|finding| finding.severity > Severity::Note);
    Ok(unless_found(!found))
}

/// The key set to look at; `None` when only the issuer was given.
fn read_keys(args: &Args) -> anyhow::Result<Option<ObservedJwks>> {
    if let Some(path) = &args.jwks {
        let bytes = given::read(path)?;
        let keys = ObservedJwks::parse(&bytes).with_context(|| escaped(path.display()).to_string())?;
        return Ok(Some(keys));
    }
    let mut keys = Vec::new();
    for path in &args.keys {
        keys.extend(read_pem(path)?);
    }
    Ok(Jwks::new(keys).as_ref().map(ObservedJwks::from))
}

fn read_pem(path: &Path) -> anyhow::Result<Vec<chancery_core::PublicKey>> {
    let read = key_file::read_public_keys(&given::read(path)?);
    if read.keys.is_empty() {
        let reasons: Vec<String> = read.skipped.iter().map(ToString::to_string).collect();
        let reasons = if reasons.is_empty() { "no PEM block".to_owned() } else { reasons.join("; ") };
        bail!(
            "{}: expected a PEM file with a public key or a certificate, found {reasons}",
            escaped(path.display())
        );
    }
    for skipped in &read.skipped {
        eprintln!("{}: passed over {skipped}", escaped(path.display()));
    }
    Ok(read.keys)
}

fn to_json(args: &Args, findings: &[Finding]) -> anyhow::Result<String> {
    let document = json!({ "issuer": args.issuer, "parties": args.parties, "findings": findings });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn to_text(args: &Args, keys: Option<&ObservedJwks>, findings: &[Finding]) -> String {
    let parties = list(&args.parties);
    let subject = match keys {
        Some(keys) => format!("{} with {}", args.issuer, count(keys.entries.len(), "key")),
        None => args.issuer.clone(),
    };
    if findings.is_empty() {
        return format!("ok: {subject} suits {parties}\n");
    }
    let mut text = format!("{subject}, held against {parties}\n\n");
    for finding in findings {
        text.push_str(&format!("{finding}\n"));
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let totals = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter(|severity| of(*severity) > 0)
        .map(|severity| count(of(severity), severity.as_str()));
    text + &totals.collect::<Vec<_>>().join(", ") + "\n"
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
