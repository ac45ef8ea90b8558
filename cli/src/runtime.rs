//! What every networked subcommand needs first: one TLS provider, logs on standard error, a tokio runtime.

use std::fmt;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::output::printable;

/// Says which log lines are written, as `info` or `warn,chancery_publisher=debug`.
const FILTER: &str = "CHANCERY_LOG";

/// How long a process that ends waits for what it is writing.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Runs `future` to its end on a runtime of `threads` workers.
///
/// # Errors
/// When the process cannot start threads, or what the future returns.
pub fn block_on<T>(threads: usize, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("a TLS provider was installed twice"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let done = runtime.block_on(future);
    // A file being replaced is finished first, so that an orderly end leaves no half of one; a file system that hangs
    // keeps its thread for ever, and the process does not wait for that.
    runtime.shutdown_timeout(LAST_WRITES);
    done
}

/// How a command logs.
#[derive(Clone, Copy, clap::Args)]
pub struct Logs {
    /// How log lines are written to standard error. CHANCERY_LOG says which: error, warn, info, debug, trace
    #[arg(long, value_enum, global = true, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For a person; coloured on a terminal, unless NO_COLOR is set
    Text,
    /// One JSON object a line
    Json,
}

impl Logs {
    /// Sends logs to standard error, filtered by `CHANCERY_LOG` or else by `default_filter`. A line of text is one
    /// event, whatever somebody else wrote into it.
    ///
    /// # Errors
    /// When the filter in the environment is none.
    pub fn to_stderr(self, default_filter: &str) -> anyhow::Result<()> {
        let wanted = std::env::var(FILTER).ok().filter(|wanted| !wanted.is_empty());
        let filter = EnvFilter::builder().parse(wanted.as_deref().unwrap_or(default_filter)).with_context(|| {
            let came = wanted.unwrap_or_default();
            format!("{FILTER}={came:?} is no filter; expected a level such as debug, or warn,chancery_publisher=debug")
        })?;
        let logs = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && !is_plain_wanted())
            .with_target(false);
        match self.log_format {
            LogFormat::Json => logs.json().flatten_event(true).init(),
            LogFormat::Text => logs.fmt_fields(debug_fn(write_field).delimited(" ")).init(),
        }
        Ok(())
    }
}

/// Whether the environment asks for text without colours: <https://no-color.org>, or a terminal that has none.
fn is_plain_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn write_field(to: &mut Writer<'_>, field: &tracing::field::Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = printable(&text, "");
    match field.name() {
        "message" => write!(to, "{text}"),
        name if to.has_ansi_escapes() => write!(to, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{text}"),
        name => write!(to, "{name}={text}"),
    }
}

/// Resolves at the first SIGTERM or SIGINT.
#[cfg(feature = "demo")]
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
