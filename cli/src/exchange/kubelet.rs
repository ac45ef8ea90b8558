//! `chancery exchange kubelet`: an image credential provider of kubelet.

use std::io::Read as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chancery_exchange::credential::RegistryLogin;
use chancery_exchange::kubelet::{LARGEST_REQUEST, Request, answer};
use chancery_exchange::subject::Environment;
use chancery_exchange::{Credential, CredentialKind};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::keep::Keep;
use super::way::Way;
use crate::output::write_raw;
use crate::runtime::block_on;

#[derive(clap::Args)]
#[command(
    after_help = "Reads a CredentialProviderRequest from standard input, with the token of the pod's ServiceAccount, and writes a\nCredentialProviderResponse. Without --role-arn, --client-id or --impersonate the annotations in the request name the\nidentity. What kubelet has to be told is in docs/exchange.md; `chancery exchange explain-kubelet` checks it."
)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    keep: Keep,
    /// The longest that kubelet keeps a login
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    longest: u64,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut text = Zeroizing::new(String::new());
    let mut input = std::io::stdin().lock().take(LARGEST_REQUEST);
    input.read_to_string(&mut text).context("cannot read kubelet's request from standard input")?;
    let request = Request::parse(&text)?;
    let credential = block_on(1, async {
        let opened = args.way.open_for_kubelet(&request, &Environment::of_process())?;
        Ok(args.keep.credential(&opened, Duration::ZERO).await?)
    })?;
    let credential = match args.way.username() {
        Some(username) => as_login(credential, request.host(), username),
        None => credential,
    };
    let text = answer(&credential, Duration::from_secs(args.longest), Timestamp::now())?;
    write_raw(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A bearer token as the password of a registry.
fn as_login(credential: Credential, host: &str, username: &str) -> Credential {
    let CredentialKind::Bearer(bearer) = credential.kind else { return credential };
    let login =
        RegistryLogin { host: host.to_owned(), username: username.to_owned(), password: bearer.token };
    Credential { kind: CredentialKind::Registry(login), ..credential }
}
