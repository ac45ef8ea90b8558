//! Which identity of Microsoft Entra is to trust which ServiceAccounts.

use chancery_core::IssuerUrl;
use chancery_core::trust::azure::{Cloud, Identity, Wanted};
use chancery_publisher::target::{AzureCredential, AzureIdentity};
use chancery_publisher::trust::Registrar;
use chancery_publisher::trust::azure::AzureRegistrar;

#[derive(clap::Args)]
#[command(
    after_help = "Credentials come from the environment, as docs/targets/azure-blob.md lists it. Nothing that somebody else registered is touched, and nothing is removed."
)]
pub struct Args {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// ServiceAccounts whose tokens are trusted
    #[arg(long = "service-account", value_name = "NAMESPACE/NAME", num_args = 1.., required = true, value_parser = subject)]
    subjects: Vec<String>,
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
    #[arg(long, value_name = "RESOURCE_ID", value_parser = Identity::managed)]
    managed_identity: Option<Identity>,
    /// Application that they become
    #[arg(long, value_name = "CLIENT_ID", value_parser = Identity::application)]
    application: Option<Identity>,
}

impl Args {
    /// Who registers it. Nobody is asked yet.
    pub fn registrar(&self) -> anyhow::Result<Box<dyn Registrar>> {
        let IdentityArgs { managed_identity, application } = &self.identity;
        let (identity, endpoint) = match (managed_identity, application) {
            (Some(managed), _) => (managed, self.cloud.management()),
            (None, Some(application)) => (application, self.cloud.graph()),
            (None, None) => {
                anyhow::bail!("no identity is given; name one with --managed-identity or --application")
            }
        };
        let wanted = Wanted {
            issuer: self.issuer.clone(),
            subjects: self.subjects.clone(),
            audience: self.audience.clone().unwrap_or_else(|| self.cloud.audience().to_owned()),
            identity: identity.clone(),
            endpoint: self.endpoint.clone().unwrap_or_else(|| endpoint.to_owned()),
        };
        let credentials = AzureIdentity { credential: self.credential, ..AzureIdentity::default() };
        Ok(Box::new(AzureRegistrar::connect(wanted, self.cloud, &credentials)?))
    }
}

/// `sub` of a ServiceAccount's tokens.
fn subject(text: &str) -> Result<String, String> {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
            Ok(format!("system:serviceaccount:{namespace}:{name}"))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}
