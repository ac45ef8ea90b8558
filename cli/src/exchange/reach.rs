//! How servers and the cluster are reached, as flags say it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chancery_exchange::cluster::ClusterChoice;
use chancery_exchange::transport::{Transport, TransportOptions};

use crate::given;

#[derive(clap::Args)]
pub struct ReachArgs {
    /// The kubeconfig of the cluster that has the ServiceAccount; otherwise this is a pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it
    #[arg(long)]
    context: Option<String>,
    /// A PEM file of certificate authorities to believe beside those of this machine
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Go through this proxy for every leg; otherwise HTTPS_PROXY says
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
}

impl ReachArgs {
    pub fn cluster(&self) -> ClusterChoice<'_> {
        ClusterChoice {
            kubeconfig: self.kubeconfig.as_deref(),
            context: self.context.as_deref(),
            base: Path::new("."),
        }
    }

    pub fn transport(&self) -> anyhow::Result<Transport> {
        let ca = self.ca.as_deref().map(|path| given::read(path).context("--ca")).transpose()?;
        let authorities = ca.map(|pem| pem.to_vec());
        Ok(Transport::new(TransportOptions { authorities, proxy: self.proxy.clone() })?)
    }
}
