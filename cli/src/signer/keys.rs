//! Where a signer's keys are, as arguments.

use std::path::PathBuf;

use anyhow::Context as _;
use chancery_signer::config::{ClusterPlace, default_name};
use chancery_signer::{KeyFilesConfig, KeySource, RingConfig, RingPlace, VaultPlace};

#[derive(clap::Args)]
#[command(next_help_heading = "Keys in files, or of a key ring")]
#[group(skip)]
pub struct Args {
    /// The private key that signs, PEM; of several in the file the first
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["ring_dir", "ring_namespace"],
        conflicts_with_all = ["ring_dir", "ring_namespace"],
    )]
    signing_key_file: Option<PathBuf>,
    /// Keys that verify, PEM, public or private halves
    #[arg(long = "key-file", value_name = "FILE", requires = "signing_key_file")]
    key_files: Vec<PathBuf>,
    /// Keys that verify and that kube-apiserver keeps out of its JWKS
    #[arg(long = "excluded-key-file", value_name = "FILE", requires = "signing_key_file")]
    excluded_key_files: Vec<PathBuf>,
    /// The passphrase of private keys that are sealed
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// The folder with the key ring
    #[arg(long, value_name = "FOLDER", conflicts_with = "ring_namespace", requires = "state_dir")]
    ring_dir: Option<PathBuf>,
    /// The namespace with the key ring, in a ConfigMap
    #[arg(long, value_name = "NAMESPACE", requires = "state_dir")]
    ring_namespace: Option<String>,
    /// The folder with the sealed private halves of the ring's keys
    #[arg(long, value_name = "FOLDER", conflicts_with = "vault_namespace", requires = "passphrase_file")]
    vault_dir: Option<PathBuf>,
    /// The namespace with the private halves of the ring's keys, in Secrets
    #[arg(long, value_name = "NAMESPACE")]
    vault_namespace: Option<String>,
    /// What the names of those ConfigMaps and Secrets begin with
    #[arg(long, value_name = "NAME", default_value = "chancery")]
    object_prefix: String,
    /// The kubeconfig of the cluster that has them; without one, the cluster in which this is a pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it
    #[arg(long, value_name = "CONTEXT", requires = "kubeconfig")]
    context: Option<String>,
    /// The name of this signer among all of the ring; that of the machine if nothing is said
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Sign by the ring as it was recorded here while it cannot be read after a start: for a ring that lies behind the
    /// API server that waits for this signer
    #[arg(long)]
    start_from_record: bool,
}

impl Args {
    pub fn source(self) -> anyhow::Result<KeySource> {
        if let Some(signing) = self.signing_key_file {
            return Ok(KeySource::Files(KeyFilesConfig {
                signing,
                passphrase: self.passphrase_file,
                shown: self.key_files,
                excluded: self.excluded_key_files,
            }));
        }
        let (kubeconfig, context, prefix) = (&self.kubeconfig, &self.context, &self.object_prefix);
        let cluster = |namespace: String| ClusterPlace {
            kubeconfig: kubeconfig.clone(),
            context: context.clone(),
            namespace,
            prefix: prefix.clone(),
        };
        let ring = self.ring_dir.map(RingPlace::Directory);
        let ring =
            ring.or_else(|| self.ring_namespace.map(|namespace| RingPlace::Cluster(cluster(namespace))));
        let keys = self.vault_dir.map(VaultPlace::Directory);
        let keys =
            keys.or_else(|| self.vault_namespace.map(|namespace| VaultPlace::Cluster(cluster(namespace))));
        Ok(KeySource::Ring(RingConfig {
            ring: ring.context("no keys; give --signing-key-file, --ring-dir or --ring-namespace")?,
            keys: keys.context(
                "a key ring without the private halves of its keys; give --vault-dir or --vault-namespace",
            )?,
            passphrase: self.passphrase_file,
            name: self.name.unwrap_or_else(default_name),
            start_from_record: self.start_from_record,
        }))
    }
}
