//! ServiceAccounts of a cluster, over kube's client.
//!
//! Requests and answers are plain JSON: what a newer API server knows of a TokenRequest that we do not is let pass.

use std::collections::BTreeMap;

use async_trait::async_trait;
#[cfg(feature = "agent")]
use base64::Engine as _;
#[cfg(feature = "agent")]
use base64::engine::general_purpose::STANDARD;
use chancery_cluster::access;
pub use chancery_cluster::access::ClusterChoice;
use http::Request;
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;
#[cfg(feature = "agent")]
use zeroize::Zeroizing;

#[cfg(feature = "agent")]
use crate::argocd::fields::RepositorySecret;
#[cfg(feature = "agent")]
use crate::argocd::resolver::{MISSING, Repositories};
use crate::error::{Class, ExchangeError, Stage};
use crate::limits;
use crate::service_account::{ServiceAccount, ServiceAccountName, ServiceAccounts, TokenRequest, refused};
use crate::token::UnverifiedToken;

/// A cluster whose ServiceAccounts are read and given tokens.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    url: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Given {
    status: GivenStatus,
}

#[derive(Deserialize)]
struct GivenStatus {
    token: String,
}

impl Cluster {
    /// The cluster of a kubeconfig, or that in which this process is a pod. Nothing is asked yet.
    ///
    /// # Errors
    /// When it cannot be reached by what the kubeconfig and the environment say.
    pub async fn open(choice: ClusterChoice<'_>) -> Result<Self, ExchangeError> {
        Self::new(choice.config().await.map_err(unusable)?)
    }

    /// The cluster of a configuration. Nothing is asked yet, and nothing is tried again by the client itself: what is,
    /// and for how long, is the chain's to say.
    ///
    /// # Errors
    /// When a certificate or a credential in it cannot be used.
    pub fn new(config: Config) -> Result<Self, ExchangeError> {
        let url = config.cluster_url.to_string();
        Ok(Self { client: access::client(config).map_err(unusable)?, url })
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
        refused: impl Fn(u16, &str) -> ExchangeError,
    ) -> Result<T, ExchangeError> {
        let answer = tokio::time::timeout(limits::CLUSTER, self.client.request(request)).await;
        let answer = answer.map_err(|_| {
            ExchangeError::new(Class::Transient, Stage::Source, "cluster-unreachable")
                .came(&format!("no answer within {} s", limits::CLUSTER.as_secs()))
                .remedy("check the API server's address")
                .target(&self.url)
        })?;
        answer.map_err(|error| {
            let error = match &error {
                kube::Error::Api(status) => refused(status.code, &status.message),
                error => ExchangeError::new(Class::Transient, Stage::Source, "cluster-unreachable")
                    .came(&access::explain(error))
                    .remedy("check the API server's address and its certificate authority"),
            };
            error.target(&self.url)
        })
    }
}

#[async_trait]
impl ServiceAccounts for Cluster {
    fn cluster(&self) -> &str {
        &self.url
    }

    async fn read(&self, name: &ServiceAccountName) -> Result<ServiceAccount, ExchangeError> {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{}", name.namespace(), name.name());
        let request = Request::get(path).body(Vec::new()).map_err(|error| unmade(&error))?;
        let Object { metadata } = self.ask(request, |status, message| refused(status, message, name)).await?;
        Ok(ServiceAccount { name: name.clone(), uid: metadata.uid, annotations: metadata.annotations })
    }

    async fn token(&self, request: &TokenRequest) -> Result<UnverifiedToken, ExchangeError> {
        let post = Request::post(request.path())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(request.body()?.to_string().into_bytes())
            .map_err(|error| unmade(&error))?;
        let account = &request.account;
        let Given { status } = self.ask(post, |status, message| refused(status, message, account)).await?;
        let token = chancery_wire::Secret::new(status.token);
        UnverifiedToken::parse(token.expose()).map_err(|error| error.at("the answer to a TokenRequest"))
    }
}

#[cfg(feature = "agent")]
#[derive(Deserialize)]
struct Secret {
    metadata: Labelled,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[cfg(feature = "agent")]
#[derive(Deserialize)]
struct Labelled {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[cfg(feature = "agent")]
#[async_trait]
impl Repositories for Cluster {
    async fn read(&self, namespace: &str, name: &str) -> Result<RepositorySecret, ExchangeError> {
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let request = Request::get(path).body(Vec::new()).map_err(|error| unmade(&error))?;
        let Secret { metadata, data } =
            self.ask(request, |status, message| unread(status, message, namespace, name)).await?;
        let decoded = |(field, value): (String, String)| {
            let bytes = Zeroizing::new(STANDARD.decode(Zeroizing::new(value)).ok()?);
            Some((field, Zeroizing::new(std::str::from_utf8(&bytes).ok()?.to_owned())))
        };
        // What is no text is none of the fields that are read.
        Ok(RepositorySecret {
            labels: metadata.labels,
            values: data.into_iter().filter_map(decoded).collect(),
        })
    }
}

#[cfg(feature = "agent")]
fn unread(status: u16, message: &str, namespace: &str, name: &str) -> ExchangeError {
    let class = Class::of_status(status);
    let (code, remedy) = match status {
        404 => (MISSING, format!("name a Secret in {namespace}")),
        403 => ("cluster-forbidden", format!("grant `get` on the Secret {name} in {namespace} by RBAC")),
        401 => {
            ("cluster-unauthenticated", "renew the credentials by which the cluster is reached".to_owned())
        }
        _ => ("cluster-failed", "try again a little later".to_owned()),
    };
    ExchangeError::new(class, Stage::Identity, code).status(status).came(message).remedy(remedy)
}

fn unusable(error: access::AccessError) -> ExchangeError {
    ExchangeError::configuration("cluster-unusable")
        .came(&error.to_string())
        .remedy("name a kubeconfig, or run as a pod")
}

fn unmade(error: &http::Error) -> ExchangeError {
    ExchangeError::configuration("request-unmade").came(&error.to_string())
}
