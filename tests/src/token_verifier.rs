//! Relying parties built on libraries that others wrote, one small program each in `tests/servers`.
//!
//! All of them speak alike: they are told an issuer URL, an audience and a CA, print one line when they have read the
//! issuer, and answer each token with a line of JSON. Each keeps keys as its library does, as long as it runs: start another
//! one to see the documents with fresh eyes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::binary;
use crate::process::{Process, READY, mortal};
use crate::relying_party::{Refusal, Verdict};
use crate::scratch::Scratch;

/// Longer than the programs' own limit for one token.
const ANSWER: Duration = Duration::from_secs(15);

/// A running verifier.
#[derive(Debug)]
pub struct TokenVerifier {
    name: &'static str,
    stdin: ChildStdin,
    lines: UnboundedReceiver<String>,
    process: Process,
    _dir: Scratch,
}

#[derive(Deserialize)]
struct Line {
    accepted: bool,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    error: String,
}

impl TokenVerifier {
    /// Starts the verifier `name` of `tests/servers`, which knows the issuer by its URL, and trusts `ca` (a PEM file) for
    /// the issuer's server. An issuer whose discovery document cannot be read, or names another issuer, is an error.
    pub async fn start(name: &'static str, issuer: &str, audience: &str, ca: &Path) -> Result<Self> {
        let dir = Scratch::new(name)?;
        let mut command = mortal(&binary::server(name)?);
        command.args(["--issuer", issuer, "--audience", audience, "--ca"]).arg(ca);
        let (mut process, stdin, stdout) = Process::piped(name, command, &dir.join("log"))?;
        let (sender, mut lines) = unbounded_channel();
        // Ends with the program, whose output it reads.
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        process.ready(READY, async || lines.try_recv().is_ok()).await?;
        Ok(Self { name, stdin, lines, process, _dir: dir })
    }

    /// Shows it a token; accepted, it answers with the subject.
    pub async fn verify(&mut self, token: &str) -> Result<Verdict> {
        let line = self.ask(token).await?;
        let verdict =
            if line.accepted { Ok(line.subject) } else { Err(Refusal { status: None, reason: line.error }) };
        Ok(verdict)
    }

    /// Moves the clock by which its library keeps keys. The programs in Go and Java have none that could be moved.
    pub async fn advance(&mut self, time: Duration) -> Result<()> {
        self.ask(&format!("advance {}", time.as_secs())).await.map(drop)
    }

    async fn ask(&mut self, line: &str) -> Result<Line> {
        writeln!(self.stdin, "{line}").with_context(|| format!("write to {}", self.name))?;
        let answer = tokio::time::timeout(ANSWER, self.lines.recv()).await.ok().flatten();
        let answer =
            answer.with_context(|| format!("{} gave no answer\n{}", self.name, self.process.log_tail()))?;
        Ok(serde_json::from_str(&answer)?)
    }
}
