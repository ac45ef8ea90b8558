//! What every process has that answers on this machine: metrics for an operator beside it, and what signals mean.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_exchange::ExchangeError;
use chancery_exchange::agent::{Admin, Door, Place};
use chancery_exchange::cache::{Cache, Purge};
use chancery_exchange::metrics::Metrics;
use tokio::sync::watch;
use tracing::info;

use crate::signals::Signals;

/// How long the process may take to end once it was told to: connections have 12 s of it.
pub const STOPPING: Duration = Duration::from_secs(20);

/// Where an operator reads metrics.
#[derive(clap::Args)]
pub struct AdminArgs {
    /// Metrics and health, on this machine alone, such as 127.0.0.1:9912
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
}

impl AdminArgs {
    /// Takes the address; nothing is answered yet.
    pub async fn open(&self) -> Result<AdminDoor, ExchangeError> {
        let Some(address) = self.admin_listen else { return Ok(AdminDoor(None)) };
        Ok(AdminDoor(Some(Door::open(&Place::Loopback(address)).await?)))
    }
}

/// Where metrics are read, if anywhere.
pub struct AdminDoor(Option<Door>);

impl AdminDoor {
    /// A line that says where, or nothing.
    pub fn announcement(&self) -> String {
        let address = self.0.as_ref().and_then(Door::address);
        address.map(|address| format!("# metrics at http://{address}/metrics\n")).unwrap_or_default()
    }
}

/// The credentials that a process holds, and its counts.
pub struct Held {
    pub cache: Cache,
    pub metrics: Arc<Metrics>,
}

/// Lets `answering` answer, and `admin` show the counts, until SIGTERM; SIGHUP has every credential forgotten.
pub async fn run<A: Future<Output = ()> + Send + 'static>(
    answering: impl FnOnce(watch::Receiver<bool>) -> A,
    held: Held,
    admin: AdminDoor,
    signals: Signals,
) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let shown = admin.0.map(|door| tokio::spawn(door.run(Admin::new(held.metrics), stopped.clone())));
    let mut running = tokio::spawn(answering(stopped));
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        () = signals.clone().stop() => stop.send_replace(true),
        () = forget_when_asked(signals, &held.cache) => return Ok(()),
    };
    if let Some(shown) = shown {
        shown.await?;
    }
    Ok(running.await?)
}

/// Forgets every credential after every SIGHUP. Never ends.
async fn forget_when_asked(mut signals: Signals, cache: &Cache) {
    loop {
        signals.reload().await;
        let credentials = cache.purge(&Purge::All);
        info!(credentials, "forgot every credential");
    }
}
