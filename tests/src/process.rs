//! Child processes that never outlive the test process, however it ends.
//!
//! Dropping a [`Process`] kills it. A test process that is itself killed runs no drop, so the kernel is asked to
//! kill the child then (`PR_SET_PDEATHSIG`, through `setpriv` of util-linux; our crates forbid the unsafe code that
//! setting it ourselves would take). The kernel watches the *thread* that started the child, and test and runtime
//! threads end early; so one thread that lives as long as the process starts all of them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// How long a server may take to answer: many that start at once on two cores take a minute.
pub const READY: Duration = Duration::from_secs(180);

const POLL: Duration = Duration::from_millis(25);
/// Lines of a log that an error carries.
const TAIL: usize = 30;

/// A running program whose output goes to a log file. Killed on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs in the file `log`, and nothing to read.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("create the log {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Self::spawn(name, command, log)
    }

    /// Starts `command` with pipes for its input and output; only its errors go to the file `log`.
    pub fn piped(name: &str, mut command: Command, log: &Path) -> Result<(Self, ChildStdin, ChildStdout)> {
        let file = File::create(log).with_context(|| format!("create the log {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut process = Self::spawn(name, command, log)?;
        let pipes = process.child.stdin.take().zip(process.child.stdout.take());
        let (stdin, stdout) = pipes.context("a child without pipes")?;
        Ok((process, stdin, stdout))
    }

    fn spawn(name: &str, command: Command, log: &Path) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = spawn_from_lasting_thread(command)
            .with_context(|| format!("start {name} ({})", program.display()))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Waits until `probe` says yes. Fails with the end of the log when the program ends first or `deadline` passes.
    pub async fn ready(&mut self, deadline: Duration, mut probe: impl AsyncFnMut() -> bool) -> Result<()> {
        let started = Instant::now();
        while !probe().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it was ready: {status}\n{}", self.name, self.log_tail());
            }
            if started.elapsed() > deadline {
                bail!("{} was not ready after {deadline:?}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Sends a signal, e.g. `Signal::TERM`.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid =
            i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a child without id")?;
        kill_process(pid, signal).with_context(|| format!("signal {}", self.name))
    }

    /// Stops it by SIGSTOP, and returns when all of it stands still: until then it may answer. SIGCONT has it go on.
    pub async fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        wait::until("all of it to stand still", async || is_stopped(self.id())).await
    }

    /// Waits for the program to end by itself.
    pub async fn exit(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if started.elapsed() > deadline {
                bail!("{} still ran after {deadline:?}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// SIGKILL, and waits until it is gone: its ports are free then.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the program has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log, under the path of the whole.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default();
        format!("the end of {}:\n{}", self.log.display(), tail.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error here means that it has ended already.
        let _ = self.kill();
    }
}

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, queue) = channel::<Order>();
        std::thread::spawn(move || {
            for mut order in queue {
                let _ = order.answer.send(order.command.spawn());
            }
        });
        orders
    });
    let (answer, child) = channel();
    let gone = || anyhow!("the thread that starts children has ended");
    spawner.send(Order { command, answer }).map_err(|_| gone())?;
    Ok(child.recv().map_err(|_| gone())??)
}

/// The program and arguments of `program` as a command whose process the kernel kills when ours ends.
/// Where there is no `setpriv` that can do so (not Linux), it is the plain command.
pub fn mortal(program: &Path) -> Command {
    static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
        let mut probe = Command::new("setpriv");
        probe.args(["--pdeathsig", "KILL", "true"]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    if !*SETPRIV {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Whether no thread of a process runs, after SIGSTOP.
fn is_stopped(pid: u32) -> Result<bool> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?;
    let states = threads.map(|thread| Ok(fs::read_to_string(thread?.path().join("status"))?));
    let states = states.collect::<Result<Vec<String>>>()?;
    Ok(states.iter().all(|state| state.lines().any(|line| line.starts_with("State:\tT"))))
}
