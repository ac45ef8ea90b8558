//! `chancery webhook registration`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use chancery_core::quoted::escaped;
use chancery_webhook::registration::{Address, ca_bundle, registration};

use crate::{given, output};

#[derive(clap::Args)]
pub struct Args {
    /// A PEM file with the certificate of who has signed that of the webhook
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The namespace in which the webhook runs: its own pods are let in without asking it
    #[arg(long, value_name = "NAMESPACE", default_value = "chancery")]
    namespace: String,
    /// The Service in that namespace
    #[arg(long, value_name = "NAME", default_value = "chancery-webhook")]
    service: String,
    /// The Service's port
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    port: u16,
    /// Where kube-apiserver finds a webhook that runs beside the cluster, instead of a Service
    #[arg(long, value_name = "URL", conflicts_with_all = ["service", "port"])]
    url: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { ca, namespace, service, port, url } = args;
    let pem = given::read(&ca)?;
    let text = std::str::from_utf8(&pem).with_context(|| escaped(ca.display()).to_string())?;
    ensure!(
        text.contains("-----BEGIN CERTIFICATE-----") && !text.contains("PRIVATE KEY"),
        "{}: expected certificates in PEM, and no private key; give the ca.crt of whoever signs the webhook's certificate",
        escaped(ca.display())
    );
    let address = match url {
        Some(url) => {
            ensure!(
                url.starts_with("https://"),
                "{url:?} is no address of a webhook; expected https://HOST/mutate"
            );
            Address::Url(url)
        }
        None => Address::Service { namespace: namespace.clone(), name: service, port },
    };
    let object = registration(&address, &namespace, &ca_bundle(text));
    output::say(&format!("{object:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}
