//! Where the programs are: the pinned servers that `tests/servers/install` builds, and our own `chancery`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// First line of every test that needs servers: `if binary::skipped(&["etcd"]) { return Ok(()) }`.
///
/// A missing server is an error where `CI` is set, and elsewhere a line that the test runner does not capture.
#[must_use]
#[expect(clippy::panic, reason = "in CI a missing server must fail the test, whatever the test does")]
pub fn skipped(servers: &[&str]) -> bool {
    let missing: Vec<String> =
        servers.iter().filter_map(|name| server(name).err().map(|e| e.to_string())).collect();
    if missing.is_empty() {
        return false;
    }
    let missing = missing.join("; ");
    if std::env::var_os("CI").is_some_and(|ci| !ci.is_empty()) {
        panic!("a server that this test needs is missing: {missing}");
    }
    say_skipped(&missing);
    true
}

/// Says that the running test is skipped, where the test runner does not capture it.
pub fn say_skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not `eprintln!`, which cargo captures from tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// The pinned server called `name`, or the reason why it is not there. Never builds it.
pub fn server(name: &str) -> Result<PathBuf> {
    // Cargo tells a test where its package is; a benchmark, which nobody tells, is where it was built.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let install =
        Path::new(package.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR").as_ref())).join("servers/install");
    let found = Command::new(&install)
        .args(["--path", name])
        .output()
        .with_context(|| format!("run {}", install.display()))?;
    if !found.status.success() {
        bail!("{}", String::from_utf8_lossy(&found.stderr).trim());
    }
    Ok(PathBuf::from(String::from_utf8(found.stdout)?.trim()))
}

/// Our own binary: `CHANCERY_BIN`, or the one that cargo built beside the running test.
///
/// Cargo builds no binary of another package for a test: a run of the whole workspace builds it with the tests of `cli`, and
/// before a run of one suite alone, `cargo build --workspace` does.
pub fn chancery() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CHANCERY_BIN") {
        return Ok(PathBuf::from(path));
    }
    let test = std::env::current_exe().context("find the running test")?;
    // <target>/<profile>/deps/<test> -> <target>/<profile>/chancery
    let profile = test.parent().and_then(Path::parent).context("a test outside a target folder")?;
    let path = profile.join("chancery");
    if !path.is_file() {
        bail!("{} is not there; run 'cargo build --workspace' or set CHANCERY_BIN", path.display());
    }
    Ok(path)
}
