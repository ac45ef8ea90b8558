//! How a cluster is reached: by a kubeconfig, or as a pod in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::SourceError;

/// An API server on the same network answers in milliseconds; a host that is gone does not answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether this process is a pod with a ServiceAccount's token, by the variables that kubelet sets.
pub fn is_in_pod() -> bool {
    Config::incluster_env().is_ok()
}

/// The connection to the cluster of `kubeconfig`, in its `context` or the current one; without one, to the cluster
/// in which this process is a pod. A relative path starts at `base_dir`.
///
/// # Errors
/// When the file cannot be used, would have the server go unverified, or there is neither it nor a pod.
pub async fn access(
    (kubeconfig, context): (Option<&Path>, Option<&str>),
    base_dir: &Path,
) -> Result<Config, SourceError> {
    let mut config = match kubeconfig {
        Some(path) => from_kubeconfig(&base_dir.join(path), context).await?,
        None if context.is_some() => {
            let problem = "a context without a kubeconfig; set `kubeconfig` to the path of the file it is in";
            return Err(SourceError::Value { field: "context", problem: problem.to_owned() });
        }
        None => Config::incluster_env().map_err(|error| SourceError::NotInCluster(causes(&error)))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

/// A client for `config`. Needs a tokio runtime; connects to nothing yet.
///
/// # Errors
/// When a certificate or a credential in it cannot be used.
pub fn client(config: Config) -> Result<Client, SourceError> {
    let url = config.cluster_url.to_string();
    Client::try_from(config).map_err(|error| SourceError::Client { url, problem: causes(&error) })
}

async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Config, SourceError> {
    let refuse = |problem: String| SourceError::Kubeconfig { path: PathBuf::from(path), problem };
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
        error => causes(error),
    }
}

/// An error of an API call in words: what the API server said, or why it could not be asked.
pub(crate) fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => "the API server does not know our credentials (401); renew the kubeconfig's".to_owned(),
            403 => format!("{} (403); grant it by RBAC", status.message),
            code => format!("{} ({code})", status.message),
        },
        kube::Error::Service(error) => {
            let causes = causes(&**error);
            format!("cannot reach the API server: {causes}; check its address and its certificate authority")
        }
        error => causes(error),
    }
}

/// An error and its causes, each said once: the errors below repeat those they contain.
fn causes(error: &dyn std::error::Error) -> String {
    let below = std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    below.fold(error.to_string(), |said, cause| match said.contains(&cause) {
        true => said,
        false => format!("{said}: {cause}"),
    })
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
        let opened = access((Some(Path::new("kubeconfig")), context), dir.path()).await;
        opened.map_err(|error| crate::chain(&error))
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
        let nowhere = Path::new("/nowhere");
        let missing = access((Some(Path::new("kubeconfig")), None), nowhere).await.unwrap_err();
        assert!(missing.to_string().contains("/nowhere/kubeconfig: No such file"), "{missing}");
        let contradiction = access((None, Some("one")), nowhere).await.unwrap_err();
        assert!(contradiction.to_string().contains("set `kubeconfig`"), "{contradiction}");
        assert!(matches!(access((None, None), nowhere).await, Err(SourceError::NotInCluster(_))));
    }
}
