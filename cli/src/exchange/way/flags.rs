//! The flags of each target.

use std::path::PathBuf;

use chancery_exchange::ExchangeError;
use chancery_exchange::oauth::JWT_TYPE;
use chancery_exchange::registry::RegistryHost;
use clap::ValueEnum;

/// Who exchanges the token.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Target {
    /// AWS STS, for the keys of a role
    Aws,
    /// Microsoft Entra, for an access token
    Azure,
    /// Google's STS, for an access token
    Gcp,
    /// A server that speaks RFC 8693
    TokenExchange,
    /// A server that takes the token as a grant (RFC 7523)
    JwtGrant,
    /// A server that takes the token as the client's authentication (RFC 7523)
    ClientAssertion,
    /// A server whose requests --preset or the flags of a template describe: Quay, JFrog, octo-sts, Vault, others
    Template,
    /// Nobody: the resource takes the token itself
    Direct,
}

impl Target {
    /// Whether what it gives opens a registry. Nothing is exchanged for one that it does not open.
    pub(super) fn suits(self, registry: &RegistryHost) -> Result<(), ExchangeError> {
        let of_cloud = match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::TokenExchange | Self::JwtGrant | Self::ClientAssertion | Self::Template | Self::Direct => {
                ""
            }
        };
        if of_cloud == registry.provider() {
            return Ok(());
        }
        Err(ExchangeError::configuration("registry-of-another-cloud")
            .came(&format!("{} with another target", registry.as_str()))
            .expected(format!("--to {}", registry.provider()))
            .remedy("name the target that the registry belongs to"))
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "AWS")]
pub(super) struct AwsArgs {
    /// The role; otherwise AWS_ROLE_ARN
    #[arg(long, value_name = "ARN")]
    pub(super) role_arn: Option<String>,
    /// The region; otherwise AWS_REGION
    #[arg(long)]
    pub(super) region: Option<String>,
    /// What CloudTrail calls the session; otherwise AWS_ROLE_SESSION_NAME, or `chancery`
    #[arg(long, value_name = "NAME")]
    pub(super) session_name: Option<String>,
    /// How long the keys live, 900 to 43200
    #[arg(long, value_name = "SECONDS")]
    pub(super) duration: Option<u32>,
    /// A policy that narrows the session
    #[arg(long, value_name = "FILE")]
    pub(super) session_policy: Option<PathBuf>,
    /// --registry is JFrog's, which takes the role: a user of it is bound to the role's ARN
    #[arg(long)]
    pub(super) jfrog: bool,
    /// Ask this STS instead of the region's
    #[arg(long, value_name = "URL")]
    pub(super) sts_endpoint: Option<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Azure")]
pub(super) struct AzureArgs {
    /// The tenant; otherwise AZURE_TENANT_ID
    #[arg(long)]
    pub(super) tenant: Option<String>,
    /// The client id of Azure's identity (otherwise AZURE_CLIENT_ID), or of the client of a server
    #[arg(long)]
    pub(super) client_id: Option<String>,
    /// The authority; otherwise AZURE_AUTHORITY_HOST, or the public cloud's
    #[arg(long, value_name = "URL")]
    pub(super) authority: Option<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Google Cloud")]
pub(super) struct GoogleArgs {
    /// projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER
    #[arg(long, value_name = "NAME")]
    pub(super) workload_provider: Option<String>,
    /// A service account to impersonate
    #[arg(long, value_name = "EMAIL")]
    pub(super) impersonate: Option<String>,
    /// The universe
    #[arg(long, value_name = "DOMAIN", default_value = "googleapis.com")]
    pub(super) universe: String,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Other servers")]
pub(super) struct ServerArgs {
    /// The token endpoint
    #[arg(long, value_name = "URL")]
    pub(super) token_endpoint: Option<String>,
    /// What the server calls the token
    #[arg(long, value_name = "URN", default_value = JWT_TYPE)]
    pub(super) subject_token_type: String,
    /// What the new token is for, as a URI (RFC 8693). May be repeated
    #[arg(long, value_name = "URI")]
    pub(super) resource: Vec<String>,
    /// What the new token is for, by name (RFC 8693). May be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) target_audience: Vec<String>,
    /// The type of the new token
    #[arg(long, value_name = "URN")]
    pub(super) requested_token_type: Option<String>,
    /// The client's secret, sent by HTTP Basic
    #[arg(long, value_name = "FILE")]
    pub(super) client_secret_file: Option<PathBuf>,
    /// The other side knows workloads by their SPIFFE ids and verifies JWT-SVIDs by their trust domain's keys, so that they
    /// need no `iss`; an assertion is sent as `jwt-spiffe`. With --to direct and client-assertion
    #[arg(long)]
    pub(super) by_trust_domain: bool,
    /// The resource is an API server, whose own audience the token may have
    #[arg(long)]
    pub(super) api_server: bool,
}
