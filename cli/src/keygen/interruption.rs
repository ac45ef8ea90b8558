//! Signals that come while files are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Ctrl-C, TERM and HUP, held back from here on, so that none of them ends the process between two steps of what
/// belongs together. Whoever holds them asks before the first step that cannot be taken back.
///
/// A second signal ends the process at once, for disks that hang; the next run then settles what was left.
pub struct Interruption(Arc<AtomicUsize>);

impl Interruption {
    pub fn hold() -> anyhow::Result<Self> {
        let (signal, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal passes by the end of the process and sets the flag that the second meets.
            flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&again))
                .and_then(|_| flag::register(number, Arc::clone(&again)))
                .and_then(|_| {
                    flag::register_usize(number, Arc::clone(&signal), number.unsigned_abs() as usize)
                })
                .context("cannot hold back signals while files are written")?;
        }
        Ok(Self(signal))
    }

    /// An error when a signal has come. What was begun is then to be dropped, and with it removed.
    pub fn check(&self) -> anyhow::Result<()> {
        let signal = self.0.load(Ordering::SeqCst);
        ensure!(signal == 0, "interrupted by signal {signal}; no file was created or replaced");
        Ok(())
    }
}
