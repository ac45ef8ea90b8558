//! Says what happens, a line a step, each with the time since the start.

use std::io::IsTerminal as _;
use std::time::Instant;

use crate::output::{say, write_raw};

/// To the start of the line, which is wiped.
const WIPE_LINE: &str = "\r\x1b[2K";

/// Prints steps; on a terminal it also shows what is under way.
pub struct Narrator {
    started: Instant,
    terminal: bool,
}

impl Narrator {
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { started: Instant::now(), terminal: std::io::stdout().is_terminal() && !dumb }
    }

    /// Shows what is under way until the next step is printed over it.
    pub fn begin(&self, what: &str) -> anyhow::Result<()> {
        self.wipe_line()?;
        if self.terminal { say(&format!("{}  {what} ...", self.time())) } else { Ok(()) }
    }

    /// Prints what was done.
    pub fn step(&self, what: &str) -> anyhow::Result<()> {
        self.wipe_line()?;
        say(&format!("{}  {what}\n", self.time()))
    }

    fn wipe_line(&self) -> anyhow::Result<()> {
        if self.terminal { write_raw(WIPE_LINE.as_bytes()) } else { Ok(()) }
    }

    fn time(&self) -> String {
        format!("{:>8.3} s", self.started.elapsed().as_secs_f64())
    }
}
