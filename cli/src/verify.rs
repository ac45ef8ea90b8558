//! `chancery verify`: an issuer as an anonymous relying party sees it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::{RelyingParty, list};
use chancery_core::quoted::escaped;
use chancery_core::{DocumentKind, IssuerUrl, KeyId, key_file};
use chancery_publisher::verify::address::GivenAddress;
use chancery_publisher::verify::jwks_host::AllowedJwksHosts;
use chancery_publisher::verify::report::VerifyReport;
use chancery_publisher::verify::{Expectation, IssuerPlace, Trust, Verifier, VerifyOptions};

use crate::exit::unless_found;
use crate::given;
use crate::output::say;
use crate::runtime::block_on;

mod addresses;

/// The most keys that the text lists.
const KEYS_SHOWN: usize = 50;

#[derive(clap::Args)]
#[command(
    after_help = "No credentials are sent, no redirect is followed, and no proxy of the environment is used.\nExit code: 0 when nothing or only notes are found, 3 on a warning or an error, 1 on arguments that cannot be used.\nThe rules and their remedies are in docs/verify.md."
)]
pub struct Args {
    /// The issuer URL, exactly as it is in the `iss` of the tokens
    issuer_url: String,
    /// A PEM file of certificate authorities to believe beside those of this machine
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Ask this server instead of those in DNS, as curl does; HOST:PORT:ADDR:PORT goes to another port. May be repeated
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    resolve: Vec<String>,
    /// Read at each address of the host, as caches answer there and past them
    #[arg(long, conflicts_with = "proxy")]
    every_address: bool,
    /// Read a JWKS at this host although it is in a network where the issuer is not. May be repeated
    #[arg(long, value_name = "HOST")]
    allow_jwks_host: Vec<String>,
    /// Go through this http or https proxy
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// The longest time for each of the two documents; AWS STS grants about five seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    timeout: f64,
    /// Relying parties that matter: kubernetes, aws, azure, gcp, vault (or openbao), minio, common, or a
    /// library such as go-oidc or pyjwt; docs/relying-parties.md has them all
    #[arg(long = "for", value_name = "PARTY,...", value_delimiter = ',', default_values_t = RelyingParty::USUAL)]
    parties: Vec<RelyingParty>,
    /// A key id that must be visible
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    expect_kid: Vec<String>,
    /// A PEM file whose public keys must be visible
    #[arg(long, value_name = "FILE")]
    expect_key: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let issuer: IssuerUrl = args.issuer_url.parse()?;
    let expected = Expectation::of_keys(expected_keys(&args)?);
    let verifier = Verifier::new(options(&args, &issuer)?)?;
    let (text, good) = match args.every_address {
        true => {
            let place = IssuerPlace { issuer: &issuer, base: None };
            let probe =
                block_on(1, async { Ok(verifier.probe(place, &expected, addresses::nonce()).await) })?;
            let text = if args.json {
                addresses::to_json(&issuer, &probe)?
            } else {
                addresses::to_text(&issuer, &probe)
            };
            (text, probe.is_good())
        }
        false => {
            let report = block_on(1, async { Ok(verifier.verify(&issuer, &expected).await) })?;
            (if args.json { to_json(&report)? } else { to_text(&report, &args.parties) }, report.is_good())
        }
    };
    say(&text)?;
    Ok(unless_found(good))
}

fn options(args: &Args, issuer: &IssuerUrl) -> anyhow::Result<VerifyOptions> {
    let timeout = Duration::try_from_secs_f64(args.timeout).ok().filter(|timeout| !timeout.is_zero());
    let mut options = VerifyOptions {
        timeout: timeout.with_context(|| {
            format!("--timeout {} cannot be used; expected seconds above 0, such as 5 or 0.5", args.timeout)
        })?,
        proxy: args.proxy.clone(),
        allowed_jwks_hosts: AllowedJwksHosts::new(&args.allow_jwks_host),
        parties: args.parties.clone(),
        ..VerifyOptions::default()
    };
    if let Some(path) = &args.ca {
        let pem = given::read(path).context("--ca")?.to_vec();
        options.trust = Trust::PlatformAnd(pem);
    }
    for text in &args.resolve {
        let given: GivenAddress = text.parse().context("--resolve")?;
        given.suits(issuer).with_context(|| format!("--resolve {text}"))?;
        options.addresses.insert(given.host, given.address);
    }
    Ok(options)
}

fn expected_keys(args: &Args) -> anyhow::Result<Vec<KeyId>> {
    let named = args.expect_kid.iter().map(|kid| kid.parse().context("--expect-kid"));
    let mut keys: Vec<KeyId> = named.collect::<anyhow::Result<_>>()?;
    for path in &args.expect_key {
        keys.extend(key_ids_of(path)?);
    }
    Ok(keys)
}

fn key_ids_of(path: &Path) -> anyhow::Result<Vec<KeyId>> {
    let read = key_file::read_public_keys(&given::read(path).context("--expect-key")?);
    // A block that is passed over is a key that nobody looks for, so that the answer would be too good.
    if let Some(skipped) = read.skipped.first() {
        bail!("--expect-key {}: {skipped}", escaped(path.display()));
    }
    let path = escaped(path.display());
    ensure!(!read.keys.is_empty(), "--expect-key {path}: expected a PEM file with public keys");
    Ok(read.keys.iter().map(|key| key.key_id().clone()).collect())
}

fn to_json(report: &VerifyReport) -> anyhow::Result<String> {
    Ok(format!("{}\n", printable_json(&serde_json::to_string_pretty(report)?)))
}

fn to_text(report: &VerifyReport, parties: &[RelyingParty]) -> String {
    let mut text = format!("issuer     {}\n", report.issuer);
    for kind in [DocumentKind::Discovery, DocumentKind::Jwks] {
        text.push_str(&document(report, kind));
    }
    for key in report.keys.iter().take(KEYS_SHOWN) {
        let kid = key.kid.as_deref().unwrap_or("(no kid)");
        let alg = key.alg.as_deref().unwrap_or("(no alg)");
        text.push_str(&format!(
            "key        {} {} {}\n",
            printable(kid),
            printable(&key.description),
            printable(alg)
        ));
    }
    if let Some(more) = report.keys.len().checked_sub(KEYS_SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!("key        and {more} more\n"));
    }
    text.push('\n');
    text.push_str(&all_lines(&report.findings));
    text + &verdict(report, parties)
}

fn all_lines(findings: &[Finding]) -> String {
    let by_severity = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .flat_map(|severity| findings.iter().filter(move |finding| finding.severity == severity));
    by_severity.map(|finding| format!("{finding}\n")).collect()
}

fn document(report: &VerifyReport, kind: DocumentKind) -> String {
    let label = match kind {
        DocumentKind::Discovery => "discovery",
        DocumentKind::Jwks => "JWKS",
    };
    if let Some(error) = report.fetches.failure(kind) {
        return format!(
            "{label:10} {}\n           no answer: {}\n",
            escaped(&error.url),
            escaped(&error.kind)
        );
    }
    let Some(fetched) = report.fetches.fetched(kind) else {
        return format!("{label:10} not asked for\n");
    };
    let header =
        |value: &Option<String>, absent: &str| value.as_deref().map_or_else(|| absent.to_owned(), printable);
    let mut facts = vec![
        format!("{} in {} ms", fetched.status, fetched.elapsed.as_millis()),
        fetched.protocol.clone(),
        header(&fetched.headers.content_type, "no media type"),
        header(&fetched.headers.cache_control, "no cache header"),
    ];
    facts.extend(fetched.headers.age.as_deref().map(|age| format!("age {}", printable(age))));
    facts.extend(fetched.peer.map(|peer| format!("from {peer}")));
    format!("{label:10} {}\n           {}\n", printable(&fetched.url), facts.join(" | "))
}

fn verdict(report: &VerifyReport, parties: &[RelyingParty]) -> String {
    let readers = match RelyingParty::USUAL.iter().all(|party| parties.contains(party)) {
        true => "all".to_owned(),
        false => list(parties),
    };
    let number = report.visible.len();
    let keys = format!("{number} key{}", if number == 1 { "" } else { "s" });
    match (report.is_good(), number) {
        (true, _) => format!("visible to {readers}: {keys}\n"),
        (false, 0) => "no key is visible\n".to_owned(),
        (false, _) => format!("{keys} visible, but not all is well\n"),
    }
}

/// What a server sent, with everything escaped that would move a terminal.
fn printable(text: &str) -> String {
    escaped(text).to_string()
}

/// A JSON document of ours, in which the same is escaped as JSON does it: it stands only within strings.
fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        let mut escapes = character.escape_debug();
        let is_printable = matches!(character, '\n' | '"' | '\'' | '\\') || escapes.next() == Some(character);
        if is_printable {
            shown.push(character);
        } else {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
            units.for_each(|unit| shown.push_str(&unit));
        }
    }
    shown
}
