//! Signals to a service, heard on a thread of their own.
//!
//! A file system that hangs may keep every thread of the service, while it is opened too. Whoever sends the signal must
//! not notice: the process ends by the limit, whatever the service does. As process 1 of a container nothing ends us but
//! a handler of our own.

use std::process::exit;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::output::complain;

/// Signals that came since the start.
#[derive(Clone, Debug)]
pub struct Signals {
    stop: watch::Receiver<bool>,
    reload: watch::Receiver<u64>,
}

impl Signals {
    /// Listens from now on. After the first SIGTERM or SIGINT the process ends within `limit`, or at the second.
    ///
    /// # Errors
    /// When the process cannot start a thread or handle signals.
    pub fn listen(limit: Duration) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (reload, reloads) = watch::channel(0);
        let (ready, started) = std::sync::mpsc::channel();
        let listener = move || match Handlers::install() {
            Ok((runtime, handlers)) => {
                _ = ready.send(Ok(()));
                runtime.block_on(handlers.hear(stop, reload, limit));
            }
            Err(error) => _ = ready.send(Err(error)),
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listener)
            .context("cannot start a thread")?;
        started.recv().map_err(|_| anyhow!("the thread for signals ended"))??;
        Ok(Self { stop: stopped, reload: reloads })
    }

    /// Resolves once a signal to stop has come.
    pub async fn stop(mut self) {
        if self.stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when SIGHUP has come since this was called last.
    pub async fn reload(&mut self) {
        if self.reload.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

struct Handlers {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Handlers {
    fn install() -> anyhow::Result<(tokio::runtime::Runtime, Self)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot listen for signals")?;
        let entered = runtime.enter();
        let on = |kind| signal(kind).context("cannot handle signals");
        let handlers = Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hangup: on(SignalKind::hangup())?,
        };
        drop(entered);
        Ok((runtime, handlers))
    }

    async fn hear(mut self, stop: watch::Sender<bool>, reload: watch::Sender<u64>, limit: Duration) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hangup.recv() => reload.send_modify(|times| *times += 1),
            }
        }
        stop.send_replace(true);
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = tokio::time::sleep(limit) => {
                complain(&format!("stopping took longer than {} s; ended as it stood", limit.as_secs()));
            }
        }
        exit(1);
    }
}
