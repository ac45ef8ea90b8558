//! `chancery keygen bundle`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chancery_core::IssuerUrl;
use chancery_core::key_bundle::{BundledKey, KeyBundle};
use chancery_core::quoted::escaped;
use chancery_core::ring::WallTime;
use chancery_files::{Existing, NewFile};
use chancery_keygen::{Key, KeySpec, Passphrase, PrivateKey, bundle};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::destination::{real, settle};
use super::input;
use super::interruption::Interruption;
use crate::time::Time;

#[derive(clap::Args)]
pub struct Args {
    /// The issuer whose tokens the keys are to sign
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// How many keys to make, in the order in which they are to sign
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=KeyBundle::MOST_KEYS as i64))]
    keys: u8,
    /// What to make: rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or p-521
    #[arg(long, value_name = "KIND", default_value_t = KeySpec::default())]
    algorithm: KeySpec,
    /// The first key signs no earlier, as 2027-01-01T00:00:00Z, unless the key before must not sign
    #[arg(long, value_name = "TIME", requires = "every")]
    not_before: Option<Timestamp>,
    /// And each further one so much later, as 90d
    #[arg(long, value_name = "TIME", requires = "not_before")]
    every: Option<Time>,
    /// The private key that vouches for the bundle, made with `chancery keygen new`; its public half is enrolled where
    /// the bundle is imported
    #[arg(long, value_name = "FILE")]
    bundle_key: PathBuf,
    /// Open the bundle key with the one line in this file
    #[arg(long, value_name = "FILE")]
    bundle_key_passphrase_file: Option<PathBuf>,
    /// Seal the private halves with the one line in this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: PathBuf,
    /// An existing folder for the bundle, and for no other one
    #[arg(long, value_name = "FOLDER")]
    out_dir: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let passphrase = input::passphrase(Some(&args.passphrase_file))?.context("a file that was read")?;
    let signs = bundle_key(args)?;
    let directory = real(&args.out_dir);
    let interruption = Interruption::hold()?;
    settle(&places(&directory))?;
    let private = (0..args.keys).map(|_| PrivateKey::generate(args.algorithm));
    let private: Vec<PrivateKey> = private.collect::<Result<_, _>>()?;
    let bundled = private.iter().enumerate().map(|(index, key)| {
        let not_before = not_before(args, index)?;
        Ok(BundledKey::new(key.public_key().clone(), not_before))
    });
    let bundle = KeyBundle::new(args.issuer.clone(), bundled.collect::<anyhow::Result<_>>()?)?;
    let files = files(&bundle, &signs, &private, &passphrase)?;
    let staged: Vec<NewFile> =
        files.into_iter().map(|file| NewFile { path: directory.join(&file.path), ..file }).collect();
    let staged = chancery_files::stage(&staged, Existing::Keep)?;
    interruption.check()?;
    staged.place()?;
    println!("issuer      {}", bundle.issuer());
    println!("bundle key  {}", signs.public_key().key_id());
    for (index, key) in bundle.keys().iter().enumerate() {
        let kind = key.public_key.description();
        let from = key.not_before.and_then(|at| Timestamp::from_second(i64::try_from(at.0).ok()?).ok());
        let from = from.map_or_else(String::new, |at| format!(", not before {at}"));
        println!("{:>10}  {} ({kind}{from})", index + 1, key.kid());
    }
    println!("written     {}", escaped(directory.display()));
    eprintln!(
        "note: compare these key ids once more where the bundle is imported, with `chancery ring import`; \
         carry the passphrase apart from it"
    );
    Ok(())
}

/// The document first: when it has its name, everything of the bundle is complete.
fn files(
    bundle: &KeyBundle,
    signs: &PrivateKey,
    private: &[PrivateKey],
    passphrase: &Passphrase,
) -> anyhow::Result<Vec<NewFile>> {
    let document = bundle.to_json();
    let signature = format!("{}\n", bundle::sign(&document, signs.signing_key())?);
    // What cannot be opened again is not carried anywhere.
    bundle::open(&document, &signature, &[signs.public_key().clone()])?;
    let mut files = vec![
        NewFile::public(bundle::DOCUMENT.into(), document),
        NewFile::public(bundle::SIGNATURE.into(), signature.into_bytes()),
    ];
    for (index, key) in private.iter().enumerate() {
        let sealed = Zeroizing::new(key.to_sealed_pem(passphrase)?.as_bytes().to_vec());
        files.push(NewFile::private(bundle::private_half(index).into(), sealed));
    }
    Ok(files)
}

/// Every name that a bundle in this folder may have.
fn places(directory: &Path) -> Vec<PathBuf> {
    let halves = (0..KeyBundle::MOST_KEYS).map(bundle::private_half);
    let names = [bundle::DOCUMENT, bundle::SIGNATURE].map(str::to_owned).into_iter().chain(halves);
    names.map(|name| directory.join(name)).collect()
}

fn bundle_key(args: &Args) -> anyhow::Result<PrivateKey> {
    let passphrase = input::passphrase(args.bundle_key_passphrase_file.as_deref())?;
    let keys = input::keys(std::slice::from_ref(&args.bundle_key), passphrase.as_ref())?;
    match <[Key; 1]>::try_from(keys) {
        Ok([Key::Private(key)]) => Ok(*key),
        _ => bail!("{} has to hold one private key and nothing else", escaped(args.bundle_key.display())),
    }
}

fn not_before(args: &Args, index: usize) -> anyhow::Result<Option<WallTime>> {
    let (Some(first), Some(Time(every))) = (args.not_before, args.every) else { return Ok(None) };
    let later = every.checked_mul(u32::try_from(index)?).context("a time that no clock reaches")?;
    let at = first.checked_add(later).context("a time that no clock reaches")?;
    Ok(Some(WallTime(u64::try_from(at.as_second()).context("expected a time after 1970")?)))
}
