//! Our own binary as a separate process.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use crate::binary;
use crate::process::{Process, mortal};
use crate::scratch::Scratch;

/// How long a draining issuer may take.
const DRAIN: Duration = Duration::from_secs(60);

/// What a run of the command line left.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// The standard output of a run that must have succeeded.
    pub fn success(self) -> Result<String> {
        let Self { code, stdout, stderr } = self;
        ensure!(code == Some(0), "chancery ended with {code:?}\nstdout: {stdout}\nstderr: {stderr}");
        Ok(stdout)
    }
}

/// Runs `chancery` with these arguments until it ends.
pub async fn run(arguments: &[impl AsRef<OsStr>]) -> Result<Output> {
    let mut command = Command::new(binary::chancery()?);
    command.args(arguments);
    run_command(command).await
}

/// Runs a command that the caller has prepared, e.g. with an environment, until it ends. It reads nothing.
pub async fn run_command(mut command: Command) -> Result<Output> {
    let run = move || command.stdin(Stdio::null()).output();
    let output = tokio::task::spawn_blocking(run).await?.context("run chancery")?;
    Ok(Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Starts `chancery ring run --policy FILE`: a process that rotates. It logs to `log`.
pub fn rotate(policy: impl AsRef<OsStr>, log: &Path) -> Result<Process> {
    let mut command = mortal(&binary::chancery()?);
    command.args(["ring", "run", "--policy"]).arg(policy);
    Process::start("chancery ring run", command, log)
}

/// A running `chancery issuer`. Killed on drop, as every [`Process`].
#[derive(Debug)]
pub struct IssuerService {
    process: Process,
    _dir: Scratch,
}

impl IssuerService {
    /// Starts `chancery issuer --config FILE`. Whether it is ready is the caller's to ask, through
    /// [`process`](Self::process), since the file says where it listens.
    pub fn start(config: &Path) -> Result<Self> {
        Self::start_with(config, &[])
    }

    /// The same with variables in its environment, e.g. the credentials of a target.
    pub fn start_with(config: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        let dir = Scratch::new("issuer")?;
        let mut command = mortal(&binary::chancery()?);
        command.arg("issuer").arg("--config").arg(config).envs(environment.iter().copied());
        let process = Process::start("chancery issuer", command, &dir.join("log"))?;
        Ok(Self { process, _dir: dir })
    }

    /// The running program.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// SIGTERM, and the exit code after it has drained.
    pub async fn terminate(&mut self) -> Result<Option<i32>> {
        self.process.signal(Signal::TERM)?;
        Ok(self.process.exit(DRAIN).await?.code())
    }

    /// SIGKILL: the end of a node.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }
}
