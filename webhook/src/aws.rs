//! AWS: the annotations of amazon-eks-pod-identity-webhook, and what the SDKs read
//! (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-assume-role-credentials.html>).

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::quoted::quoted;
use chancery_core::trust::aws::Partition;
use serde::Deserialize;

use crate::asked::Asked;
use crate::cloud::{Cloud, Credentials, File, Identity, Refusal, Source, Variable};

/// The role. Without it a ServiceAccount asks for nothing.
pub const ROLE_ARN: &str = "eks.amazonaws.com/role-arn";
/// Whom the token is for.
pub const AUDIENCE: &str = "eks.amazonaws.com/audience";
/// Whether STS is asked in the workload's own region.
pub const REGIONAL: &str = "eks.amazonaws.com/sts-regional-endpoints";
/// How long the token lives, in seconds; on the pod too.
pub const EXPIRATION: &str = "eks.amazonaws.com/token-expiration";
/// Containers of the pod that get nothing, separated by commas.
pub const SKIP_CONTAINERS: &str = "eks.amazonaws.com/skip-containers";
/// A label of pods that get nothing.
pub const SKIP_LABEL: &str = "eks.amazonaws.com/skip-pod-identity-webhook";
/// The region, on ServiceAccount or pod: no key of EKS says it.
pub const REGION: &str = "chancery.dev/aws-region";
/// What CloudTrail calls the session, on ServiceAccount or pod.
pub const SESSION_NAME: &str = "chancery.dev/aws-role-session-name";

/// The shortest life that kube-apiserver gives a projected token, and the longest that AWS takes, in seconds.
const LIFETIMES: (u64, u64) = (600, 86_400);

const VOLUME: &str = "aws-iam-token";
const MOUNT: &str = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
const FILE: &str = "token";

/// What the operator says of AWS: `aws`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AwsSettings {
    /// Whether these annotations are read at all.
    pub enabled: bool,
    /// Whom tokens are for.
    pub audience: String,
    /// The region of workloads that name none.
    pub region: Option<String>,
    /// Whether STS is asked in the workload's own region, where its ServiceAccount does not say.
    pub regional_sts: bool,
    /// How long tokens live, in seconds.
    pub token_expiration: u64,
    /// The account of roles that are given by their names alone.
    pub account: Option<String>,
    /// The partition of those roles.
    pub partition: String,
    /// An STS that is not AWS's own.
    pub sts_endpoint: Option<String>,
    /// Roles of ServiceAccounts that cannot be annotated, by `NAMESPACE/NAME` or `*/NAME`; an annotation counts before
    /// them. The values are those of the ConfigMap `pod-identity-webhook`.
    pub service_accounts: BTreeMap<String, ListedAccount>,
    /// Credentials from an agent on the node, in place of STS.
    pub container_credentials: Option<ContainerCredentials>,
}

impl Default for AwsSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            audience: "sts.amazonaws.com".to_owned(),
            region: None,
            regional_sts: true,
            token_expiration: LIFETIMES.1,
            account: None,
            partition: Partition::Aws.as_str().to_owned(),
            sts_endpoint: None,
            service_accounts: BTreeMap::new(),
            container_credentials: None,
        }
    }
}

/// One entry of that ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ListedAccount {
    /// As [`ROLE_ARN`].
    #[serde(rename = "RoleARN")]
    pub role_arn: Option<String>,
    /// As [`AUDIENCE`].
    #[serde(rename = "Audience")]
    pub audience: Option<String>,
    /// As [`REGIONAL`].
    #[serde(rename = "UseRegionalSTS")]
    pub use_regional_sts: Option<bool>,
    /// As [`EXPIRATION`].
    #[serde(rename = "TokenExpiration")]
    pub token_expiration: Option<u64>,
}

/// The agent of EKS Pod Identity, or one like it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContainerCredentials {
    /// Where it answers.
    pub full_uri: String,
    /// Whom its tokens are for.
    pub audience: String,
    /// Whose pods use it.
    pub identities: BTreeSet<AgentIdentity>,
}

impl Default for ContainerCredentials {
    fn default() -> Self {
        Self {
            full_uri: "http://169.254.170.23/v1/credentials".to_owned(),
            audience: "pods.eks.amazonaws.com".to_owned(),
            identities: BTreeSet::new(),
        }
    }
}

/// A ServiceAccount whose pods use an agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentIdentity {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub service_account: String,
}

impl AwsSettings {
    fn listed(&self, asked: &Asked<'_>) -> Option<&ListedAccount> {
        let name = asked.pod.service_account();
        let own = self.service_accounts.get(&format!("{}/{name}", asked.namespace));
        own.or_else(|| self.service_accounts.get(&format!("*/{name}")))
    }

    fn agent(&self, asked: &Asked<'_>) -> Option<&ContainerCredentials> {
        let account = AgentIdentity {
            namespace: asked.namespace.to_owned(),
            service_account: asked.pod.service_account().to_owned(),
        };
        self.container_credentials.as_ref().filter(|agent| agent.identities.contains(&account))
    }

    /// The ARN of a role that is given whole or by its name.
    fn role(&self, asked: &Asked<'_>, given: &str) -> Result<String, Refusal> {
        let arn = match (&self.account, given.starts_with("arn:")) {
            (Some(account), false) => format!("arn:{}:iam::{account}:role/{given}", self.partition),
            _ => given.to_owned(),
        };
        if is_role(&arn) {
            return Ok(arn);
        }
        let problem = format!(
            "{ROLE_ARN} is {}, which is not the ARN of a role; expected arn:aws:iam::123456789012:role/NAME. Correct it, or set aws.account in the webhook's configuration where names alone are to do",
            quoted(given)
        );
        Err(asked.refuse(Cloud::Aws, "role-arn", &problem))
    }
}

/// Whether STS could take it: AWS's own, or that of a server with a partition of its own (`arn:minio:iam:::role/NAME`).
fn is_role(arn: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-/.@+=,".contains(&byte);
    let parts: Vec<&str> = arn.split(':').collect();
    let ["arn", partition, "iam", "", account, role] = parts.as_slice() else { return false };
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let is_foreign = *partition != "aws" && !partition.starts_with("aws-");
    !partition.is_empty()
        && partition.bytes().all(plain)
        && (is_account || (is_foreign && account.is_empty()))
        && role.strip_prefix("role/").is_some_and(|name| !name.is_empty() && name.bytes().all(legal))
}

/// What a pod asks of AWS.
///
/// # Errors
/// When the role's ARN is none.
pub fn identity(
    asked: &Asked<'_>,
    settings: &AwsSettings,
    warnings: &mut Vec<String>,
) -> Result<Option<Identity>, Refusal> {
    if !settings.enabled || asked.pod.label(SKIP_LABEL).is_some() {
        return Ok(None);
    }
    let listed = settings.listed(asked);
    let on_account = asked.account(ROLE_ARN);
    let role = on_account.or(listed.and_then(|listed| listed.role_arn.as_deref()));
    let agent = settings.agent(asked);
    if role.is_none() && agent.is_none() {
        return Ok(None);
    }
    let seconds = lifetime(asked, listed.and_then(|it| it.token_expiration), settings, warnings);
    let skipped = asked.skipped(SKIP_CONTAINERS, ',', warnings);
    let settings_of = variables(asked, settings, listed, warnings);
    if let Some(agent) = agent {
        let (file, credentials) = of_agent(asked, agent, seconds);
        let because = format!("{} uses the agent at {}", asked.account_name(), agent.full_uri);
        return Ok(Some(identity_of(because, file, credentials, (settings_of, skipped))));
    }
    let arn = settings.role(asked, role.unwrap_or_default())?;
    let audience = asked.account(AUDIENCE).or(listed.and_then(|listed| listed.audience.as_deref()));
    let source = Source::Token {
        audience: audience.unwrap_or(&settings.audience).to_owned(),
        seconds,
        path: FILE.to_owned(),
    };
    let because = match on_account {
        Some(_) => format!("role {arn}, by {ROLE_ARN} of {}", asked.account_name()),
        None => format!("role {arn}, by aws.serviceAccounts for {}", asked.account_name()),
    };
    let token = asked.pod.path(&format!("{MOUNT}/{FILE}"));
    let credentials = Credentials {
        pointer: Variable::new("AWS_WEB_IDENTITY_TOKEN_FILE", token),
        others: vec![Variable::new("AWS_ROLE_ARN", arn)],
    };
    let file = File { volume: VOLUME, mount_path: MOUNT.to_owned(), source };
    Ok(Some(identity_of(because, file, credentials, (settings_of, skipped))))
}

fn identity_of(
    because: String,
    file: File,
    credentials: Credentials,
    (settings, skipped): (Vec<Vec<Variable>>, BTreeSet<String>),
) -> Identity {
    Identity {
        cloud: Cloud::Aws,
        because,
        files: vec![file],
        annotations: Vec::new(),
        credentials,
        settings,
        skipped,
    }
}

fn of_agent(asked: &Asked<'_>, agent: &ContainerCredentials, seconds: u64) -> (File, Credentials) {
    const NAME: &str = "eks-pod-identity-token";
    const MOUNT: &str = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount";
    let source = Source::Token { audience: agent.audience.clone(), seconds, path: NAME.to_owned() };
    let token = asked.pod.path(&format!("{MOUNT}/{NAME}"));
    let credentials = Credentials {
        pointer: Variable::new("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token),
        others: vec![Variable::new("AWS_CONTAINER_CREDENTIALS_FULL_URI", &agent.full_uri)],
    };
    (File { volume: NAME, mount_path: MOUNT.to_owned(), source }, credentials)
}

fn variables(
    asked: &Asked<'_>,
    settings: &AwsSettings,
    listed: Option<&ListedAccount>,
    warnings: &mut Vec<String>,
) -> Vec<Vec<Variable>> {
    let regional = match asked.account(REGIONAL) {
        Some("true") => true,
        Some("false") => false,
        other => {
            if let Some(other) = other {
                warnings.push(format!("{REGIONAL} is {}; expected true or false", quoted(other)));
            }
            listed.and_then(|listed| listed.use_regional_sts).unwrap_or(settings.regional_sts)
        }
    };
    let region = asked.either(REGION).map(|(region, _)| region).or(settings.region.as_deref());
    let mut groups = Vec::new();
    if regional {
        groups.push(vec![Variable::new("AWS_STS_REGIONAL_ENDPOINTS", "regional")]);
    }
    groups.extend(region.map(|region| {
        vec![Variable::new("AWS_DEFAULT_REGION", region), Variable::new("AWS_REGION", region)]
    }));
    let endpoint = settings.sts_endpoint.as_ref();
    groups.extend(endpoint.map(|endpoint| vec![Variable::new("AWS_ENDPOINT_URL_STS", endpoint)]));
    let session = asked.either(SESSION_NAME);
    groups.extend(session.map(|(name, _)| vec![Variable::new("AWS_ROLE_SESSION_NAME", name)]));
    groups
}

/// AWS's webhook has always put up with what is no number.
fn lifetime(
    asked: &Asked<'_>,
    listed: Option<u64>,
    settings: &AwsSettings,
    warnings: &mut Vec<String>,
) -> u64 {
    let (shortest, longest) = LIFETIMES;
    let usual = listed.unwrap_or(settings.token_expiration);
    let Some((given, on)) = asked.either(EXPIRATION) else { return usual.clamp(shortest, longest) };
    let seconds = given.parse::<u64>();
    let taken = seconds.clone().unwrap_or(usual).clamp(shortest, longest);
    if seconds != Ok(taken) {
        warnings.push(format!(
            "{EXPIRATION} of {on} is {}; expected {shortest} to {longest} seconds; {taken} is taken",
            quoted(given)
        ));
    }
    taken
}
