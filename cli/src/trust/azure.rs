//! Which identity of Microsoft Entra is to trust which ServiceAccounts.

use chancery_core::IssuerUrl;
use chancery_core::trust::azure::{Cloud, Identity, IdentityError};
use chancery_publisher::target::AzureCredential;
use chancery_publisher::trust::Registrar;
use chancery_publisher::trust::registration::{AzureRegistration, ServiceAccount};

#[derive(clap::Args)]
#[command(
    after_help = "Credentials come from the environment, as docs/targets/azure-blob.md lists it. Nothing that somebody else registered is touched, and nothing is removed."
)]
pub struct Args {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// ServiceAccounts whose tokens are trusted
    #[arg(long = "service-account", value_name = "NAMESPACE/NAME", num_args = 1.., required = true)]
    service_accounts: Vec<ServiceAccount>,
    #[command(flatten)]
    identity: IdentityArgs,
    /// public, us-government or china
    #[arg(long, default_value_t)]
    cloud: Cloud,
    /// Audience of the tokens [default: the cloud's, api://AzureADTokenExchange in the public one]
    #[arg(long)]
    audience: Option<String>,
    /// Azure Resource Manager or Microsoft Graph [default: the cloud's]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// workloadIdentity, managedIdentity, clientSecret or cli [default: what the environment is made for]
    #[arg(long, value_name = "WAY")]
    credential: Option<AzureCredential>,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct IdentityArgs {
    /// User-assigned managed identity that they become
    #[arg(long, value_name = "RESOURCE_ID", value_parser = managed)]
    managed_identity: Option<String>,
    /// Application that they become
    #[arg(long, value_name = "CLIENT_ID", value_parser = application)]
    application: Option<String>,
}

impl Args {
    /// Who registers it. Nobody is asked yet.
    pub fn registrar(self) -> anyhow::Result<Box<dyn Registrar>> {
        let registration = AzureRegistration {
            service_accounts: self.service_accounts,
            managed_identity: self.identity.managed_identity,
            application: self.identity.application,
            cloud: self.cloud,
            audience: self.audience,
            endpoint: self.endpoint,
            credential: self.credential,
        };
        Ok(registration.registrar(&self.issuer)?)
    }
}

/// The text as it came, once it is known to name an identity.
fn managed(id: &str) -> Result<String, IdentityError> {
    Identity::managed(id).map(|_| id.to_owned())
}

fn application(id: &str) -> Result<String, IdentityError> {
    Identity::application(id).map(|_| id.to_owned())
}
