//! `chancery exchange get`: a credential in the form that a tool reads.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chancery_exchange::output::{ExecVersion, Form, NO_LOGIN, Naming, gcp_failure, render};
use chancery_exchange::subject::Environment;
use chancery_exchange::{ExchangeError, Provider, eks, git};
use chancery_files::{NewFile, replace};
use clap::ValueEnum;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::keep::Keep;
use super::way::Way;
use crate::output::write_raw;
use crate::runtime::block_on;

/// How long a file system may take over the credential.
const FILE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub way: Way,
    #[command(flatten)]
    keep: Keep,
    /// The form: docker reads the server from standard input unless --registry names it
    #[arg(long, value_enum, default_value_t = FormChoice::Json)]
    format: FormChoice,
    /// Write it to this file, whole or not at all, readable by its owner alone; otherwise to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Refuse a credential that is good for less; at most 80 % of its life
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    min_ttl: u64,
    /// Make a token for this cluster of EKS of AWS's keys, with --to aws
    #[arg(long, value_name = "NAME")]
    eks_cluster: Option<String>,
    /// The variable of a bearer token in --format env
    #[arg(long, value_name = "NAME", default_value = "CHANCERY_TOKEN")]
    variable: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormChoice {
    /// JSON of our own
    Json,
    /// `export` lines for a shell
    Env,
    /// The secret alone
    Raw,
    /// credential_process of AWS's tools
    CredentialProcess,
    /// A credential plugin of kubectl
    ExecCredential,
    /// `get` of a docker credential helper
    Docker,
    /// An executable of Google's external accounts, with --to direct
    GcpExecutable,
    /// `get` of a git credential helper, for Azure DevOps and CodeCommit
    Git,
}

pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let mut asked = git::Request::default();
    match args.format {
        FormChoice::Docker if args.way.registry.is_none() => {
            let server = input("the server")?;
            // What a template logs in to, it says; docker asks its helpers for others too.
            if !args.way.gives_logins_for(server.trim()) {
                return no_login();
            }
            args.way.registry = Some(server.trim().to_owned());
        }
        FormChoice::Git => {
            asked = git::Request::parse(&input("git's request")?);
            // Git asks its next helper where one says nothing.
            if !asked.is_known() {
                return Ok(ExitCode::SUCCESS);
            }
            args.way.opens_azure_devops();
        }
        _ => {}
    }
    let text = match block_on(1, async { text(&args, &environment, &asked).await }) {
        Ok(text) => text,
        Err(error) => return failed(error, args.format),
    };
    match args.out {
        Some(path) => {
            let bytes = Zeroizing::new(text.as_bytes().to_vec());
            replace(NewFile::private(path, bytes), FILE)?;
        }
        None => write_raw(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A failure as the tool that called reads it.
fn failed(error: anyhow::Error, format: FormChoice) -> anyhow::Result<ExitCode> {
    match (format, error.downcast_ref::<ExchangeError>()) {
        // Docker goes on without a login when it reads exactly this.
        (FormChoice::Docker, Some(unknown))
            if matches!(unknown.code(), "registry-unknown" | "registry-of-another-cloud") =>
        {
            no_login()
        }
        (FormChoice::GcpExecutable, Some(failure)) => {
            write_raw(gcp_failure(failure).as_bytes())?;
            Err(error)
        }
        _ => Err(error),
    }
}

fn no_login() -> anyhow::Result<ExitCode> {
    write_raw(NO_LOGIN.as_bytes())?;
    Ok(ExitCode::FAILURE)
}

fn input(what: &str) -> anyhow::Result<String> {
    std::io::read_to_string(std::io::stdin())
        .with_context(|| format!("cannot read {what} from standard input"))
}

async fn text(
    args: &Args,
    environment: &Environment,
    asked: &git::Request,
) -> anyhow::Result<Zeroizing<String>> {
    let opened = args.way.open(environment).await?;
    let credential = args.keep.credential(&opened, Duration::from_secs(args.min_ttl)).await?;
    let credential = match (&args.eks_cluster, &opened.chain.provider) {
        (Some(cluster), Provider::Aws(aws)) => {
            eks::token(&credential, &aws.region, cluster, Timestamp::now())?
        }
        (Some(_), _) => {
            return Err(ExchangeError::configuration("eks-cluster")
                .came("--eks-cluster without --to aws")
                .into());
        }
        (None, _) => credential,
    };
    let server = args.way.registry.as_deref().unwrap_or_default();
    let exec_version = match environment.text("KUBERNETES_EXEC_INFO") {
        Some(info) if info.contains("client.authentication.k8s.io/v1beta1") => ExecVersion::V1Beta1,
        _ => ExecVersion::V1,
    };
    let token_type = environment.text("GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE");
    let form = match args.format {
        FormChoice::Json => Form::Json,
        FormChoice::Env => Form::Env(Naming { bearer: &args.variable }),
        FormChoice::Raw => Form::Raw,
        FormChoice::CredentialProcess => Form::CredentialProcess,
        FormChoice::ExecCredential => Form::ExecCredential(exec_version),
        FormChoice::Docker => Form::Docker(server),
        FormChoice::Git => {
            return Ok(git::answer(&credential, asked, Timestamp::now())?.unwrap_or_default());
        }
        FormChoice::GcpExecutable => {
            Form::GcpExecutable(token_type.as_deref().unwrap_or(chancery_exchange::oauth::JWT_TYPE))
        }
    };
    Ok(render(&credential, form)?)
}
