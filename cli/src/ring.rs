//! `chancery ring`: what a person asks of a key ring, and what it says of itself.
//!
//! Every change is a request that is written by compare-and-swap; whoever rotates carries it out when it is safe.

use std::path::PathBuf;
use std::process::ExitCode;

use chancery_signer::rotation::{KEY_RING_DEFINITION, resolved};
use chancery_signer::{RotationConfig, private_memory};

use crate::output::say;
use crate::runtime::{self, Logs};

mod begin;
mod census;
mod cluster_api;
mod export;
mod files;
mod follow;
mod import;
mod look;
mod mode;
mod plan;
mod request;
mod revoke;
mod servers;
mod status;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Begin a ring with a first key, which signs at once: nobody can hold a set without it
    Init(begin::InitArgs),
    /// Take over the keys of a running cluster, with their key ids
    Adopt(begin::AdoptArgs),
    /// Take keys that were made on a machine without a network, for later rotations
    Import(import::Args),
    /// Show the keys, their states and ages, the signers, and what is waited for
    Status(status::Args),
    /// Show what is to be done now, and what is in the way of the rest
    Plan(plan::Args),
    /// Name every copy of a token that keeps a key from leaving: in Secrets, ConfigMaps and files
    Census(census::Args),
    /// Rotate from here until Ctrl-C: for rings whose signers do not
    Run(follow::Args),
    /// Let the key files of this node's kube-apiserver follow the ring, one restart of one node after another
    Files(Box<files::Args>),
    /// Let the machines of a control plane of Cluster API follow the ring, one roll of them for a rotation
    ClusterApi(Box<cluster_api::Args>),
    /// Let the standby sign as soon as it is safe, whatever the schedule says
    Rotate(request::Args),
    /// Let the key that signed before sign again
    Rollback(request::Args),
    /// Let nobody trust a key any more, after another one signs
    Revoke(revoke::Args),
    /// Let nobody sign with a key any more; its tokens stay good
    Taint(request::KeyArgs),
    /// Wait no longer for a signer that is switched off for good
    ForgetSigner(request::SignerArgs),
    /// Begin a new epoch: after a backup was put back, or the ring's numbers were damaged
    Reset(request::ResetArgs),
    /// Print the definition of the resource KeyRing, for `kubectl apply -f -`
    Crd,
    /// Write the keys as sa.key and sa.pub, for kube-apiservers that sign with files
    Export(export::Args),
}

/// The policy of the ring.
#[derive(clap::Args)]
pub struct PolicyArg {
    /// The rotation policy, as docs/rotation.md describes it
    #[arg(long = "policy", value_name = "FILE")]
    path: PathBuf,
}

impl PolicyArg {
    fn read(&self) -> anyhow::Result<RotationConfig> {
        Ok(RotationConfig::read(&self.path)?)
    }

    /// By the spec of the `KeyRing` that it names, if it names one.
    async fn resolved(&self) -> anyhow::Result<RotationConfig> {
        Ok(resolved(self.read()?).await?)
    }
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    let command = match command {
        Command::Run(args) => return follow::run(args, logs),
        Command::Files(args) => return files::run(*args, logs),
        Command::ClusterApi(args) => return cluster_api::run(*args, logs),
        command => command,
    };
    logs.to_stderr("warn,kube_runtime=error,kube_client=error")?;
    private_memory::keep();
    runtime::block_on(1, async {
        match command {
            Command::Init(args) => begin::init(args).await,
            Command::Adopt(args) => begin::adopt(args).await,
            Command::Import(args) => import::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::Plan(args) => return plan::run(args).await,
            Command::Census(args) => return census::run(args).await,
            Command::Run(_) | Command::Files(_) | Command::ClusterApi(_) => Ok(()),
            Command::Rotate(args) => request::rotate(args).await,
            Command::Rollback(args) => request::roll_back(args).await,
            Command::Revoke(args) => revoke::run(args).await,
            Command::Taint(args) => request::taint(args).await,
            Command::ForgetSigner(args) => request::forget(args).await,
            Command::Reset(args) => request::reset(args).await,
            Command::Crd => say(KEY_RING_DEFINITION),
            Command::Export(args) => export::run(args).await,
        }?;
        Ok(ExitCode::SUCCESS)
    })
}
