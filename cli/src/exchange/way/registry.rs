//! Which registry a login is wanted of.

use chancery_exchange::ExchangeError;
use chancery_exchange::provider::aws::Region;
use chancery_exchange::registry::{RegistryHost, RegistryKind};
use chancery_exchange::subject::Environment;

use super::flags::Target;
use super::{Way, needed};

impl Way {
    /// A registry whose login is made of its cloud's credential. The login of a template is for any registry.
    pub(super) fn registry_host(
        &self,
        host: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<RegistryHost>, ExchangeError> {
        let Some(host) = host.filter(|_| self.to != Target::Template) else { return Ok(None) };
        let registry = match self.aws.jfrog {
            true => RegistryHost::of_jfrog(host, self.aws_region(environment, None)?)?,
            false => host.parse()?,
        };
        self.to.suits(&registry)?;
        Ok(Some(registry))
    }

    /// The region of AWS: that which is named, or the registry's.
    pub(super) fn aws_region(
        &self,
        environment: &Environment,
        registry: Option<&RegistryHost>,
    ) -> Result<Region, ExchangeError> {
        let named = self.aws.region.clone().or_else(|| environment.text("AWS_REGION"));
        let named = named.or_else(|| environment.text("AWS_DEFAULT_REGION"));
        let of_registry = registry.and_then(|registry| match registry.kind() {
            RegistryKind::Ecr { region, .. } => Some(region.clone()),
            _ => None,
        });
        match (named, of_registry) {
            (Some(region), _) => region.parse(),
            (None, Some(region)) => Ok(region),
            (None, None) => Err(needed("AWS_REGION", "the region, also with --sts-endpoint")),
        }
    }
}
