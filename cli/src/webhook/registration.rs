//! `chancery webhook registration`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use chancery_core::quoted::escaped;
use chancery_webhook::registration::{Address, CaBundle, registration};

use crate::{given, output};

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("authority").required(true).args(["ca", "self_signed", "cert_manager"]))]
pub struct Args {
    /// A PEM file with the certificate of who has signed that of the webhook
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The webhook makes its certificate itself, and writes the caBundle
    #[arg(long)]
    self_signed: bool,
    /// cert-manager makes the certificate and writes the caBundle: the Certificate that stands for it
    #[arg(long, value_name = "NAMESPACE/NAME")]
    cert_manager: Option<String>,
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
    let Args { ca, self_signed: _, cert_manager, namespace, service, port, url } = args;
    let bundle = match (ca, cert_manager) {
        (Some(ca), _) => CaBundle::Pem(certificates(&ca)?),
        (None, Some(certificate)) => {
            ensure!(
                certificate.split_once('/').is_some_and(|(namespace, name)| {
                    !namespace.is_empty() && !name.is_empty() && !name.contains('/')
                }),
                "{certificate:?} names no Certificate of cert-manager; expected NAMESPACE/NAME"
            );
            CaBundle::CertManager(certificate)
        }
        (None, None) => CaBundle::SelfSigned,
    };
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
    let object = registration(&address, &namespace, &bundle);
    output::say(&format!("{object:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn certificates(path: &Path) -> anyhow::Result<String> {
    let name = || escaped(path.display()).to_string();
    let text = String::from_utf8(given::read(path)?.to_vec()).with_context(name)?;
    ensure!(
        text.contains("-----BEGIN CERTIFICATE-----") && !text.contains("PRIVATE KEY"),
        "{}: expected certificates in PEM, and no private key; give the ca.crt of whoever signs the webhook's certificate",
        name()
    );
    Ok(text)
}
