//! What every networked subcommand needs first: one TLS provider, logs on standard error, a tokio runtime.

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow};
use tracing_subscriber::EnvFilter;

/// Runs `future` to its end on a runtime of `threads` workers.
///
/// # Errors
/// When the process cannot start threads, or what the future returns.
pub fn block_on<T>(threads: usize, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("a TLS provider was installed twice"))?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(future)
}

/// Sends logs to standard error, filtered by `CHANCERY_LOG` (default `info`), as JSON lines or for a person.
pub fn log_to_stderr(json: bool, default_filter: &str) {
    let filter = EnvFilter::try_from_env("CHANCERY_LOG").unwrap_or_else(|_| EnvFilter::new(default_filter));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    if json { logs.json().flatten_event(true).init() } else { logs.init() }
}

/// Resolves at the first SIGTERM or SIGINT.
#[cfg(feature = "issuer")]
pub async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    // Without a handler the signal ends the process at once, which is what waiting forever amounts to.
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
