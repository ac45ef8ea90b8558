//! `chancery ring cluster-api`: the machines of a control plane of Cluster API follow the ring.

use std::path::PathBuf;
use std::process::ExitCode;

use chancery_core::rollout::MachinesRollout;
use chancery_signer::cluster_api::{ControlPlane, ControlPlaneConfig, ControlPlanePlace};

use super::PolicyArg;
use super::mode::{Mode, ModeArgs, until_stopped};
use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{self, Logs};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
    /// The control plane's name among the `signers` of the policy
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The Cluster; its Secret NAME-sa is what machines are made from
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Its KubeadmControlPlane
    #[arg(long, value_name = "NAME")]
    control_plane: String,
    /// The namespace of the Cluster; that of the kubeconfig if nothing is said
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The management cluster; in a pod of it, without
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    mode: ModeArgs,
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    let (mode, signals) = args.mode.begin(logs)?;
    let policy = args.policy.read()?;
    let place = ControlPlanePlace {
        kubeconfig: args.kubeconfig,
        context: args.context,
        namespace: args.namespace,
        cluster: args.cluster,
        control_plane: args.control_plane,
    };
    let config = ControlPlaneConfig { policy: policy.clone(), name: args.name, place };
    runtime::block_on(1, async {
        let mut control_plane = ControlPlane::open(config, mode.store()).await?;
        match mode {
            Mode::Plan => {
                let seen = control_plane.look().await?;
                let forecast = control_plane.foresee(&seen);
                say(&forecast.to_string())?;
                Ok(unless_found(forecast.steps.is_empty() && forecast.then.is_none()))
            }
            Mode::Once => Ok(unless_found(control_plane.step().await? == MachinesRollout::Done)),
            Mode::Follow { rotates } => {
                until_stopped(signals, rotates.then_some(policy), control_plane.run()).await
            }
        }
    })
}
