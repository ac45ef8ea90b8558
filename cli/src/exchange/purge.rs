//! `chancery exchange purge`: credentials that a command keeps are forgotten.

use std::path::PathBuf;
use std::process::ExitCode;

use chancery_exchange::cache::Purge;
use chancery_exchange::disk::{DiskCache, Medium};
use chancery_exchange::service_account::ServiceAccountName;

use crate::output::say;

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true),
    after_help = "What is being exchanged while this runs is not kept either. It does not take back what was handed out: the provider\ntakes that until it ends or is revoked there. An agent (`serve`) forgets at SIGHUP."
)]
pub struct Args {
    /// The folder of `get --cache-dir`
    #[arg(long, value_name = "FOLDER")]
    cache_dir: PathBuf,
    /// Those of a ServiceAccount
    #[arg(long, value_name = "NAMESPACE/NAME", group = "what")]
    service_account: Option<ServiceAccountName>,
    /// Those of a role, a client id as TENANT/CLIENT, a service account of Google's
    #[arg(long, group = "what")]
    identity: Option<String>,
    /// Those of aws, azure, gcp, token-exchange, jwt-bearer, direct
    #[arg(long, group = "what")]
    provider: Option<String>,
    /// All of them
    #[arg(long, group = "what")]
    all: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let what = match (args.service_account, args.identity, args.provider) {
        (Some(name), ..) => Purge::ServiceAccount(name),
        (_, Some(identity), _) => Purge::Identity(identity),
        (.., Some(provider)) => Purge::Provider(provider),
        _ => Purge::All,
    };
    // Whatever it lies on, there shall be less of it.
    let purged = DiskCache::open(args.cache_dir, Medium::Any)?.purge(&what)?;
    say(&format!("forgot {purged}\n"))?;
    Ok(ExitCode::SUCCESS)
}
