//! etcd, the store below kube-apiservers.

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::process::{Process, READY, mortal};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

/// A single-member etcd. It promises nothing about a power cut: it never syncs to disk.
#[derive(Debug)]
pub struct Etcd {
    url: String,
    // The process before its folder: fields are dropped in this order.
    process: Process,
    _dir: Scratch,
}

impl Etcd {
    /// The etcd that all tests of this process share. Clusters in it are kept apart by their prefix.
    ///
    /// It is never dropped; it dies with the process (see [`crate::process`]).
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Etcd> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// An etcd of one's own.
    pub async fn start() -> Result<Self> {
        let dir = Scratch::new("etcd")?;
        let url = format!("http://{}", ports::free_address()?);
        let peer = format!("http://{}", ports::free_address()?);
        let mut command = mortal(&binary::server("etcd")?);
        command.args(["--name=e2e", "--unsafe-no-fsync", "--log-level=error"]);
        command.arg(format!("--data-dir={}", dir.join("data").display()));
        for flag in ["listen-client-urls", "advertise-client-urls"] {
            command.arg(format!("--{flag}={url}"));
        }
        for flag in ["listen-peer-urls", "initial-advertise-peer-urls"] {
            command.arg(format!("--{flag}={peer}"));
        }
        command.arg(format!("--initial-cluster=e2e={peer}"));
        let mut process = Process::start("etcd", command, &dir.join("log"))?;
        let client = http::client(None)?;
        let health = format!("{url}/readyz");
        process
            .ready(READY, async || {
                client.get(&health).send().await.is_ok_and(|answer| answer.status().is_success())
            })
            .await?;
        Ok(Self { url, process, _dir: dir })
    }

    /// The client URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The running program.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
