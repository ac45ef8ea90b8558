//! The cloud of a request that brings annotations of a ServiceAccount, where no flag or variable names an identity.

use chancery_exchange::ExchangeError;
use chancery_exchange::provider::aws::partition::operator_sts;
use chancery_exchange::provider::google::impersonation::iam_credentials;
use chancery_exchange::provider::{azure, google};
use chancery_exchange::registry::acr;
use chancery_exchange::subject::Environment;
use chancery_exchange::tenancy::Cloud;

use super::Way;
use super::flags::Target;

impl Way {
    /// Where annotations name an identity; nothing where the flags and variables do.
    pub(super) fn cloud(&self, environment: &Environment) -> Result<Option<Cloud>, ExchangeError> {
        let variable = |flag: &Option<String>, name| flag.clone().or_else(|| environment.text(name));
        Ok(match self.to {
            Target::Aws if variable(&self.aws.role_arn, "AWS_ROLE_ARN").is_none() => {
                let region =
                    variable(&self.aws.region, "AWS_REGION").map(|region| region.parse()).transpose()?;
                let endpoint = self.aws.sts_endpoint.as_deref().map(operator_sts).transpose()?;
                Some(Cloud::Aws { region, endpoint })
            }
            Target::Azure if variable(&self.azure.client_id, "AZURE_CLIENT_ID").is_none() => {
                let authority = variable(&self.azure.authority, "AZURE_AUTHORITY_HOST");
                let authority =
                    azure::operator_authority(authority.as_deref().unwrap_or(azure::PUBLIC_AUTHORITY))?;
                let tenant = variable(&self.azure.tenant, "AZURE_TENANT_ID");
                let tenant = tenant.map(|tenant| tenant.parse()).transpose()?;
                Some(Cloud::Azure { authority, tenant, scopes: vec![acr::SCOPE.to_owned()] })
            }
            Target::Gcp if self.google.impersonate.is_none() => {
                let sts = match &self.server.token_endpoint {
                    Some(url) => google::operator_url(url)?,
                    None => google::sts(&self.google.universe)?,
                };
                Some(Cloud::Google {
                    sts,
                    iam_credentials: iam_credentials(&self.google.universe)?,
                    provider: self.google.workload_provider.as_deref().map(str::parse).transpose()?,
                    scopes: vec![google::CLOUD_PLATFORM.to_owned()],
                })
            }
            _ => None,
        })
    }
}
