//! `chancery keygen export`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use chancery_core::IssuerUrl;
use chancery_core::quoted::escaped;
use chancery_files::NewFile;
use chancery_keygen::export::{Distribution, ExportRequest, KubernetesName};
use chancery_keygen::{Key, PrivateKey};

use super::destination::{place, real};
use super::input;

#[derive(clap::Args)]
pub struct Args {
    /// For whom: kubeadm, kind, capi-secret, k3s or openshift
    #[arg(long, value_name = "FORMAT")]
    format: Distribution,
    /// PEM files; the first private key signs, tokens of all others are accepted
    #[arg(long = "key", value_name = "FILE", num_args = 1.., required = true)]
    keys: Vec<PathBuf>,
    /// The issuer URL that new tokens name
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// An issuer URL whose tokens are accepted as well, as during a migration; can be repeated
    #[arg(long = "accepted-issuer", value_name = "URL")]
    accepted_issuers: Vec<IssuerUrl>,
    /// The name of the cluster
    #[arg(long, value_name = "NAME", default_value = "kubernetes")]
    cluster: KubernetesName,
    /// The namespace of the cluster's objects, for capi-secret
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: KubernetesName,
    /// An existing folder for the files
    #[arg(long, value_name = "FOLDER")]
    out_dir: PathBuf,
    /// Open sealed keys with the one line in this file; what is written is not sealed
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let passphrase = input::passphrase(args.passphrase_file.as_deref())?;
    let mut keys = input::keys(&args.keys, passphrase.as_ref())?;
    let signing_key = take_signing_key(&mut keys)?;
    let directory = real(&args.out_dir);
    let request = ExportRequest {
        signing_key: &signing_key,
        further_keys: &keys,
        issuer: &args.issuer,
        accepted_issuers: &args.accepted_issuers,
        cluster: &args.cluster,
        namespace: &args.namespace,
        directory: directory.to_str().context("the path of --out-dir is not UTF-8; use another folder")?,
    };
    let rendered = args.format.render(&request)?;
    let files: Vec<NewFile> = rendered.into_iter().map(NewFile::from).collect();
    let written: Vec<String> = files
        .iter()
        .map(|file| format!("{} ({:04o})", escaped(directory.join(&file.path).display()), file.access.mode()))
        .collect();
    place(&directory, files, args.force)?;
    println!("signing key {}", signing_key.public_key().key_id());
    written.iter().for_each(|line| println!("{line}"));
    println!("README.md has the steps and the kube-apiserver flags");
    Ok(())
}

fn take_signing_key(keys: &mut Vec<Key>) -> anyhow::Result<PrivateKey> {
    let position = keys.iter().position(|key| key.private_key().is_some());
    match position.map(|position| keys.remove(position)) {
        Some(Key::Private(key)) => Ok(*key),
        _ => {
            bail!("the files hold public keys alone; give the file of the private key that is to sign first")
        }
    }
}
