//! Asks every kube-apiserver, again and again, in a task of its own: one that does not answer holds up nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::access::ClusterChoice;
use chancery_cluster::api_server::{ApiServer, Canary, discovery};
use chancery_core::KeyId;
use chancery_core::rotation::ApiServer as Shown;
use http::Uri;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::motion::{ControlPlaneNode, motions};
use super::{ApiServersConfig, nodes};
use crate::rotation::feed::{Feed, FeedError, RingSeen};

/// How long one kube-apiserver may take for all that it is asked in a look.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is asked for a token while it signs with the key that the ring says.
const TOKEN: Duration = Duration::from_secs(300);

/// Whom the tokens are for.
const AUDIENCE: &str = "chancery.dev/rotation";

/// The shortest life that kube-apiserver gives a token, in seconds.
const LIFETIME: u64 = 600;

/// What one look showed.
#[derive(Clone, Debug, Default)]
pub(in crate::rotation) struct ApiServersSeen {
    /// Every one there should be, by the name of its node.
    pub servers: BTreeMap<String, Shown>,
    /// Why it is not known which there are.
    pub unknown_nodes: Option<String>,
}

impl ApiServersSeen {
    /// Before the first look is over.
    pub fn nothing_yet() -> Self {
        let why = "no look at the kube-apiservers is over yet".to_owned();
        Self { servers: BTreeMap::new(), unknown_nodes: Some(why) }
    }

    /// What could not be seen, and why.
    pub fn troubles(&self) -> Vec<String> {
        let unseen = self.servers.iter().filter_map(|(name, server)| Some((name, server.unseen.as_ref()?)));
        let unseen = unseen.map(|(name, why)| format!("kube-apiserver of {name} is not seen: {why}"));
        let nodes = self.unknown_nodes.iter();
        nodes
            .map(|why| format!("which nodes the control plane has is not known: {why}"))
            .chain(unseen)
            .collect()
    }
}

/// Begins to look. Nothing is asked yet.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub(in crate::rotation) async fn begin(
    config: &ApiServersConfig,
    base: &Path,
) -> Result<Feed<ApiServersSeen>, FeedError> {
    let choice =
        ClusterChoice { kubeconfig: config.kubeconfig.as_deref(), context: config.context.as_deref(), base };
    let cluster = choice.client().await.map_err(|error| FeedError::Access { part: "apiServers", error })?;
    let watched = Watched {
        config: config.clone(),
        base: base.to_owned(),
        cluster,
        servers: BTreeMap::new(),
        nodes: Vec::new(),
    };
    Ok(Feed::begin(|ring, found| watched.run(ring, found)))
}

/// Everything that is looked at.
struct Watched {
    config: ApiServersConfig,
    base: PathBuf,
    cluster: Client,
    servers: BTreeMap<String, Server>,
    /// As they were listed last.
    nodes: Vec<ControlPlaneNode>,
}

/// One kube-apiserver, and what it showed last.
struct Server {
    address: Uri,
    asked: ApiServer,
    shown: Shown,
    version: Option<String>,
    token_at: Option<Instant>,
}

impl Watched {
    async fn run(mut self, mut ring: RingSeen, found: watch::Sender<Option<ApiServersSeen>>) {
        let active = |ring: &RingSeen| ring.borrow().as_ref()?.active().map(|key| key.kid().clone());
        loop {
            let signs = active(&ring);
            ring.mark_unchanged();
            let seen = self.look(signs.as_ref()).await;
            if found.send(Some(seen)).is_err() {
                return;
            }
            let another = async {
                while ring.changed().await.is_ok() {
                    if active(&ring) != signs {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = sleep(self.config.look()) => {}
                () = another => {}
            }
        }
    }

    async fn look(&mut self, active: Option<&KeyId>) -> ApiServersSeen {
        let mut unknown_nodes = self.list().await.err();
        let mut asking = JoinSet::new();
        for (name, server) in std::mem::take(&mut self.servers) {
            let (account, active) = (self.config.service_account.clone(), active.cloned());
            asking.spawn(async move {
                let mut server = server;
                let (namespace, account) = (account.namespace.as_str(), account.name.as_str());
                let canary = Canary { namespace, account, audience: AUDIENCE, seconds: LIFETIME };
                let asked = timeout(PATIENCE, server.ask(&canary, active.as_ref())).await;
                let late = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
                server.shown.unseen = asked.unwrap_or_else(|_| late()).err();
                (name, server)
            });
        }
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok((name, server)) => _ = self.servers.insert(name, server),
                Err(_) => {
                    unknown_nodes = Some("a look at a kube-apiserver ended by a fault of ours".to_owned());
                }
            }
        }
        let versions = self.servers.iter().map(|(name, server)| (name.clone(), server.version.clone()));
        let mut motions = motions(&self.nodes, &versions.collect());
        let mut servers: BTreeMap<String, Shown> = BTreeMap::new();
        for (name, server) in &self.servers {
            let motion = motions.remove(name);
            servers.insert(name.clone(), Shown { motion, ..server.shown.clone() });
        }
        // What is left has no kube-apiserver yet, or none any more.
        servers.extend(
            motions
                .into_iter()
                .map(|(name, motion)| (name, Shown { motion: Some(motion), ..Shown::default() })),
        );
        ApiServersSeen { servers, unknown_nodes }
    }

    /// Which there are. What cannot be listed stays as it was listed last.
    async fn list(&mut self) -> Result<(), String> {
        let config = &self.config;
        let mut trouble = None;
        if config.nodes {
            match nodes::nodes(&self.cluster).await {
                Ok(nodes) => self.nodes = nodes,
                Err(why) => trouble = Some(why),
            }
        }
        let listed = config.servers.iter().map(|one| (one.name.clone(), one.server.clone()));
        let mut servers: BTreeMap<String, Uri> = listed.collect();
        let is_found = servers.is_empty();
        if is_found {
            match nodes::addresses(&self.cluster).await {
                Ok(addresses) => servers = nodes::named(addresses, &self.nodes),
                Err(why) => return Err(trouble.map_or(why.clone(), |other| format!("{other}; {why}"))),
            }
        }
        self.servers.retain(|name, server| servers.get(name) == Some(&server.address));
        let choice = ClusterChoice {
            kubeconfig: config.kubeconfig.as_deref(),
            context: config.context.as_deref(),
            base: &self.base,
        };
        let usual = is_found.then_some(discovery::SERVER_NAME);
        let server_name = config.tls_server_name.as_deref().or(usual);
        for (name, address) in servers {
            if self.servers.contains_key(&name) {
                continue;
            }
            let asked = ApiServer::open(&choice, &address, server_name).await;
            let asked = asked.map_err(|error| chancery_cluster::error_chain(&error))?;
            let shown = Shown { unseen: Some("it was not asked yet".to_owned()), ..Shown::default() };
            self.servers.insert(name, Server { address, asked, shown, version: None, token_at: None });
        }
        trouble.map_or(Ok(()), Err)
    }
}

impl Server {
    /// Asks for its keys and its release, and for a token when it is time to.
    async fn ask(&mut self, canary: &Canary<'_>, active: Option<&KeyId>) -> Result<(), String> {
        let jwks = self.asked.jwks().await.map_err(|error| error.to_string())?;
        self.shown.verifies = jwks.keys().map(|key| key.key_id().clone()).collect();
        self.version = Some(self.asked.version().await.map_err(|error| error.to_string())?);
        let is_due = self.token_at.is_none_or(|at| at.elapsed() >= TOKEN);
        if !is_due && self.shown.signs.as_ref() == active {
            return Ok(());
        }
        let minted = self.asked.mint(canary).await.map_err(|error| error.to_string())?;
        let kid = minted.kid.parse::<KeyId>();
        self.shown.signs =
            Some(kid.map_err(|error| format!("a token of it names a key that cannot be one: {error}"))?);
        self.token_at = Some(Instant::now());
        Ok(())
    }
}
