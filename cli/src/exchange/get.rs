//! `chancery exchange get`: a credential in the form that a tool reads.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chancery_exchange::output::{ExecVersion, Form, NO_LOGIN, Naming, gcp_failure, render};
use chancery_exchange::subject::Environment;
use chancery_exchange::{Credential, ExchangeError, Stage};
use chancery_files::{NewFile, replace};
use clap::ValueEnum;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::way::Way;
use crate::output::write_raw;
use crate::runtime::block_on;

/// How long a file system may take over the credential.
const FILE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub way: Way,
    /// The form: docker reads the server from standard input unless --registry names it
    #[arg(long, value_enum, default_value_t = FormChoice::Json)]
    format: FormChoice,
    /// Write it to this file, whole or not at all, readable by its owner alone; otherwise to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Refuse a credential that is good for less
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    min_ttl: u64,
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
}

pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    if args.format == FormChoice::Docker && args.way.registry.is_none() {
        let server = std::io::read_to_string(std::io::stdin())
            .context("cannot read the server from standard input")?;
        args.way.registry = Some(server.trim().to_owned());
    }
    let text = match block_on(1, async { text(&args, &environment).await }) {
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
            write_raw(NO_LOGIN.as_bytes())?;
            Ok(ExitCode::FAILURE)
        }
        (FormChoice::GcpExecutable, Some(failure)) => {
            write_raw(gcp_failure(failure).as_bytes())?;
            Err(error)
        }
        _ => Err(error),
    }
}

async fn text(args: &Args, environment: &Environment) -> anyhow::Result<Zeroizing<String>> {
    let opened = args.way.open(environment).await?;
    let credential = opened.runner.run(&opened.chain).await?;
    lasts(&credential, Duration::from_secs(args.min_ttl))?;
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
        FormChoice::GcpExecutable => {
            Form::GcpExecutable(token_type.as_deref().unwrap_or(chancery_exchange::oauth::JWT_TYPE))
        }
    };
    Ok(render(&credential, form)?)
}

/// Refuses a credential that ends too soon.
///
/// # Errors
/// When it does.
pub fn lasts(credential: &Credential, wanted: Duration) -> Result<(), ExchangeError> {
    let left = credential.duration(Timestamp::now());
    if left >= wanted {
        return Ok(());
    }
    Err(ExchangeError::new(chancery_exchange::Class::Permanent, Stage::Exchange, "min-ttl-too-long")
        .came(&format!("a credential that is good for {} s", left.as_secs()))
        .expected(format!("{} s", wanted.as_secs()))
        .remedy("ask for less with --min-ttl, or have the provider give longer lives"))
}
