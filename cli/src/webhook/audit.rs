//! `chancery webhook audit`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use chancery_cluster::access::ClusterChoice;
use chancery_webhook::audit::{audit, census};
use chancery_webhook::registration::NAME;

use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{self, Logs};

#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 when every pod has what it asks for, 3 when something was found, 1 when the cluster cannot be read."
)]
pub struct Args {
    /// The kubeconfig of the cluster; that in which this is a pod, if nothing is given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A context in it, other than its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// One namespace instead of all
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The MutatingWebhookConfiguration that has kube-apiserver ask the webhook
    #[arg(long, value_name = "NAME", default_value = NAME)]
    registration: String,
    /// The webhook's configuration, of which only the clouds are read; the usual one if nothing is given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("warn,kube_client=error")?;
    let settings = super::settings::read(args.config.as_deref())?;
    let choice = ClusterChoice {
        kubeconfig: args.kubeconfig.as_deref(),
        context: args.context.as_deref(),
        base: Path::new(""),
    };
    let census = runtime::block_on(1, async {
        let client = choice.client().await?;
        let census = census(&client, args.namespace.as_deref(), &args.registration).await;
        census.map_err(|problem| anyhow!("{problem}"))
    })?;
    let findings = audit(&settings, &census);
    let mut text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    if findings.is_empty() {
        text = format!("ok: {} pods were looked at, and each has what it asks for\n", census.pods.len());
    }
    say(&text)?;
    Ok(unless_found(findings.is_empty()))
}
