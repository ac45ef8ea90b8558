//! The webhook's configuration: strict, and refused as a whole before anything starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::listener::TlsConfig;
use chancery_files::{Bounds, Kinds};
use serde::Deserialize;

use crate::aws::AwsSettings;
use crate::azure::AzureSettings;
use crate::gcp::GcpSettings;
use crate::registration::NAME;
use crate::settings::Settings;

/// A list of ServiceAccounts may stand in it.
const BOUNDS: Bounds = Bounds { bytes: 16 << 20, time: Duration::from_secs(10), kinds: Kinds::RegularOrPipe };

/// The longest that the process may go on after it was told to stop.
const LONGEST_DRAIN: u64 = 60;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Where kube-apiserver finds `/mutate`; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The serving certificate, which kube-apiserver holds against the `caBundle` of the registration. It is read again
    /// when its files change.
    pub tls: Option<TlsConfig>,
    /// In the place of `tls`: the webhook makes its certificate itself.
    pub self_signed: Option<SelfSignedConfig>,
    /// Where /livez, /readyz and /metrics are served, without TLS; not at all when missing.
    pub admin: Option<AdminConfig>,
    /// The kubeconfig of the cluster; when missing, the cluster in which this process is a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; its current one when missing.
    pub context: Option<String>,
    /// The MutatingWebhookConfiguration that has kube-apiserver ask us, whose `caBundle` is looked at where it may be
    /// read; none is if this is empty, for a proxy in front that shows a certificate of its own.
    #[serde(default = "usual_registration")]
    pub registration: String,
    /// For how many seconds requests are still taken after the signal to stop. It is longer than it takes until nobody
    /// sends any: kube-proxy has to hear of it on every node.
    #[serde(default = "usual_drain")]
    pub drain_seconds: u64,
    /// Amazon Web Services.
    #[serde(default)]
    pub aws: AwsSettings,
    /// Microsoft Azure.
    #[serde(default)]
    pub azure: AzureSettings,
    /// Google Cloud.
    #[serde(default)]
    pub gcp: GcpSettings,
}

/// A certificate of the webhook's own: `selfSigned`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SelfSignedConfig {
    /// The namespace of the Secret, which is the webhook's; that of the kubeconfig or the pod when missing.
    pub namespace: Option<String>,
    /// The Secret that keeps the authority.
    #[serde(default = "usual_secret")]
    pub secret: String,
    /// The Service, for whose name the certificate is until a registration says another.
    #[serde(default = "usual_service")]
    pub service: String,
}

fn usual_secret() -> String {
    "chancery-webhook-authority".to_owned()
}

fn usual_service() -> String {
    "chancery-webhook".to_owned()
}

/// The operators' port: `admin`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AdminConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
}

fn usual_registration() -> String {
    NAME.to_owned()
}

fn usual_drain() -> u64 {
    10
}

impl Config {
    /// Reads and checks a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Names the file, the line and what was expected.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let refuse = |problem: String| ConfigError { path: path.to_owned(), problem };
        let bytes = chancery_files::read(path, BOUNDS).map_err(|error| refuse(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| refuse(error.to_string()))?;
        let mut config: Self = serde_saphyr::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        if config.drain_seconds > LONGEST_DRAIN {
            let came = config.drain_seconds;
            return Err(refuse(format!("drainSeconds is {came}; expected at most {LONGEST_DRAIN}")));
        }
        let (has_files, is_own) = (config.tls.is_some(), config.self_signed.is_some());
        if has_files == is_own {
            let came = if is_own { "both" } else { "neither" };
            return Err(refuse(format!("{came} of `tls` and `selfSigned` came; expected one")));
        }
        if is_own && config.registration.is_empty() {
            return Err(refuse(
                "`registration` is empty; expected its name beside `selfSigned`, since the webhook writes its caBundle".to_owned(),
            ));
        }
        config.tls = config.tls.map(|tls| tls.below(path.parent().unwrap_or(Path::new(""))));
        Ok(config)
    }

    /// What it says of the clouds.
    pub fn settings(&self) -> Settings {
        Settings { aws: self.aws.clone(), azure: self.azure.clone(), gcp: self.gcp.clone() }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: {problem}; docs/webhook.md describes every field", path.display())]
pub struct ConfigError {
    path: PathBuf,
    problem: String,
}
