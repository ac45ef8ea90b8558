//! `chancery exchange argocd`: the logins of Argo CD's repositories, for repo-servers that hold no identity themselves.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use chancery_cluster::socket::SocketConfig;
use chancery_exchange::Runner;
use chancery_exchange::agent::{Door, Place};
use chancery_exchange::argocd::resolver::{Places, Resolver};
use chancery_exchange::argocd::{Endpoints, Settings};
use chancery_exchange::cache::{Cache, CacheOptions};
use chancery_exchange::cluster::Cluster;
use chancery_exchange::provider::aws::partition::operator_sts;
use chancery_exchange::subject::Environment;

use super::local_service::{self, AdminArgs, Held, STOPPING};
use super::reach::ReachArgs;
use crate::output::say;
use crate::runtime::block_on;
use crate::signals::Signals;

#[derive(clap::Args)]
#[command(
    after_help = "GET /v1/repositories/SECRET on the socket answers with the user and the password of a repository whose Secret has\nworkloadIdentityProvider, by the ServiceAccount argocd-project-PROJECT or argocd-global; of any other repository with\n`static`. SIGHUP has it forget every login. What it needs by RBAC is in docs/exchange.md."
)]
pub struct Args {
    /// Listen on this unix socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The group that may connect beside this user
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// Argo CD's namespace
    #[arg(long, value_name = "NAME", default_value = "argocd")]
    namespace: String,
    #[command(flatten)]
    reach: ReachArgs,
    /// The tenant of Entra, where a ServiceAccount names none; otherwise AZURE_TENANT_ID
    #[arg(long)]
    tenant: Option<String>,
    /// The provider of Google's workload identity federation, where a ServiceAccount names none
    #[arg(long, value_name = "NAME")]
    workload_provider: Option<String>,
    /// The trust domain of the projects' SPIFFE ids, spiffe://DOMAIN/argocd/project/PROJECT
    #[arg(long, value_name = "DOMAIN")]
    trust_domain: Option<String>,
    /// A host that a Secret may name in workloadIdentityAuthHost, as auth.example or *.example. May be repeated
    #[arg(long, value_name = "HOST")]
    auth_host: Vec<String>,
    /// Ask this STS of AWS instead of the registry's region's
    #[arg(long, value_name = "URL")]
    sts_endpoint: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let signals = Signals::listen(STOPPING)?;
    block_on(2, serve(args, signals))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: Args, signals: Signals) -> anyhow::Result<()> {
    let environment = Environment::of_process();
    let runner = Runner::new(args.reach.transport()?);
    let cluster = Arc::new(Cluster::open(args.reach.cluster()).await?);
    let settings = settings(&args, &environment)?;
    let places = Places { repositories: cluster.clone(), accounts: cluster, environment };
    let resolver = Resolver::new(settings, places, runner, Cache::new(CacheOptions::default()));
    let door =
        Door::open(&Place::Socket(SocketConfig { path: args.socket, group: args.socket_group })).await?;
    let admin = args.admin.open().await?;
    let answers = door.socket().map(|path| format!("# answers on {}\n", path.display())).unwrap_or_default();
    say(&(admin.announcement() + &answers))?;
    let held = Held { cache: resolver.cache().clone(), metrics: resolver.metrics().clone() };
    local_service::run(|stopped| door.run(resolver, stopped), held, admin, signals).await
}

fn settings(args: &Args, environment: &Environment) -> anyhow::Result<Settings> {
    let tenant = args.tenant.clone().or_else(|| environment.text("AZURE_TENANT_ID"));
    let hosts: Result<Vec<_>, _> = args.auth_host.iter().map(|host| host.parse()).collect();
    let sts = args.sts_endpoint.as_deref().map(operator_sts).transpose()?;
    Ok(Settings {
        namespace: args.namespace.clone(),
        region: environment.text("AWS_REGION").map(|region| region.parse()).transpose()?,
        tenant: tenant.map(|tenant| tenant.parse()).transpose()?,
        workload_provider: args.workload_provider.as_deref().map(str::parse).transpose()?,
        trust_domain: args.trust_domain.clone(),
        auth_hosts: hosts.context("--auth-host")?,
        endpoints: Endpoints { sts, ..Endpoints::default() },
    })
}
