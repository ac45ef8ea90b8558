//! How a cluster is reached: by a kubeconfig, or as a pod in it; and never without a time limit.
//!
//! An API server that accepts a connection and says nothing must not stop anybody: every client that is made here gives
//! up after [`limits::CONNECT`] and [`limits::SILENCE`]. A watch is silent by nature and has a client of its own kind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::{error_chain, limits};

/// Whether this process is a pod with a ServiceAccount's token, by the variables that kubelet sets.
pub fn is_in_pod() -> bool {
    Config::incluster_env().is_ok()
}

/// Which cluster: that of a kubeconfig, in one of its contexts; without one, that in which this process is a pod.
#[derive(Clone, Copy, Debug)]
pub struct ClusterChoice<'a> {
    /// The kubeconfig's path.
    pub kubeconfig: Option<&'a Path>,
    /// The context in it; its current one when missing.
    pub context: Option<&'a str>,
    /// Where a relative path starts.
    pub base: &'a Path,
}

impl ClusterChoice<'_> {
    /// The connection to it, without having connected.
    ///
    /// # Errors
    /// When the file cannot be used, would have the server go unverified, or there is neither it nor a pod.
    pub async fn config(&self) -> Result<Config, AccessError> {
        let mut config = match self.kubeconfig {
            Some(path) => from_kubeconfig(&self.base.join(path), self.context).await?,
            None if self.context.is_some() => return Err(AccessError::ContextAlone),
            None => {
                Config::incluster_env().map_err(|error| AccessError::NotInCluster(error_chain(&error)))?
            }
        };
        config.connect_timeout = Some(limits::CONNECT);
        config.write_timeout = Some(limits::SILENCE);
        // Otherwise the time for which a connection rested unused counts against the next answer on it.
        config.reset_reader_on_write = true;
        Ok(config)
    }

    /// A client for single requests to it, as [`client`] makes.
    ///
    /// # Errors
    /// As [`config`](Self::config) and [`client`].
    pub async fn client(&self) -> Result<Client, AccessError> {
        client(self.config().await?)
    }
}

/// A client for single requests: it gives up when the server is silent for [`limits::SILENCE`]. Needs a tokio runtime;
/// connects to nothing yet.
///
/// # Errors
/// When a certificate or a credential in `config` cannot be used.
pub fn client(config: Config) -> Result<Client, AccessError> {
    open(config, limits::SILENCE)
}

/// A client for watches: it bears the silence of a watch on which nothing happens.
///
/// # Errors
/// As [`client`].
pub fn watching_client(config: Config) -> Result<Client, AccessError> {
    open(config, limits::WATCH_SILENCE)
}

fn open(mut config: Config, silence: Duration) -> Result<Client, AccessError> {
    config.read_timeout = Some(silence);
    // Whoever asks tries again by rules of its own. The client's tries would hide an outage for minutes, longer than a Lease.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    Client::try_from(config).map_err(|error| AccessError::Client { url, problem: error_chain(&error) })
}

async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Config, AccessError> {
    let refuse = |problem: String| AccessError::Kubeconfig { path: PathBuf::from(path), problem };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| refuse(explain_kubeconfig(&error)))?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| refuse(explain_kubeconfig(&error)))?;
    if config.accept_invalid_certs {
        let problem = "it says `insecure-skip-tls-verify`, so that anybody on the way could give us keys of their own; \
                       give the cluster's `certificate-authority` instead";
        return Err(refuse(problem.to_owned()));
    }
    if config.cluster_url.scheme_str() != Some("https") {
        let problem = format!("its server is {}; expected an https URL", config.cluster_url);
        return Err(refuse(problem));
    }
    Ok(config)
}

/// What is wrong with a kubeconfig, without the lines around it: they hold credentials.
fn explain_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => {
            let place = error.location().map(|place| format!(" at line {}", place.line()));
            format!("it is not the YAML of a kubeconfig{}", place.unwrap_or_default())
        }
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::LoadContext(_) => format!("{error}; `kubectl config get-contexts` lists them"),
        error => error_chain(error),
    }
}

/// An error of an API call in words: what the API server said, or why it could not be asked.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => "the API server does not know our credentials (401); renew the kubeconfig's".to_owned(),
            403 => format!("{} (403); grant it by RBAC", status.message),
            code => format!("{} ({code})", status.message),
        },
        kube::Error::Service(error) => {
            let causes = error_chain(&**error);
            format!("cannot reach the API server: {causes}; check its address and its certificate authority")
        }
        error => error_chain(error),
    }
}

/// Why a cluster cannot be reached by what a configuration and the environment say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A context, and nothing that it is in.
    #[error(
        "a `context` without a `kubeconfig`; set `kubeconfig` to the path of the file that the context is in"
    )]
    ContextAlone,
    /// A kubeconfig that cannot be used.
    #[error("cannot use the kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No kubeconfig is given, and this is no pod.
    #[error(
        "no `kubeconfig` is given and this process is not in a pod ({0}); set `kubeconfig` to the path of one"
    )]
    NotInCluster(String),
    /// An address that is none.
    #[error("{0} is not the address of a kube-apiserver; expected its own, such as https://10.0.0.1:6443")]
    NoHttps(String),
    /// A client for the cluster cannot be made.
    #[error("cannot make a client for {url}: {problem}; check the kubeconfig's certificates and credentials")]
    Client {
        /// The API server's URL.
        url: String,
        /// Why.
        problem: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {SERVER}}]
users: [{name: u, user: {token: topsecret}}]
";

    async fn open(text: &str, context: Option<&str>) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("kubeconfig"), text).unwrap();
        let choice = ClusterChoice { kubeconfig: Some(Path::new("kubeconfig")), context, base: dir.path() };
        choice.config().await.map_err(|error| error_chain(&error))
    }

    #[tokio::test]
    async fn a_kubeconfig_is_used_or_refused_in_words_without_its_secrets() {
        let https = KUBECONFIG.replace("SERVER", "server: 'https://10.0.0.1:6443'");
        assert_eq!(open(&https, None).await.unwrap().cluster_url, "https://10.0.0.1:6443/");
        let insecure = "server: 'https://10.0.0.1:6443', insecure-skip-tls-verify: true";
        for (text, context, complaint) in [
            (KUBECONFIG.replace("SERVER", insecure), None, "insecure-skip-tls-verify"),
            (KUBECONFIG.replace("SERVER", "server: 'http://10.0.0.1'"), None, "expected an https URL"),
            (https.clone(), Some("two"), "kubectl config get-contexts"),
            (
                https.replace("server:", "certificate-authority: nope, server:"),
                None,
                "nope\"': No such file or directory (os error 2)",
            ),
            (https.replace("kind:", "  kind:"), None, "not the YAML of a kubeconfig"),
            (https.replace("token:", "token: :"), None, "not the YAML of a kubeconfig"),
        ] {
            let error = open(&text, context).await.unwrap_err();
            assert!(error.contains(complaint), "{error}");
            assert!(!error.contains("topsecret"), "{error}");
        }
    }

    #[tokio::test]
    async fn without_a_kubeconfig_this_must_be_a_pod() {
        let choice = |kubeconfig: Option<&'static str>, context| ClusterChoice {
            kubeconfig: kubeconfig.map(Path::new),
            context,
            base: Path::new("/nowhere"),
        };
        let missing = choice(Some("kubeconfig"), None).config().await.unwrap_err();
        assert!(missing.to_string().contains("/nowhere/kubeconfig: No such file"), "{missing}");
        let contradiction = choice(None, Some("one")).config().await.unwrap_err();
        assert!(contradiction.to_string().contains("set `kubeconfig`"), "{contradiction}");
        assert!(matches!(choice(None, None).config().await, Err(AccessError::NotInCluster(_))));
    }
}
