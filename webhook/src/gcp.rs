//! Google Cloud: the annotations of gcp-workload-identity-federation-webhook and of GKE, and what the client libraries
//! read (<https://google.aip.dev/auth/4117>).

use chancery_core::quoted::quoted;
use serde::Deserialize;
use serde_json::json;

use crate::asked::Asked;
use crate::cloud::{Cloud, Credentials, File, Identity, Refusal, Source, Variable};

/// The provider of workload identity federation.
pub const PROVIDER: &str = "cloud.google.com/workload-identity-provider";
/// The service account of Google's that is impersonated; none, and the workload acts for itself.
pub const EMAIL: &str = "cloud.google.com/service-account-email";
/// The same, as GKE names it.
pub const GKE_EMAIL: &str = "iam.gke.io/gcp-service-account";
/// Whom the token is for.
pub const AUDIENCE: &str = "cloud.google.com/audience";
/// How long the token lives, in seconds; on the pod too.
pub const EXPIRATION: &str = "cloud.google.com/token-expiration";
/// Containers of the pod that get nothing, separated by commas.
pub const SKIP_CONTAINERS: &str = "cloud.google.com/skip-containers";
/// How the older webhook wrote the file: `gcloud` or `direct`.
pub const MODE: &str = "cloud.google.com/injection-mode";
/// The user of that webhook's init container.
pub const RUN_AS: &str = "cloud.google.com/gcloud-run-as-user";
/// Where the file travels: an annotation of the pod, which a downward API volume shows. So nothing else is written.
pub const FILE_ANNOTATION: &str = "cloud.google.com/external-credentials-json";
/// The project, on ServiceAccount or pod.
pub const PROJECT: &str = "chancery.dev/gcp-project";

/// What the older webhook raises a life to, what it gives, and the longest that Google takes, in seconds.
const LIFETIMES: (u64, u64) = (3600, 86_400);

const TOKEN_MOUNT: &str = "/var/run/secrets/sts.googleapis.com/serviceaccount";
const TOKEN: &str = "token";
const FILE_MOUNT: &str = "/var/run/secrets/workload-identity";
const FILE: &str = "federation.json";

/// What the operator says of Google Cloud: `gcp`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct GcpSettings {
    /// Whether these annotations are read at all.
    pub enabled: bool,
    /// The provider of those that name none.
    pub workload_identity_provider: Option<String>,
    /// Whom tokens are for; the provider itself, if nothing is said.
    pub audience: Option<String>,
    /// The region that gcloud takes, where a workload names none.
    pub region: Option<String>,
    /// How long tokens live, in seconds.
    pub token_expiration: u64,
}

impl Default for GcpSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            workload_identity_provider: None,
            audience: None,
            region: None,
            token_expiration: LIFETIMES.1,
        }
    }
}

/// What a pod asks of Google Cloud.
///
/// # Errors
/// When an annotation is missing beside another one, or malformed.
pub fn identity(
    asked: &Asked<'_>,
    settings: &GcpSettings,
    warnings: &mut Vec<String>,
) -> Result<Option<Identity>, Refusal> {
    let email = asked.account(EMAIL).or(asked.account(GKE_EMAIL));
    if !settings.enabled || (asked.account(PROVIDER).is_none() && email.is_none()) {
        return Ok(None);
    }
    let own = asked.account(PROVIDER).or(settings.workload_identity_provider.as_deref());
    let Some(provider) = own else { return without_provider(asked, warnings) };
    check(asked, provider, email)?;
    let seconds = lifetime(asked, settings, warnings)?;
    let audience = asked.account(AUDIENCE).or(settings.audience.as_deref());
    let audience = audience.map_or_else(|| format!("https://iam.googleapis.com/{provider}"), str::to_owned);
    let token = Source::Token { audience, seconds, path: TOKEN.to_owned() };
    let file = Source::Annotation { key: FILE_ANNOTATION, path: FILE.to_owned() };
    let path = asked.pod.path(&format!("{FILE_MOUNT}/{FILE}"));
    let shown = email.unwrap_or("the workload itself");
    Ok(Some(Identity {
        cloud: Cloud::Gcp,
        because: format!("{shown} through {provider}, by annotations of {}", asked.account_name()),
        files: vec![
            File { volume: "gcp-iam-token", mount_path: TOKEN_MOUNT.to_owned(), source: token },
            File { volume: "external-credential-config", mount_path: FILE_MOUNT.to_owned(), source: file },
        ],
        annotations: vec![(FILE_ANNOTATION.to_owned(), external_account(asked, provider, email))],
        credentials: Credentials {
            pointer: Variable::new("GOOGLE_APPLICATION_CREDENTIALS", &path),
            others: Vec::new(),
        },
        settings: variables(asked, settings, email, path),
        skipped: asked.skipped(SKIP_CONTAINERS, ',', warnings),
    }))
}

/// On GKE its key needs no provider, and a manifest may come from there; the other key is nothing without one.
fn without_provider(asked: &Asked<'_>, warnings: &mut Vec<String>) -> Result<Option<Identity>, Refusal> {
    if asked.account(EMAIL).is_some() {
        let problem = format!(
            "it has {EMAIL} and no {PROVIDER}; expected both, or gcp.workloadIdentityProvider in the webhook's configuration. Add projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER"
        );
        return Err(asked.refuse(Cloud::Gcp, "provider-missing", &problem));
    }
    warnings.push(format!(
        "{} has {GKE_EMAIL}, which needs {PROVIDER} outside of GKE; nothing of Google's is added",
        asked.account_name()
    ));
    Ok(None)
}

fn check(asked: &Asked<'_>, provider: &str, email: Option<&str>) -> Result<(), Refusal> {
    let is_part = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let parts: Vec<&str> = provider.split('/').collect();
    let is_provider = matches!(parts.as_slice(),
        ["projects", number, "locations", place, "workloadIdentityPools", pool, "providers", name]
            if number.bytes().all(|byte| byte.is_ascii_digit()) && [number, place, pool, name].into_iter().all(is_part));
    if !is_provider {
        let problem = format!(
            "its provider is {}; expected projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER, with the project's number. Correct {PROVIDER}",
            quoted(provider)
        );
        return Err(asked.refuse(Cloud::Gcp, "provider", &problem));
    }
    let is_email = |email: &str| {
        email
            .split_once('@')
            .is_some_and(|(name, domain)| is_part(&name) && is_part(&domain) && domain.contains('.'))
    };
    if let Some(email) = email.filter(|email| !is_email(email)) {
        let problem = format!(
            "it names the service account {}; expected NAME@PROJECT.iam.gserviceaccount.com. Correct {EMAIL} or {GKE_EMAIL}",
            quoted(email)
        );
        return Err(asked.refuse(Cloud::Gcp, "service-account", &problem));
    }
    match asked.account(MODE) {
        // gcloud reads the same file through the variable that it is given.
        None | Some("gcloud" | "direct") => Ok(()),
        Some(other) => {
            let problem = format!("{MODE} is {}; expected direct, or nothing. Take it out", quoted(other));
            Err(asked.refuse(Cloud::Gcp, "injection-mode", &problem))
        }
    }
}

/// The file, as `gcloud iam workload-identity-pools create-cred-config` writes it.
fn external_account(asked: &Asked<'_>, provider: &str, email: Option<&str>) -> String {
    let mut file = json!({
        "type": "external_account",
        "audience": format!("//iam.googleapis.com/{provider}"),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {
            "file": asked.pod.path(&format!("{TOKEN_MOUNT}/{TOKEN}")),
            "format": { "type": "text" },
        },
    });
    if let (Some(email), Some(file)) = (email, file.as_object_mut()) {
        let url = format!(
            "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
        );
        file.insert("service_account_impersonation_url".to_owned(), url.into());
    }
    file.to_string()
}

fn variables(
    asked: &Asked<'_>,
    settings: &GcpSettings,
    email: Option<&str>,
    path: String,
) -> Vec<Vec<Variable>> {
    let project = asked
        .either(PROJECT)
        .map(|(project, _)| project)
        .or_else(|| email?.split_once('@')?.1.strip_suffix(".iam.gserviceaccount.com"));
    let mut groups = vec![vec![Variable::new("CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE", path)]];
    groups.extend(project.map(|project| vec![Variable::new("CLOUDSDK_CORE_PROJECT", project)]));
    groups.extend(
        settings.region.as_ref().map(|region| vec![Variable::new("CLOUDSDK_COMPUTE_REGION", region)]),
    );
    groups
}

fn lifetime(asked: &Asked<'_>, settings: &GcpSettings, warnings: &mut Vec<String>) -> Result<u64, Refusal> {
    let (shortest, longest) = LIFETIMES;
    let Some((given, on)) = asked.either(EXPIRATION) else {
        return Ok(settings.token_expiration.clamp(shortest, longest));
    };
    let Ok(seconds) = given.parse::<u64>() else {
        let problem = format!(
            "{EXPIRATION} of {on} is {}; expected {shortest} to {longest} seconds. Correct it, or leave it out",
            quoted(given)
        );
        return Err(asked.refuse(Cloud::Gcp, "token-expiration", &problem));
    };
    let taken = seconds.clamp(shortest, longest);
    if taken != seconds {
        warnings.push(format!("{EXPIRATION} of {on} is {seconds}; {taken} is taken"));
    }
    Ok(taken)
}
