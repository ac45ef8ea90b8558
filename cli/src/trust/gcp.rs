//! The registration with Google Cloud as arguments name it.

use std::path::PathBuf;

use anyhow::Context as _;
use chancery_core::trust::gcp::names::{Project, ResourceId};
use chancery_core::{IssuerUrl, Jwks, Owner};
use chancery_publisher::trust::Registrar;
use chancery_publisher::trust::registration::GcpRegistration;

use crate::publish::keys;

#[derive(clap::Args)]
pub struct Args {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// Id or number of the project
    #[arg(long)]
    project: Project,
    /// Id of the workload identity pool; made when there is none
    #[arg(long, value_name = "ID")]
    pool: ResourceId,
    /// Id of the OIDC provider in the pool; made when there is none
    #[arg(long, value_name = "ID")]
    provider: ResourceId,
    /// An audience that tokens may have, up to 10 of them [default: the provider's own name]
    #[arg(long = "audience", value_name = "AUDIENCE")]
    audiences: Vec<String>,
    /// Upload the keys of this JWKS, for an issuer that Google cannot read
    #[arg(long, value_name = "FILE")]
    upload_jwks: Option<PathBuf>,
    /// The mark in the descriptions [default: derived from the issuer URL]
    #[arg(long)]
    owner: Option<Owner>,
    /// A file of credentials as gcloud writes them [default: Application Default Credentials]
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,
    /// Another address than Google's
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

impl Args {
    /// Who registers it. Nobody is asked yet.
    pub fn registrar(self) -> anyhow::Result<Box<dyn Registrar>> {
        let jwks = match &self.upload_jwks {
            Some(path) => Some(
                Jwks::new(keys::read_jwks_file(path)?).context("no key was given; nothing is uploaded")?,
            ),
            None => None,
        };
        let registration = GcpRegistration {
            project: self.project,
            pool: self.pool,
            provider: self.provider,
            audiences: self.audiences,
            upload_keys: jwks.is_some(),
            owner: self.owner,
            credentials_file: self.credentials_file,
            endpoint: self.endpoint,
        };
        Ok(registration.registrar(&self.issuer, jwks.as_ref())?)
    }
}
