//! What a Kubernetes cluster is told: who it is as an issuer, and whom it trusts.
//!
//! A value of [`Cluster`] is a description; each [`KubeApiserver`](crate::kube_apiserver::KubeApiserver) started
//! from it is one replica of its control plane. To give a replica other keys, clone it and change the keys:
//! the clone still is the same cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::authority::{Authority, ServerCertificate};
use crate::relying_party::TrustedIssuer;
use crate::scratch::Scratch;

/// The audience of the API server itself, as kubeadm sets it.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc";
/// Prefix of the user names that come from a trusted issuer.
pub const USERNAME_PREFIX: &str = "oidc:";

/// Names another of the servers in `tests/servers` to run suites on: an older Kubernetes, for `make soak`.
const PROGRAM: &str = "CHANCERY_KUBE_APISERVER";
const NEWEST: &str = "kube-apiserver";
/// Kubernetes 1.33, which `make soak` builds.
pub const KUBERNETES_1_33: &str = "kube-apiserver-1.33";

/// The settings that all replicas of one control plane share.
#[derive(Clone, Debug)]
pub struct Cluster {
    etcd: String,
    prefix: String,
    issuers: Vec<String>,
    jwks_uri: Option<String>,
    signing: Signing,
    api_audiences: Vec<String>,
    max_token_expiration: Option<Duration>,
    trusts: Option<TrustedIssuer>,
    program: String,
    files: Arc<Files>,
}

/// Who signs its tokens.
#[derive(Clone, Debug)]
enum Signing {
    /// kube-apiserver, with a key in a file; it verifies by those in `keys`.
    Files { key: PathBuf, keys: Vec<PathBuf> },
    /// An external signer behind a socket (KEP-740), which says by which keys to verify too.
    Endpoint(PathBuf),
}

#[derive(Debug)]
struct Files {
    dir: Scratch,
    authority: Authority,
    certificate: ServerCertificate,
}

impl Cluster {
    /// A new cluster in the etcd at `etcd`, whose ServiceAccount tokens say `issuer` and are signed with the PEM
    /// private key in `signing_key`. It verifies tokens by that key, until [`keys`](Self::keys) says otherwise.
    pub fn new(etcd: &str, issuer: &str, signing_key: &Path) -> Result<Self> {
        let keys = vec![signing_key.to_owned()];
        Self::with(etcd, issuer, Signing::Files { key: signing_key.to_owned(), keys })
    }

    /// The same with an external signer's socket in place of every key file.
    pub fn signed_through(etcd: &str, issuer: &str, socket: &Path) -> Result<Self> {
        Self::with(etcd, issuer, Signing::Endpoint(socket.to_owned()))
    }

    fn with(etcd: &str, issuer: &str, signing: Signing) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let dir = Scratch::new("cluster")?;
        let authority = Authority::new(dir.path())?;
        let certificate = authority.issue(dir.path(), &crate::authority::LOOPBACK)?;
        Ok(Self {
            etcd: etcd.to_owned(),
            prefix: format!("/cluster-{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
            issuers: vec![issuer.to_owned()],
            jwks_uri: None,
            signing,
            api_audiences: vec![API_AUDIENCE.to_owned()],
            max_token_expiration: None,
            trusts: None,
            program: std::env::var(PROGRAM).unwrap_or_else(|_| NEWEST.to_owned()),
            files: Arc::new(Files { dir, authority, certificate }),
        })
    }

    /// The issuers that it accepts tokens of; those that it signs have the first one.
    #[must_use]
    pub fn issuers(mut self, issuers: &[&str]) -> Self {
        self.issuers = issuers.iter().map(|issuer| (*issuer).to_owned()).collect();
        self
    }

    /// What its discovery document advertises. By default kube-apiserver advertises its own address there.
    #[must_use]
    pub fn jwks_uri(mut self, uri: &str) -> Self {
        self.jwks_uri = Some(uri.to_owned());
        self
    }

    /// The key that signs, PEM.
    #[must_use]
    pub fn signing_key(mut self, key: &Path) -> Self {
        let keys = match self.signing {
            Signing::Files { keys, .. } => keys,
            Signing::Endpoint(_) => vec![key.to_owned()],
        };
        self.signing = Signing::Files { key: key.to_owned(), keys };
        self
    }

    /// An external signer's socket, in place of every key file.
    #[must_use]
    pub fn signing_endpoint(mut self, socket: &Path) -> Self {
        self.signing = Signing::Endpoint(socket.to_owned());
        self
    }

    /// The files (public or private halves, PEM) of all keys that it verifies by, and that its JWKS shows.
    #[must_use]
    pub fn keys(mut self, keys: &[&Path]) -> Self {
        if let Signing::Files { keys: verifying, .. } = &mut self.signing {
            *verifying = keys.iter().map(|key| key.to_path_buf()).collect();
        }
        self
    }

    /// The audiences of its own API. The first one is given to a token whose request names none.
    #[must_use]
    pub fn api_audiences(mut self, audiences: &[&str]) -> Self {
        self.api_audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        self
    }

    /// The longest life a token is given, in whole seconds; kube-apiserver takes an hour at least.
    #[must_use]
    pub fn max_token_expiration(mut self, longest: Duration) -> Self {
        self.max_token_expiration = Some(longest);
        self
    }

    /// Makes it a relying party of another issuer: its users are the subjects there, after [`USERNAME_PREFIX`].
    #[must_use]
    pub fn trusts(mut self, issuer: TrustedIssuer) -> Self {
        self.trusts = Some(issuer);
        self
    }

    /// The authority of its API servers.
    pub fn authority(&self) -> &Authority {
        &self.files.authority
    }

    /// The arguments of kube-apiserver that say all this. Its files are written to `dir`.
    pub(crate) fn arguments(&self, dir: &Scratch) -> Result<Vec<String>> {
        let mut flags = vec![
            ("etcd-servers", self.etcd.clone()),
            ("etcd-prefix", self.prefix.clone()),
            ("tls-cert-file", path(&self.files.certificate.cert)),
            ("tls-private-key-file", path(&self.files.certificate.key)),
            ("api-audiences", self.api_audiences.join(",")),
        ];
        flags.extend(self.issuers.iter().map(|issuer| ("service-account-issuer", issuer.clone())));
        match &self.signing {
            Signing::Files { key, keys } => {
                flags.push(("service-account-signing-key-file", path(key)));
                flags.extend(keys.iter().map(|key| ("service-account-key-file", path(key))));
            }
            Signing::Endpoint(socket) => {
                flags.push(("service-account-signing-endpoint", path(socket)));
                if self.is_older() {
                    flags.push(("feature-gates", "ExternalServiceAccountTokenSigner=true".to_owned()));
                }
            }
        }
        flags.extend(self.jwks_uri.clone().map(|uri| ("service-account-jwks-uri", uri)));
        if let Some(longest) = self.max_token_expiration {
            flags.push(("service-account-max-token-expiration", format!("{}s", longest.as_secs())));
        }
        if let Some(issuer) = &self.trusts {
            let configuration = authentication_configuration(issuer, self.is_older()).to_string();
            let file = dir.write("authentication.yaml", configuration)?;
            flags.push(("authentication-config", path(&file)));
        }
        Ok(flags.into_iter().map(|(flag, value)| format!("--{flag}={value}")).collect())
    }

    /// Runs another kube-apiserver, by its name in `tests/servers`.
    #[must_use]
    pub fn on(self, program: &str) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    /// The kube-apiserver that is run, by its name in `tests/servers`.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Whether it is older than 1.34, which has the external signer by itself and knows the configuration as `v1`
    /// (<https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>).
    fn is_older(&self) -> bool {
        self.program != NEWEST
    }

    /// A folder that lives as long as the last value that describes this cluster.
    pub fn dir(&self) -> &Scratch {
        &self.files.dir
    }
}

fn authentication_configuration(issuer: &TrustedIssuer, is_older: bool) -> Value {
    // Required with several audiences, refused with one.
    let policy = if issuer.audiences.len() > 1 { "MatchAny" } else { "" };
    let version = if is_older { "v1beta1" } else { "v1" };
    json!({
        "apiVersion": format!("apiserver.config.k8s.io/{version}"),
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {
                "url": issuer.url,
                "audiences": issuer.audiences,
                "audienceMatchPolicy": policy,
                "certificateAuthority": issuer.ca_pem,
            },
            "claimMappings": { "username": { "claim": "sub", "prefix": USERNAME_PREFIX } },
        }],
    })
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
