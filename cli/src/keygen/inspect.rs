//! `chancery keygen inspect`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use chancery_core::PublicKey;
use chancery_core::quoted::escaped;
use chancery_keygen::key_pair::{self, KeyPairPaths};
use chancery_keygen::kube_apiserver::Verdict;
use chancery_keygen::pem_file::{Container, Content, Encoding, PemBlock};
use chancery_keygen::{Passphrase, PemFile, Unusable};
use serde_json::{Value, json};

use super::input;

#[derive(clap::Args)]
pub struct Args {
    /// PEM files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print the public keys alone, as PEM
    #[arg(long, conflicts_with = "json")]
    public: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Open sealed keys with the one line in this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let passphrase = input::passphrase(args.passphrase_file.as_deref())?;
    let mut files = Vec::new();
    for path in &args.files {
        files.push((path.as_path(), input::pem_file(path, passphrase.as_ref())?));
    }
    args.files.iter().try_for_each(|path| warn_of_halves(path, passphrase.as_ref()))?;
    let report = if args.public {
        public_keys(&files)?
    } else if args.json {
        let files: Vec<Value> = files.iter().map(|(path, file)| file_json(path, file)).collect();
        format!("{:#}\n", json!({ "files": files }))
    } else {
        files.iter().map(|(path, file)| file_text(path, file)).collect()
    };
    std::io::stdout().write_all(report.as_bytes()).context("cannot write to standard output")
}

/// Says when the file is half of a pair that a killed run has left in pieces, or that does not belong together.
fn warn_of_halves(path: &Path, passphrase: Option<&Passphrase>) -> anyhow::Result<()> {
    let Some(paths) = KeyPairPaths::around(path) else { return Ok(()) };
    for set in key_pair::unfinished(&paths)? {
        let state = if set.is_placed_in_part() {
            "its private half has its name, its public half does not"
        } else {
            "neither half has its name"
        };
        let left: Vec<String> =
            set.temporaries().iter().map(|it| escaped(it.display()).to_string()).collect();
        eprintln!(
            "warning: a run that wrote this pair was killed, and {state}; `chancery keygen new` or `import` to the same files settles it first: {}",
            left.join(", ")
        );
    }
    let [private, public] = [&paths.private, &paths.public].map(|path| only_key(path, passphrase));
    if let (Some(private), Some(public)) = (private, public)
        && private != public
    {
        let [private, public] = [&paths.private, &paths.public].map(|path| escaped(path.display()));
        eprintln!(
            "warning: {public} is not the public half of {private}; write it anew with `chancery keygen inspect --public {private}`"
        );
    }
    Ok(())
}

/// The key of a file that holds one, as far as it can be read.
fn only_key(path: &Path, passphrase: Option<&Passphrase>) -> Option<PublicKey> {
    let file = path.is_file().then(|| input::pem_file(path, passphrase).ok()).flatten()?;
    let mut keys: Vec<&PublicKey> = file.blocks.iter().filter_map(PemBlock::public_key).collect();
    keys.dedup();
    if let [key] = keys.as_slice() { Some((*key).clone()) } else { None }
}

fn public_keys(files: &[(&Path, PemFile)]) -> anyhow::Result<String> {
    let mut pems: Vec<String> = Vec::new();
    for (path, block) in
        files.iter().flat_map(|(path, file)| file.blocks.iter().map(move |block| (path, block)))
    {
        match (&block.content, block.public_key()) {
            (_, Some(key)) if pems.contains(&key.to_pem()) => {}
            (_, Some(key)) => pems.push(key.to_pem()),
            (Content::Unusable(reason), None) if !reason.is_harmless() => {
                eprintln!("warning: {}, block {}: {reason}", escaped(path.display()), block.position);
            }
            _ => {}
        }
    }
    ensure!(!pems.is_empty(), "the files hold no key whose public half can be shown");
    Ok(pems.concat())
}

fn file_text(path: &Path, file: &PemFile) -> String {
    let signs = signing_position(file);
    let blocks = file.blocks.iter().map(|block| block_text(block, signs));
    format!("{}\n{}", escaped(path.display()), blocks.collect::<String>())
}

fn block_text(block: &PemBlock, signs: Option<usize>) -> String {
    let mut text = format!("  block {}  {}: {}\n", block.position, escaped(&block.label), what(block));
    let mut line = |name: &str, value: &str| text.push_str(&format!("    {name:<13} {value}\n"));
    if let Some(key) = block.public_key() {
        line("kind", &format!("{}, signs {}", key.description(), key.algorithm()));
        line("key id", key.key_id().as_str());
    }
    if let Content::Unusable(reason) = &block.content {
        line("unusable", &reason.to_string());
        if reason.is_harmless() {
            return text;
        }
    }
    let signing_file = match (block.as_signing_file(), signs) {
        (Verdict::Read, Some(first)) if first != block.position => {
            format!("not used: block {first} comes first and signs")
        }
        (verdict, _) => words(verdict),
    };
    line("signing file", &signing_file);
    line("key file", &words(block.as_key_file()));
    text
}

fn words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Read => "read by kube-apiserver".to_owned(),
        Verdict::Skipped(reason) => format!("skipped by kube-apiserver: {reason}"),
        Verdict::Fatal(reason) => format!("breaks kube-apiserver: {reason}"),
    }
}

fn file_json(path: &Path, file: &PemFile) -> Value {
    let signs = signing_position(file);
    let blocks: Vec<Value> = file.blocks.iter().map(|block| block_json(block, signs)).collect();
    json!({ "file": path.display().to_string(), "blocks": blocks })
}

fn block_json(block: &PemBlock, signs: Option<usize>) -> Value {
    let key = block.public_key();
    let problem = match &block.content {
        Content::Unusable(reason) => Some(reason.to_string()),
        _ => None,
    };
    let verdict = |verdict: Verdict| json!({ "read": verdict.is_read(), "reason": verdict.reason() });
    json!({
        "position": block.position,
        "label": block.label,
        "what": what(block),
        "kind": key.map(PublicKey::description),
        "bits": key.map(PublicKey::bits),
        "algorithm": key.map(|key| key.algorithm().as_str()),
        "kid": key.map(|key| key.key_id().as_str()),
        "problem": problem,
        "signs": signs == Some(block.position),
        "signingFile": verdict(block.as_signing_file()),
        "keyFile": verdict(block.as_key_file()),
    })
}

/// The block whose key kube-apiserver signs with, if the file is its signing file: the first that it takes.
fn signing_position(file: &PemFile) -> Option<usize> {
    let first = file.blocks.iter().find(|block| !matches!(block.as_signing_file(), Verdict::Skipped(_)));
    first.map(|block| block.position)
}

fn what(block: &PemBlock) -> &'static str {
    match &block.content {
        Content::Private(_, Encoding::Pkcs1) => "private key (PKCS#1)",
        Content::Private(_, Encoding::Sec1) => "private key (SEC1)",
        Content::Private(_, Encoding::Pkcs8) => "private key (PKCS#8)",
        Content::Private(_, Encoding::Sealed) => "private key (PKCS#8, sealed)",
        Content::Public(_, Container::Pkix) => "public key (PKIX)",
        Content::Public(_, Container::Certificate) => "public key in a certificate",
        Content::Unusable(Unusable::Sealed | Unusable::LegacyEncrypted) => "encrypted private key",
        Content::Unusable(reason) if reason.is_harmless() => "curve parameters",
        Content::Unusable(_) => "no usable key",
    }
}
