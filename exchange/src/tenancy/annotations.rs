//! A ServiceAccount's annotations into an identity at a cloud. Pure: nothing is asked of anybody.

use chancery_wire::Endpoint;

use crate::error::{Class, ExchangeError, Stage};
use crate::oauth::JWT_TYPE;
use crate::provider::aws::partition::EndpointVariant;
use crate::provider::aws::{self, AwsProvider, Region, RoleArn, SessionLimits, SessionName};
use crate::provider::azure::{self, AzureProvider, ClientId, TenantId};
use crate::provider::google::impersonation::USUAL_LIFETIME;
use crate::provider::google::{GoogleProvider, Impersonation, ServiceAccountEmail, WorkloadProvider};
use crate::provider::{Direct, Provider};
use crate::registry::{RegistryHost, RegistryKind};
use crate::service_account::ServiceAccount;

/// The role of AWS, as EKS names it.
pub const ROLE_ARN: &str = "eks.amazonaws.com/role-arn";
/// The audience, where it is not STS's own.
pub const AWS_AUDIENCE: &str = "eks.amazonaws.com/audience";
/// The client of Entra, as Azure's webhook names it.
pub const CLIENT_ID: &str = "azure.workload.identity/client-id";
/// Its tenant.
pub const TENANT_ID: &str = "azure.workload.identity/tenant-id";
/// The service account of Google Cloud, as GKE names it.
pub const GOOGLE_ACCOUNT: &str = "iam.gke.io/gcp-service-account";
/// The provider of workload identity federation, as Flux names it.
pub const GOOGLE_PROVIDER: &str = "gcp.auth.fluxcd.io/workload-identity-provider";

/// Where identities are, and what is the same for all of them.
#[derive(Clone, Debug)]
pub enum Cloud {
    /// AWS.
    Aws {
        /// The region, where a registry does not name one. Needed also with an endpoint.
        region: Option<Region>,
        /// An STS endpoint that the operator has named.
        endpoint: Option<Endpoint>,
    },
    /// Azure.
    Azure {
        /// The authority.
        authority: Endpoint,
        /// The tenant of those that name none, `AZURE_TENANT_ID`.
        tenant: Option<TenantId>,
        /// What for.
        scopes: Vec<String>,
    },
    /// Google Cloud.
    Google {
        /// The Security Token Service.
        sts: Endpoint,
        /// IAM Service Account Credentials.
        iam_credentials: Endpoint,
        /// The provider of those that name none.
        provider: Option<WorkloadProvider>,
        /// What for.
        scopes: Vec<String>,
    },
    /// A resource that takes the ServiceAccount's token itself.
    Direct(Direct),
}

impl Cloud {
    /// The provider and identity of a ServiceAccount.
    ///
    /// # Errors
    /// Which annotation is missing or malformed, with an example of it.
    pub fn resolve(
        &self,
        account: &ServiceAccount,
        registry: Option<&RegistryHost>,
    ) -> Result<Provider, ExchangeError> {
        let found = match self {
            Self::Aws { region, endpoint } => {
                aws(account, region_of(region.as_ref(), registry)?, endpoint.as_ref())
            }
            Self::Azure { authority, tenant, scopes } => {
                let client: ClientId =
                    required(account, CLIENT_ID, "11111111-2222-3333-4444-555555555555")?.parse()?;
                let tenant = match (value(account, TENANT_ID), tenant) {
                    (Some(tenant), _) => tenant.parse()?,
                    (None, Some(tenant)) => tenant.clone(),
                    (None, None) => {
                        return Err(missing(
                            account,
                            TENANT_ID,
                            "the tenant's id; or set AZURE_TENANT_ID for all",
                        ));
                    }
                };
                let (authority, scopes) = (authority.clone(), scopes.clone());
                let audience = azure::AUDIENCE.to_owned();
                Ok(Provider::Azure(Box::new(AzureProvider { authority, tenant, client, scopes, audience })))
            }
            Self::Google { sts, iam_credentials, provider, scopes } => {
                let provider = match (value(account, GOOGLE_PROVIDER), provider) {
                    (Some(provider), _) => provider.parse()?,
                    (None, Some(provider)) => provider.clone(),
                    (None, None) => {
                        let example = "projects/123456789012/locations/global/workloadIdentityPools/POOL/providers/PROVIDER";
                        return Err(missing(account, GOOGLE_PROVIDER, example));
                    }
                };
                let email: Option<ServiceAccountEmail> =
                    value(account, GOOGLE_ACCOUNT).map(str::parse).transpose()?;
                let impersonation = email.map(|email| Impersonation {
                    endpoint: iam_credentials.clone(),
                    email,
                    scopes: scopes.clone(),
                    lifetime_seconds: USUAL_LIFETIME,
                    id_token_for: None,
                });
                Ok(Provider::Google(Box::new(GoogleProvider {
                    endpoint: sts.clone(),
                    provider,
                    scopes: scopes.clone(),
                    subject_token_type: JWT_TYPE.to_owned(),
                    audience: None,
                    impersonation,
                })))
            }
            Self::Direct(direct) => Ok(Provider::Direct(direct.clone())),
        };
        found.map_err(|error: ExchangeError| error.target(&account.name.to_string()))
    }
}

/// What a provider's identity is called, for labels.
pub fn identity_of(provider: &Provider) -> String {
    match provider {
        Provider::Aws(aws) => aws.role.as_ref().map_or_else(|| aws.endpoint.to_string(), ToString::to_string),
        Provider::Azure(azure) => format!("{}/{}", azure.tenant, azure.client),
        Provider::Google(google) => match &google.impersonation {
            Some(impersonation) => impersonation.email.as_str().to_owned(),
            None => google.provider.to_string(),
        },
        Provider::TokenExchange(server) => server.endpoint.to_string(),
        Provider::JwtBearer(server) => server.endpoint.to_string(),
        Provider::Template(template) => template.server.to_string(),
        Provider::Direct(direct) => direct.audience.clone(),
    }
}

fn aws(
    account: &ServiceAccount,
    region: Region,
    endpoint: Option<&Endpoint>,
) -> Result<Provider, ExchangeError> {
    let role: RoleArn = required(account, ROLE_ARN, "arn:aws:iam::123456789012:role/NAME")?.parse()?;
    let endpoint = match endpoint {
        Some(endpoint) => endpoint.clone(),
        None => region.sts(EndpointVariant::default())?,
    };
    Ok(Provider::Aws(Box::new(AwsProvider {
        endpoint,
        region,
        role: Some(role),
        session_name: SessionName::of_service_account(account.name.namespace(), account.name.name()),
        session: SessionLimits::default(),
        audience: value(account, AWS_AUDIENCE).unwrap_or(aws::AUDIENCE).to_owned(),
    })))
}

fn region_of(configured: Option<&Region>, registry: Option<&RegistryHost>) -> Result<Region, ExchangeError> {
    match (registry.map(RegistryHost::kind), configured) {
        (Some(RegistryKind::Ecr { region, .. } | RegistryKind::JFrog { region }), _) => Ok(region.clone()),
        (Some(RegistryKind::EcrPublic), _) => "us-east-1".parse(),
        (_, Some(region)) => Ok(region.clone()),
        (_, None) => Err(ExchangeError::configuration("aws-region")
            .came("no region is named")
            .expected("AWS_REGION, also where an STS endpoint is named")
            .remedy("set AWS_REGION to the region of the cluster")),
    }
}

fn value<'a>(account: &'a ServiceAccount, annotation: &str) -> Option<&'a str> {
    account.annotations.get(annotation).map(String::as_str).filter(|value| !value.is_empty())
}

fn required<'a>(
    account: &'a ServiceAccount,
    annotation: &str,
    example: &str,
) -> Result<&'a str, ExchangeError> {
    value(account, annotation).ok_or_else(|| missing(account, annotation, example))
}

fn missing(account: &ServiceAccount, annotation: &str, example: &str) -> ExchangeError {
    ExchangeError::new(Class::Permanent, Stage::Identity, "annotation-missing")
        .came(&format!("the ServiceAccount {} has no annotation {annotation}", account.name))
        .expected(format!("{annotation}: {example}"))
        .remedy(format!(
            "kubectl annotate serviceaccount -n {} {} {annotation}=...",
            account.name.namespace(),
            account.name.name()
        ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn account(annotations: &[(&str, &str)]) -> ServiceAccount {
        let annotations: BTreeMap<String, String> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ServiceAccount { name: "team-a/app".parse().unwrap(), uid: "u".to_owned(), annotations }
    }

    fn aws_cloud(region: Option<&str>) -> Cloud {
        Cloud::Aws { region: region.map(|region| region.parse().unwrap()), endpoint: None }
    }

    fn google() -> Cloud {
        Cloud::Google {
            sts: crate::provider::google::sts("googleapis.com").unwrap(),
            iam_credentials: crate::provider::google::impersonation::iam_credentials("googleapis.com")
                .unwrap(),
            provider: None,
            scopes: vec![crate::provider::google::CLOUD_PLATFORM.to_owned()],
        }
    }

    const ROLE: (&str, &str) = (ROLE_ARN, "arn:aws:iam::123456789012:role/app");
    const POOL: (&str, &str) =
        (GOOGLE_PROVIDER, "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster");

    #[test]
    fn r0_13_the_region_is_required_and_a_registry_names_its_own() {
        let error = aws_cloud(None).resolve(&account(&[ROLE]), None).unwrap_err();
        assert!(error.to_string().contains("AWS_REGION"), "{error}");
        let endpoint = aws::partition::operator_sts("https://sts.example/").ok();
        assert!(Cloud::Aws { region: None, endpoint }.resolve(&account(&[ROLE]), None).is_err());
        let registry: RegistryHost = "123456789012.dkr.ecr.eu-west-3.amazonaws.com".parse().unwrap();
        let Provider::Aws(found) = aws_cloud(None).resolve(&account(&[ROLE]), Some(&registry)).unwrap()
        else {
            panic!()
        };
        assert_eq!(found.endpoint.host(), "sts.eu-west-3.amazonaws.com");
        assert_eq!(found.session_name.as_str(), "team-a.app");
    }

    #[test]
    fn r0_16_without_a_service_account_of_google_nobody_is_impersonated() {
        let impersonated = |annotations: &[(&str, &str)]| {
            let Provider::Google(found) = google().resolve(&account(annotations), None).unwrap() else {
                panic!()
            };
            found.impersonation.map(|it| it.email.as_str().to_owned())
        };
        assert_eq!(impersonated(&[POOL]), None);
        let email = "app@p.iam.gserviceaccount.com";
        assert_eq!(impersonated(&[POOL, (GOOGLE_ACCOUNT, email)]).as_deref(), Some(email));
    }

    #[test]
    fn r0_21_a_03_annotations_are_checked_and_a_missing_one_is_named_with_an_example() {
        let azure = Cloud::Azure {
            authority: azure::operator_authority(azure::PUBLIC_AUTHORITY).unwrap(),
            tenant: None,
            scopes: Vec::new(),
        };
        let client = (CLIENT_ID, "11111111-2222-3333-4444-555555555555");
        for (cloud, annotations, code, words) in [
            (aws_cloud(Some("eu-central-1")), vec![], "annotation-missing", "eks.amazonaws.com/role-arn"),
            (
                aws_cloud(Some("eu-central-1")),
                vec![(ROLE_ARN, "app")],
                "aws-role-arn",
                "is not the ARN of a role",
            ),
            (google(), vec![], "annotation-missing", "workloadIdentityPools/POOL"),
            (google(), vec![POOL, (GOOGLE_ACCOUNT, "x@evil.example")], "google-service-account", "PROJECT"),
            (google(), vec![(GOOGLE_PROVIDER, "x")], "google-workload-provider", "projects/NUMBER"),
            (azure.clone(), vec![], "annotation-missing", "client-id"),
            (azure.clone(), vec![client], "annotation-missing", "AZURE_TENANT_ID"),
            (azure.clone(), vec![client, (TENANT_ID, "a/b")], "azure-tenant", "is no tenant"),
            (azure, vec![(CLIENT_ID, "me"), (TENANT_ID, "t")], "azure-client-id", "is no client id"),
        ] {
            let error = cloud.resolve(&account(&annotations), None).unwrap_err();
            assert_eq!(error.code(), code);
            assert_eq!(error.class(), Class::Permanent);
            assert!(error.to_string().contains(words), "{error}");
        }
        let error = aws_cloud(Some("eu-central-1")).resolve(&account(&[]), None).unwrap_err();
        assert!(error.to_string().contains("team-a/app"), "{error}");
    }
}
