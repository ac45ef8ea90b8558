//! Logins for git, as a credential helper gives them (<https://git-scm.com/docs/gitcredentials>): Azure DevOps takes
//! Entra's access token as a password, and CodeCommit a signature.

use std::time::{Duration, SystemTime};

use chancery_wire::Secret;
use chancery_wire::sigv4::{AwsKeys, SigningScope, signature};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::provider::aws::Region;

/// The scope of Azure DevOps
/// (<https://learn.microsoft.com/azure/devops/integrate/get-started/authentication/service-principal-managed-identity>).
pub const AZURE_DEVOPS: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";

/// How long CodeCommit takes a signature.
const SIGNATURE: Duration = Duration::from_secs(15 * 60);

/// What git asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `https`, unless somebody would send a login in the clear.
    pub protocol: String,
    /// The host, with its port if it has one.
    pub host: String,
    /// The path, which git tells where `credential.useHttpPath` is true.
    pub path: String,
}

/// A host whose logins are made here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    AzureDevOps,
    CodeCommit(Region),
}

impl Request {
    /// The request on standard input: lines `NAME=VALUE`, of which those that are not known are let be.
    pub fn parse(text: &str) -> Self {
        let mut request = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match name {
                "protocol" => value.clone_into(&mut request.protocol),
                "host" => value.clone_into(&mut request.host),
                "path" => value.clone_into(&mut request.path),
                _ => {}
            }
        }
        request
    }

    /// Whether logins for the host are made here.
    pub fn is_known(&self) -> bool {
        self.of().is_some()
    }

    /// Whose host it is, read from end to end. A login goes to no other.
    fn of(&self) -> Option<Host> {
        if self.protocol != "https" {
            return None;
        }
        let labels: Vec<&str> = self.host.split('.').collect();
        match labels.as_slice() {
            ["dev", "azure", "com"] => Some(Host::AzureDevOps),
            [organisation, "visualstudio", "com"] if !organisation.is_empty() => Some(Host::AzureDevOps),
            ["git-codecommit" | "git-codecommit-fips", region, "amazonaws", "com"]
            | ["git-codecommit" | "git-codecommit-fips", region, "amazonaws", "com", "cn"] => {
                region.parse().ok().map(Host::CodeCommit)
            }
            _ => None,
        }
    }
}

/// The answer: a user, a password and when it ends; nothing for a host whose logins are not made here, after which git
/// asks its next helper.
///
/// # Errors
/// When the credential is of another cloud than the host, or the path is missing that has to be signed.
pub fn answer(
    credential: &Credential,
    request: &Request,
    now: Timestamp,
) -> Result<Option<Zeroizing<String>>, ExchangeError> {
    let Some(host) = request.of() else { return Ok(None) };
    let (username, password, ends) = match (host, &credential.kind) {
        // Any user will do.
        (Host::AzureDevOps, CredentialKind::Bearer(bearer)) => {
            ("chancery".to_owned(), bearer.token.clone(), credential.expires_at)
        }
        (Host::CodeCommit(region), CredentialKind::Aws(keys)) => {
            let (username, password) = codecommit(keys, &region, request, now)?;
            let ends = now.checked_add(SIGNATURE).unwrap_or(now).min(credential.expires_at);
            (username, password, ends)
        }
        _ => {
            return Err(ExchangeError::configuration("output-unsuitable")
                .came(&format!("{} for {}", credential.kind_in_words(), request.host))
                .expected("--to azure for Azure DevOps, --to aws for CodeCommit"));
        }
    };
    // A newline would begin a line of somebody else's.
    if [username.as_str(), password.expose()].iter().any(|text| text.contains(['\n', '\r', '\0'])) {
        return Err(ExchangeError::configuration("output-unsuitable").came("a login with a line break"));
    }
    let seconds = ends.as_second();
    let text = ["username=", &username, "\npassword=", password.expose(), "\n"].concat();
    let mut text = Zeroizing::new(text);
    text.push_str(&format!("password_expiry_utc={seconds}\n"));
    Ok(Some(text))
}

/// A user and a signature over what git will fetch, as `aws codecommit credential-helper` makes them.
fn codecommit(
    keys: &AwsKeys,
    region: &Region,
    request: &Request,
    now: Timestamp,
) -> Result<(String, Secret), ExchangeError> {
    if request.path.is_empty() {
        return Err(ExchangeError::configuration("git-without-path")
            .came("git does not say which repository it is")
            .expected("its path, which CodeCommit wants to have signed")
            .remedy("git config --global credential.useHttpPath true"));
    }
    let moment = now.strftime("%Y%m%dT%H%M%S").to_string();
    let day = now.strftime("%Y%m%d").to_string();
    let canonical =
        format!("GIT\n/{}\n\nhost:{}\n\nhost\n", request.path.trim_start_matches('/'), request.host);
    let digest: String =
        Sha256::digest(canonical.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let scope = SigningScope { service: "codecommit", region: region.as_str() };
    let text =
        format!("AWS4-HMAC-SHA256\n{moment}\n{day}/{}/codecommit/aws4_request\n{digest}", region.as_str());
    let signed = signature(&text, keys, scope, SystemTime::from(now));
    let username = match &keys.session_token {
        Some(token) => format!("{}%{}", keys.access_key_id, token.expose()),
        None => keys.access_key_id.clone(),
    };
    Ok((username, Secret::new(format!("{moment}Z{signed}"))))
}

#[cfg(test)]
mod tests;
