//! What every kube-apiserver of the control plane verifies with and signs with, asked node by node and never through a balancer.
//!
//! | room | what is in it |
//! |---|---|
//! | `motion` | which nodes come, go or change: pure |
//! | `nodes` | which there are, as the cluster lists them |
//! | `watch` | asks them, in a task of its own |

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use serde::{Deserialize, Deserializer, de};

use super::times::Time;

#[cfg(feature = "kube")]
mod motion;
#[cfg(feature = "kube")]
mod nodes;
#[cfg(feature = "kube")]
mod watch;

#[cfg(feature = "kube")]
pub(super) use watch::{ApiServersSeen, begin};

/// The time between two looks at a kube-apiserver when nothing is said.
const USUAL_LOOK: Duration = Duration::from_secs(30);

/// Where kube-apiservers are found and asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiServersConfig {
    /// Credentials and authority, and the cluster whose nodes are looked at; that in which this process is a pod when missing.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it.
    pub context: Option<String>,
    /// Every kube-apiserver, by the name of its node; those that the cluster itself lists when there is none.
    #[serde(default)]
    pub servers: Vec<ListedServer>,
    /// The name in their certificates, where that is not their address.
    pub tls_server_name: Option<String>,
    /// The ServiceAccount whose tokens show which key signs; it needs no rights.
    #[serde(default)]
    pub service_account: Account,
    /// Whether the Node objects of the control plane say which nodes come and go.
    #[serde(default = "yes")]
    pub nodes: bool,
    look: Option<Time>,
}

impl ApiServersConfig {
    /// The time between two looks.
    pub fn look(&self) -> Duration {
        self.look.map_or(USUAL_LOOK, |look| look.0)
    }

    /// The first name that is given twice.
    pub(super) fn twice(&self) -> Option<&str> {
        let names = || self.servers.iter().map(|server| server.name.as_str());
        names().find(|name| names().filter(|other| other == name).count() > 1)
    }
}

fn yes() -> bool {
    true
}

/// One kube-apiserver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListedServer {
    /// The name of its node: that of its Node object, and of its signer.
    pub name: String,
    /// Its own address, with https.
    #[serde(deserialize_with = "address")]
    pub server: Uri,
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uri, D::Error> {
    let text = String::deserialize(deserializer)?;
    let read = text.parse::<Uri>().ok().filter(|server| server.scheme_str() == Some("https"));
    read.ok_or_else(|| {
        de::Error::custom(format!(
            "{text:?} is not the address of a kube-apiserver; expected its own, such as https://10.0.0.1:6443"
        ))
    })
}

/// A ServiceAccount, written as `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Default for Account {
    fn default() -> Self {
        Self { namespace: "kube-system".to_owned(), name: "default".to_owned() }
    }
}

impl TryFrom<String> for Account {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) => Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() }),
            None => Err(format!(
                "{text:?} is no NAMESPACE/NAME of a ServiceAccount; expected kube-system/default"
            )),
        }
    }
}
