//! Says what happens, a line a step, each with the time since the start.

use std::io::Write as _;
use std::time::Instant;

/// Prints steps; on a terminal it also shows what is under way.
pub struct Narrator {
    started: Instant,
    terminal: bool,
}

impl Narrator {
    pub fn new(terminal: bool) -> Self {
        Self { started: Instant::now(), terminal }
    }

    /// Shows what is under way until the next step is printed over it.
    pub fn begin(&self, what: &str) {
        if self.terminal {
            print!("\r\x1b[2K{:>8.3} s  {what} ...", self.started.elapsed().as_secs_f64());
            _ = std::io::stdout().flush();
        }
    }

    /// Prints what was done.
    pub fn step(&self, what: &str) {
        let over = if self.terminal { "\r\x1b[2K" } else { "" };
        println!("{over}{:>8.3} s  {what}", self.started.elapsed().as_secs_f64());
    }
}
