//! A relying party built on github.com/coreos/go-oidc, the library behind most OIDC verifiers written in Go.
//!
//! It reads discovery once, at its start, and the JWKS when a token names a kid that it has not seen. So it never
//! notices that a key was withdrawn: start another one to see the documents with fresh eyes.

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

/// Longer than the program's own limit for one token.
const ANSWER: Duration = Duration::from_secs(15);

/// A running verifier.
#[derive(Debug)]
pub struct GoOidc {
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

impl GoOidc {
    /// Starts a verifier that knows the issuer by its URL, and trusts `ca` (a PEM file) for the issuer's server.
    /// An issuer whose discovery document cannot be read, or names another issuer, is an error.
    pub async fn start(issuer: &str, audience: &str, ca: &Path) -> Result<Self> {
        let dir = Scratch::new("go-oidc")?;
        let mut command = mortal(&binary::server("go-oidc")?);
        command.args(["--issuer", issuer, "--audience", audience, "--ca"]).arg(ca);
        let (mut process, stdin, stdout) = Process::piped("go-oidc", command, &dir.join("log"))?;
        let (sender, mut lines) = unbounded_channel();
        // Ends with the program, whose output it reads.
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        process.ready(READY, async || lines.try_recv().is_ok()).await?;
        Ok(Self { stdin, lines, process, _dir: dir })
    }

    /// Shows it a token; accepted, it answers with the subject.
    pub async fn verify(&mut self, token: &str) -> Result<Verdict> {
        writeln!(self.stdin, "{token}").context("write to go-oidc")?;
        let line = tokio::time::timeout(ANSWER, self.lines.recv()).await.ok().flatten();
        let line = line.with_context(|| format!("go-oidc gave no answer\n{}", self.process.log_tail()))?;
        let line: Line = serde_json::from_str(&line)?;
        let verdict =
            if line.accepted { Ok(line.subject) } else { Err(Refusal { status: None, reason: line.error }) };
        Ok(verdict)
    }
}
