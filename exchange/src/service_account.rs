//! ServiceAccounts, and what is asked of an API server about them. No client is in here.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::error::{Class, ExchangeError, Stage};
use crate::token::UnverifiedToken;

/// The shortest life of a token that Kubernetes gives, in seconds.
const SHORTEST: u64 = 600;
/// The longest, in seconds.
const LONGEST: u64 = 1 << 32;

/// The name of a ServiceAccount. There is none without its namespace, and none of another namespace by accident.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAccountName {
    namespace: String,
    name: String,
}

/// A ServiceAccount as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its name.
    pub name: ServiceAccountName,
    /// Its UID: one of the same name that was made anew is another.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What a token ends with, beside its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// `Pod`, `Secret` or `Node`.
    pub kind: BoundKind,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Option<String>,
}

/// What a token can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// A pod that runs as the ServiceAccount.
    Pod,
    /// A Secret of its namespace.
    Secret,
    /// A node.
    Node,
}

/// A TokenRequest
/// (<https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// For which ServiceAccount.
    pub account: ServiceAccountName,
    /// Its UID, so that one that was made anew meanwhile gets none.
    pub uid: String,
    /// For whom the token is.
    pub audiences: Vec<String>,
    /// How long it lives, in seconds. The API server may give less or more.
    pub seconds: u64,
    /// What it ends with.
    pub bound: Option<BoundObject>,
}

/// An API server, as far as ServiceAccounts go.
#[async_trait]
pub trait ServiceAccounts: Send + Sync {
    /// Which cluster: what tells two of them apart in the cache's key.
    fn cluster(&self) -> &str;

    /// Reads a ServiceAccount.
    async fn read(&self, name: &ServiceAccountName) -> Result<ServiceAccount, ExchangeError>;

    /// Has a token made.
    async fn token(&self, request: &TokenRequest) -> Result<UnverifiedToken, ExchangeError>;
}

impl ServiceAccountName {
    /// A name in a namespace.
    ///
    /// # Errors
    /// When one of them is no name of Kubernetes'.
    pub fn new(namespace: &str, name: &str) -> Result<Self, ExchangeError> {
        let is_label = |label: &str| {
            let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !label.is_empty() && label.bytes().all(legal) && !label.starts_with('-') && !label.ends_with('-')
        };
        let namespace_fits = is_label(namespace) && namespace.len() <= 63;
        let name_fits = name.split('.').all(is_label) && name.len() <= 253;
        if namespace_fits && name_fits {
            return Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() });
        }
        Err(ExchangeError::configuration("service-account-name")
            .came(&format!("{name:?} in namespace {namespace:?} is no ServiceAccount"))
            .expected("names of lower case letters, digits and `-`")
            .remedy("write NAMESPACE/NAME"))
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name in it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name that a token says in `sub`, if it is a ServiceAccount's.
    pub fn of_subject(subject: &str) -> Option<Self> {
        let (namespace, name) = subject.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        Self::new(namespace, name).ok()
    }

    /// What its tokens say in `sub`.
    pub fn subject(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl TokenRequest {
    /// The path of the request.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", self.account.namespace, self.account.name)
    }

    /// The body of the request.
    ///
    /// # Errors
    /// When the token would have no audience, and so open the API server, or a life that Kubernetes does not give.
    pub fn body(&self) -> Result<Value, ExchangeError> {
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            return Err(ExchangeError::configuration("no-audience")
                .came("a token without an audience is asked for")
                .expected("the audience of the other side")
                .remedy("name it: without one, Kubernetes gives a token for its own API"));
        }
        if !(SHORTEST..=LONGEST).contains(&self.seconds) {
            return Err(ExchangeError::configuration("subject-token-lifetime")
                .came(&format!("a token of {} s is asked for", self.seconds))
                .expected("600 s or more")
                .remedy("ask for 600 s, the shortest that Kubernetes gives"));
        }
        let mut spec = json!({ "audiences": self.audiences, "expirationSeconds": self.seconds });
        if let (Some(bound), Some(spec)) = (&self.bound, spec.as_object_mut()) {
            let mut reference =
                json!({ "kind": bound.kind.as_str(), "apiVersion": "v1", "name": bound.name });
            if let (Some(uid), Some(reference)) = (&bound.uid, reference.as_object_mut()) {
                reference.insert("uid".to_owned(), uid.as_str().into());
            }
            spec.insert("boundObjectRef".to_owned(), reference);
        }
        Ok(json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": { "name": self.account.name, "namespace": self.account.namespace, "uid": self.uid },
            "spec": spec,
        }))
    }
}

impl BoundKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }
}

/// What an API server refused, by its status and its message.
pub fn refused(status: u16, message: &str, account: &ServiceAccountName) -> ExchangeError {
    let class = Class::of_status(status);
    let (code, class, remedy) = match status {
        401 => (
            "cluster-unauthenticated",
            class,
            "renew the credentials by which the cluster is reached".to_owned(),
        ),
        403 => (
            "cluster-forbidden",
            class,
            format!(
                "grant `get` on serviceaccounts and `create` on serviceaccounts/token in {} by RBAC",
                account.namespace
            ),
        ),
        404 => (
            "service-account-missing",
            class,
            format!("create the ServiceAccount {account}, or name another"),
        ),
        409 => (
            "service-account-replaced",
            class,
            "ask again: the ServiceAccount was made anew, and is read anew".to_owned(),
        ),
        400 | 422 => (
            "token-request-refused",
            class,
            "correct the lifetime, the audience or the bound object".to_owned(),
        ),
        _ => ("cluster-failed", class, "try again a little later".to_owned()),
    };
    let stage = if status == 404 { Stage::Identity } else { Stage::Source };
    ExchangeError::new(class, stage, code).status(status).came(message).remedy(remedy)
}

impl FromStr for ServiceAccountName {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self::new(namespace, name)
    }
}

impl fmt::Display for ServiceAccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> TokenRequest {
        TokenRequest {
            account: "team-a/app".parse().unwrap(),
            uid: "u-1".to_owned(),
            audiences: vec!["sts.amazonaws.com".to_owned()],
            seconds: 600,
            bound: None,
        }
    }

    #[test]
    fn r0_06_a_token_request_has_exactly_the_audiences_and_the_uid() {
        let mut asked = request();
        assert_eq!(asked.path(), "/api/v1/namespaces/team-a/serviceaccounts/app/token");
        let body = asked.body().unwrap();
        assert_eq!(body["spec"], json!({ "audiences": ["sts.amazonaws.com"], "expirationSeconds": 600 }));
        assert_eq!(body["metadata"]["uid"], "u-1");
        assert_eq!(body["metadata"]["namespace"], "team-a");
        asked.bound =
            Some(BoundObject { kind: BoundKind::Pod, name: "p".to_owned(), uid: Some("u-2".to_owned()) });
        let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u-2" });
        assert_eq!(asked.body().unwrap()["spec"]["boundObjectRef"], bound);
        for audiences in [vec![], vec![String::new()]] {
            let error = TokenRequest { audiences, ..request() }.body().unwrap_err();
            assert_eq!(error.code(), "no-audience");
        }
        assert_eq!(
            TokenRequest { seconds: 599, ..request() }.body().unwrap_err().code(),
            "subject-token-lifetime"
        );
    }

    #[test]
    fn r0_08_a_name_cannot_reach_into_another_namespace() {
        for text in ["app", "/app", "a/b/c", "a/../b", "a/B", "a/", "a/-b", "a b/c", "a/b?x", "a/b%2f"] {
            assert!(text.parse::<ServiceAccountName>().is_err(), "{text}");
        }
        let name: ServiceAccountName = "team-a/app.v1".parse().unwrap();
        assert_eq!(name.subject(), "system:serviceaccount:team-a:app.v1");
    }
}
