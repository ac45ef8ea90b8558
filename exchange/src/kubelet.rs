//! Kubelet's image credential providers: what kubelet asks a plugin, and what the plugin answers
//! (<https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/>, KEP-4412).
//!
//! | room | what is in it |
//! |---|---|
//! | [`config`] | kubelet's configuration of its plugins, and what of it fails in silence |
//! | [`pattern`] | which images a plugin is asked for |
//! | [`rbac`] | whether nodes may ask for a token with the audience |
//!
//! The pod's own ServiceAccount acts, by a token that kubelet puts into the request. Without one nobody does: the node's
//! identity is never put in its place.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::cache::schedule::Schedule;
use crate::credential::{Credential, CredentialKind};
use crate::error::{Class, ExchangeError, Stage};
use crate::output;
use crate::service_account::{ServiceAccount, ServiceAccountName};
use crate::subject::GivenToken;
use crate::token::UnverifiedToken;

pub mod config;
pub mod pattern;
pub mod rbac;

/// The version of requests and answers.
pub const API_VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";

/// The largest request that is read, in bytes: a token, and annotations of at most 256 KiB.
pub const LARGEST_REQUEST: u64 = 512 * 1024;

/// What kubelet asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The image that is to be pulled.
    pub image: String,
    /// The token of the pod's ServiceAccount.
    pub token: UnverifiedToken,
    /// That ServiceAccount, with those of its annotations that the configuration names.
    pub account: ServiceAccount,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    api_version: String,
    kind: String,
    image: String,
    #[serde(default)]
    service_account_token: String,
    #[serde(default)]
    service_account_annotations: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CredentialProviderResponse<'a> {
    api_version: &'static str,
    kind: &'static str,
    cache_key_type: &'static str,
    cache_duration: String,
    auth: BTreeMap<&'a str, Login<'a>>,
}

#[derive(Serialize)]
struct Login<'a> {
    username: &'a str,
    password: &'a str,
}

impl Request {
    /// The request on standard input.
    ///
    /// # Errors
    /// When it is none, or has no token of a ServiceAccount.
    pub fn parse(text: &str) -> Result<Self, ExchangeError> {
        // What serde says may repeat a part of the request, which holds a token.
        let asked: Asked =
            serde_json::from_str(text).map_err(|_| not_asked("what stands on standard input"))?;
        let given = Zeroizing::new(asked.service_account_token);
        if asked.kind != "CredentialProviderRequest" || asked.api_version != API_VERSION {
            return Err(not_asked(&format!("a {} of {}", asked.kind, asked.api_version)));
        }
        if given.is_empty() {
            return Err(ExchangeError::new(Class::Source, Stage::Source, "kubelet-without-token")
                .came("kubelet's request has no token of a ServiceAccount")
                .expected("`tokenAttributes` with an audience in kubelet's configuration of this plugin")
                .remedy("run `chancery exchange explain-kubelet` over that configuration"));
        }
        let token = UnverifiedToken::parse(&given).map_err(|error| error.at("kubelet's request"))?;
        let account = account(&token, asked.service_account_annotations)?;
        Ok(Self { image: asked.image, token, account })
    }

    /// Its token as the source of a chain.
    pub fn source(&self) -> GivenToken {
        GivenToken { token: self.token.clone(), origin: "kubelet's request" }
    }

    /// The host of the image's registry, with its port.
    pub fn host(&self) -> &str {
        pattern::host(&self.image)
    }
}

/// The ServiceAccount that a token of Kubernetes' is for.
fn account(
    token: &UnverifiedToken,
    annotations: BTreeMap<String, String>,
) -> Result<ServiceAccount, ExchangeError> {
    let claimed = token.claims().service_account();
    let (Some(account), Some(subject)) = (claimed, token.claims().sub.as_deref()) else {
        return Err(not_kubernetes("the token names no ServiceAccount in `kubernetes.io`"));
    };
    let name = ServiceAccountName::new(account.namespace, account.name)?;
    if name.subject() != subject {
        return Err(not_kubernetes("the token's `sub` is another ServiceAccount than its `kubernetes.io`"));
    }
    Ok(ServiceAccount { name, uid: account.uid.unwrap_or_default().to_owned(), annotations })
}

fn not_kubernetes(came: &str) -> ExchangeError {
    ExchangeError::new(Class::Source, Stage::Source, "kubelet-token-foreign")
        .came(came)
        .expected("a token that an API server made for a pod")
        .remedy("have kubelet itself call the plugin")
}

fn not_asked(came: &str) -> ExchangeError {
    ExchangeError::configuration("kubelet-request")
        .came(came)
        .expected(format!("a CredentialProviderRequest of {API_VERSION}, as kubelet 1.33 and newer sends it"))
        .remedy(format!("set `apiVersion: {API_VERSION}` in kubelet's configuration of this plugin"))
}

/// The answer: a login for the host of the image and no other, kept by kubelet no longer than it is good for, nor than
/// `longest`.
///
/// # Errors
/// When the credential is no login.
pub fn answer(
    credential: &Credential,
    longest: Duration,
    now: Timestamp,
) -> Result<Zeroizing<String>, ExchangeError> {
    let CredentialKind::Registry(login) = &credential.kind else {
        return Err(ExchangeError::configuration("output-unsuitable")
            .came(&format!("{} is no login of a registry", credential.kind_in_words()))
            .remedy("name a target that gives one, or --username with a bearer token as the password"));
    };
    // Zero has kubelet keep nothing: what ends in half a minute would be dead when a second container is pulled.
    let keeps =
        Schedule::new(credential.duration(now), longest, 0.0).map_or(Duration::ZERO, |schedule| schedule.end);
    output::json(&CredentialProviderResponse {
        api_version: API_VERSION,
        kind: "CredentialProviderResponse",
        // The login is the host's, whichever of its images is pulled.
        cache_key_type: "Registry",
        cache_duration: format!("{}s", keeps.as_secs()),
        auth: BTreeMap::from([(
            login.host.as_str(),
            Login { username: &login.username, password: login.password.expose() },
        )]),
    })
}

#[cfg(test)]
mod tests;
