//! Children live as long as the test process, not shorter and not longer.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::process::{Process, mortal};
use e2e::scratch::Scratch;

const SOON: Duration = Duration::from_secs(60);

fn sleeper(dir: &Scratch) -> Result<Process> {
    let mut command = mortal(Path::new("sleep"));
    command.arg("600");
    Process::start("sleep", command, &dir.join("log"))
}

/// Whether the process runs; one that has ended but that nobody has waited for does not.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Asks until it is so; false when it was not in time.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !is_so() && started.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    is_so()
}

/// The kernel would end a child with the thread that made it, and be done with that when the thread is gone: a child
/// that answers then was not told to end.
#[test]
fn a_child_outlives_the_thread_that_asked_for_it_and_ends_on_drop() -> Result<()> {
    let dir = Scratch::new("process")?;
    let asks = || -> Result<_> {
        let thread = Path::new("/proc").join(std::fs::read_link("/proc/thread-self")?);
        Ok((thread, Process::piped("cat", mortal(Path::new("cat")), &dir.join("log"))?))
    };
    let asked = std::thread::scope(|scope| scope.spawn(asks).join());
    let (thread, (child, mut input, output)) = asked.ok().context("the thread ended badly")??;
    ensure!(soon(|| !thread.exists()), "the thread goes on");
    input.write_all(b"still here\n")?;
    let answer = BufReader::new(output).lines().next().context("it ended with its thread")??;
    assert_eq!(answer, "still here");
    let pid = child.id();
    drop(child);
    assert!(!runs(pid));
    Ok(())
}

#[test]
fn a_child_ends_when_the_test_process_is_killed() -> Result<()> {
    let mut holder = Command::new(std::env::current_exe()?);
    holder.args(["--ignored", "--exact", "--nocapture", "process::holds_a_child_until_it_is_killed"]);
    let mut holder = holder.stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(holder.stdout.take().context("no pipe")?).lines().map_while(Result::ok);
    let pid = lines.filter_map(|line| line.strip_prefix("holds ")?.parse().ok()).next();
    let pid: u32 = pid.context("the holder named no child")?;
    assert!(runs(pid));
    holder.kill()?;
    holder.wait()?;
    assert!(soon(|| !runs(pid)), "the child outlived the killed test process");
    Ok(())
}

#[test]
#[ignore = "run, and killed, by the test above"]
fn holds_a_child_until_it_is_killed() -> Result<()> {
    let dir = Scratch::new("process")?;
    let child = sleeper(&dir)?;
    // The kernel is asked to end it with us just before it becomes `sleep`.
    let name = format!("/proc/{}/comm", child.id());
    ensure!(soon(|| std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")), "not begun");
    println!("\nholds {}", child.id());
    std::thread::sleep(SOON);
    Ok(())
}

#[tokio::test]
async fn a_program_that_ends_early_is_an_error_with_its_log() -> Result<()> {
    let dir = Scratch::new("process")?;
    let mut command = mortal(Path::new("sh"));
    command.args(["-c", "echo the reason >&2; exit 3"]);
    let mut process = Process::start("sh", command, &dir.join("log"))?;
    let error = process.ready(SOON, async || false).await.map_err(|error| error.to_string());
    let error = error.err().context("it was taken for ready")?;
    ensure!(error.contains("exit status: 3") && error.contains("the reason"), "{error}");
    Ok(())
}
