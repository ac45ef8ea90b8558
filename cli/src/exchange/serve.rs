//! `chancery exchange serve`: a local agent that the clouds' SDKs fetch a workload's credential from.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use chancery_cluster::socket::SocketConfig;
use chancery_exchange::agent::variables::Value;
use chancery_exchange::agent::{Agent, AgentOptions, Door, Place, secret};
use chancery_exchange::output::shell_quoted;
use chancery_exchange::subject::Environment;

use super::local_service::{self, AdminArgs, Held, STOPPING};
use super::way::Way;
use crate::output::say;
use crate::runtime::block_on;
use crate::signals::Signals;

#[derive(clap::Args)]
#[command(
    after_help = "Prints the variables by which SDKs find it, and answers until SIGTERM. SIGHUP has it forget every credential.\nAWS's clients prove themselves by the token file; Azure's too where one is given. Google's, and Azure's without one, are\nanybody who can connect: run those where nobody else can, as beside the workload in its pod, or on a socket."
)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    /// The address, of the loopback; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9911", conflicts_with = "socket")]
    listen: SocketAddr,
    /// Listen on this unix socket instead
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The group that may connect to the socket beside this user
    #[arg(long, value_name = "GROUP", requires = "socket")]
    socket_group: Option<String>,
    /// The file with the secret that clients send; made where it does not exist. AWS's need one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The project that Google's clients are told, where it is not that of the service account
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    /// The longest that a credential is handed out: what a revocation has to be waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    longest: u64,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let signals = Signals::listen(STOPPING)?;
    block_on(2, serve(args, signals))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: Args, signals: Signals) -> anyhow::Result<()> {
    let (way, scopes) = args.way.of_an_agent();
    let secret = args.token_file.as_deref().map(secret::of_file).transpose()?;
    let environment = Environment::of_process();
    let opened = tokio::select! {
        opened = way.open(&environment) => opened?,
        // Nothing is answered yet that could be drained.
        () = signals.clone().stop() => return Ok(()),
    };
    let place = match args.socket {
        Some(path) => Place::Socket(SocketConfig { path, group: args.socket_group }),
        None => Place::Loopback(args.listen),
    };
    let door = Door::open(&place).await?;
    let admin = args.admin.open().await?;
    let options = AgentOptions {
        scopes,
        secret,
        port: door.port(),
        project: args.project,
        longest: Some(Duration::from_secs(args.longest)),
    };
    let agent = Agent::new(opened.chain, opened.runner, options)?;
    say(&(admin.announcement() + &announcement(&agent, &door, args.token_file.as_deref())))?;
    let held = Held { cache: agent.cache().clone(), metrics: agent.metrics().clone() };
    local_service::run(|stopped| door.run(agent, stopped), held, admin, signals).await
}

/// Lines for a shell, or for a person who reads them.
fn announcement(agent: &Agent, door: &Door, token_file: Option<&Path>) -> String {
    let mut text = String::new();
    if let Some(socket) = door.socket() {
        _ = writeln!(text, "# answers on {}", socket.display());
    }
    let file = token_file.map(|path| shell_quoted(&path.to_string_lossy())).unwrap_or_default();
    for announced in door.address().map(|address| agent.variables(address)).unwrap_or_default() {
        let value = match announced.value {
            Value::Text(text) => shell_quoted(&text),
            Value::SecretsPath => file.clone(),
            Value::Secret => format!("\"$(cat {file})\""),
        };
        _ = writeln!(text, "export {}={value}", announced.name);
    }
    text
}
