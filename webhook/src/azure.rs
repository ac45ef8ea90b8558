//! Azure: the annotations of azure-workload-identity, and what the SDKs read
//! (<https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html>).

use chancery_core::quoted::quoted;
use chancery_core::trust::azure::Cloud as NationalCloud;
use serde::Deserialize;

use crate::asked::Asked;
use crate::cloud::{Cloud, Credentials, File, Identity, Refusal, Source, Variable};

/// The label by which a pod asks; its value is `true`.
pub const USE: &str = "azure.workload.identity/use";
/// The application or managed identity.
pub const CLIENT_ID: &str = "azure.workload.identity/client-id";
/// Its tenant.
pub const TENANT_ID: &str = "azure.workload.identity/tenant-id";
/// How long the token lives, in seconds; on the pod too.
pub const EXPIRATION: &str = "azure.workload.identity/service-account-token-expiration";
/// Containers of the pod that get nothing, separated by semicolons.
pub const SKIP_CONTAINERS: &str = "azure.workload.identity/skip-containers";
/// Asks for a sidecar that stands in for the node's metadata server.
pub const PROXY: &str = "azure.workload.identity/inject-proxy-sidecar";
/// That sidecar's port.
pub const PROXY_PORT: &str = "azure.workload.identity/proxy-sidecar-port";

/// What Azure's own webhook allows, and what it gives, in seconds.
const LIFETIMES: (u64, u64) = (3600, 86_400);
const USUAL_LIFETIME: u64 = 3600;

const VOLUME: &str = "azure-identity-token";
const MOUNT: &str = "/var/run/secrets/azure/wi";
const FILE: &str = "token/azure-identity-token";

/// What the operator says of Azure: `azure`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AzureSettings {
    /// Whether these annotations are read at all.
    pub enabled: bool,
    /// The tenant of those that name none.
    pub tenant: Option<String>,
    /// Which national cloud, as Azure's tools name it.
    pub environment: Environment,
    /// Whom tokens are for; what the cloud expects, if nothing is said.
    pub audience: Option<String>,
    /// Whether a pod needs the label; without it, the ServiceAccount's client id alone will do.
    pub require_label: bool,
}

impl Default for AzureSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            tenant: None,
            environment: Environment::default(),
            audience: None,
            require_label: true,
        }
    }
}

/// A national cloud by the name that `AZURE_ENVIRONMENT` has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Environment {
    /// Everywhere else.
    #[default]
    AzurePublicCloud,
    /// The United States' government.
    AzureUSGovernmentCloud,
    /// China, operated by 21Vianet.
    AzureChinaCloud,
}

impl Environment {
    const fn cloud(self) -> NationalCloud {
        match self {
            Self::AzurePublicCloud => NationalCloud::Public,
            Self::AzureUSGovernmentCloud => NationalCloud::UsGovernment,
            Self::AzureChinaCloud => NationalCloud::China,
        }
    }
}

/// Whether a pod asks by itself, whatever its ServiceAccount says.
pub fn is_asked(pod: crate::pod::Pod<'_>, settings: &AzureSettings) -> bool {
    settings.enabled && pod.label(USE) == Some("true")
}

/// What a pod asks of Azure.
///
/// # Errors
/// When the lifetime is one that Azure's webhook refuses too.
pub fn identity(
    asked: &Asked<'_>,
    settings: &AzureSettings,
    warnings: &mut Vec<String>,
) -> Result<Option<Identity>, Refusal> {
    let by_label = is_asked(asked.pod, settings);
    let client = asked.account(CLIENT_ID);
    let by_client = !settings.require_label && client.is_some() && asked.pod.label(USE) != Some("false");
    if !settings.enabled || !(by_label || by_client) {
        return Ok(None);
    }
    if asked.pod.annotation(PROXY).is_some() {
        warnings.push(format!(
            "{PROXY} is not followed: the sidecar needs root and NET_ADMIN; use an SDK that reads AZURE_FEDERATED_TOKEN_FILE"
        ));
    }
    if client.is_none() {
        warnings.push(format!(
            "{} has no {CLIENT_ID}, so AZURE_CLIENT_ID is left to the container",
            asked.account_name()
        ));
    }
    let tenant = asked.account(TENANT_ID).or(settings.tenant.as_deref());
    if tenant.is_none() {
        warnings.push(format!(
            "{} has no {TENANT_ID} and the webhook no azure.tenant, so AZURE_TENANT_ID is left to the container",
            asked.account_name()
        ));
    }
    let cloud = settings.environment.cloud();
    let audience = settings.audience.as_deref().unwrap_or(cloud.audience()).to_owned();
    let source = Source::Token { audience, seconds: lifetime(asked)?, path: FILE.to_owned() };
    // With the slash at its end, as Azure's own libraries spell it.
    let authority = format!("{}/", cloud.authority());
    let variables = [
        ("AZURE_CLIENT_ID", client),
        ("AZURE_TENANT_ID", tenant),
        ("AZURE_AUTHORITY_HOST", Some(authority.as_str())),
    ];
    let settings_of =
        variables.into_iter().filter_map(|(name, value)| Some(vec![Variable::new(name, value?)]));
    let why = if by_label {
        format!("the pod's label {USE}")
    } else {
        format!("{CLIENT_ID} of {}", asked.account_name())
    };
    Ok(Some(Identity {
        cloud: Cloud::Azure,
        because: format!("client {}, by {why}", client.unwrap_or("that the container names")),
        files: vec![File { volume: VOLUME, mount_path: MOUNT.to_owned(), source }],
        annotations: Vec::new(),
        credentials: Credentials {
            pointer: Variable::new("AZURE_FEDERATED_TOKEN_FILE", asked.pod.path(&format!("{MOUNT}/{FILE}"))),
            others: Vec::new(),
        },
        settings: settings_of.collect(),
        skipped: asked.skipped(SKIP_CONTAINERS, ';', warnings),
    }))
}

fn lifetime(asked: &Asked<'_>) -> Result<u64, Refusal> {
    let Some((given, on)) = asked.either(EXPIRATION) else { return Ok(USUAL_LIFETIME) };
    let (shortest, longest) = LIFETIMES;
    let seconds = given.parse::<u64>().ok().filter(|seconds| (shortest..=longest).contains(seconds));
    seconds.ok_or_else(|| Refusal {
        cloud: Cloud::Azure,
        reason: "token-expiration",
        message: format!(
            "{EXPIRATION} of {on} is {}; expected {shortest} to {longest} seconds. Correct it, or leave it out for {USUAL_LIFETIME}",
            quoted(given)
        ),
    })
}
