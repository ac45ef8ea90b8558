//! `chancery keygen new --force` ended by signals at moments that a seed decides: both halves or neither, and no
//! private key where there was none.

#![cfg(feature = "keygen")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Each costs two derivations of a key from a passphrase.
const RUNS: u64 = 12;

/// A folder with an old pair that is not sealed, and a passphrase outside of it.
struct Bench {
    outside: tempfile::TempDir,
    old: [String; 2],
}

impl Bench {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("pair")).unwrap();
        fs::write(outside.path().join("passphrase"), "correct horse\n").unwrap();
        let mut bench = Self { outside, old: Default::default() };
        assert!(bench.run("new --algorithm p-256").status.success());
        bench.old = [bench.text("sa.key"), bench.text("sa.pub")];
        bench
    }

    fn folder(&self) -> PathBuf {
        self.outside.path().join("pair")
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.arg("keygen").args(line.split_whitespace()).current_dir(self.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).stdout(Stdio::piped()).output().unwrap()
    }

    fn put_the_old_pair_back(&self) {
        fs::write(self.folder().join("sa.key"), &self.old[0]).unwrap();
        fs::write(self.folder().join("sa.pub"), &self.old[1]).unwrap();
    }

    fn start(&self) -> Child {
        self.command("new --algorithm p-256 --force --passphrase-file ../passphrase").spawn().unwrap()
    }

    /// No private key that is not sealed, except the old one under its own name.
    fn assert_nothing_private_was_left(&self, when: &str) {
        for name in self.names() {
            let text = self.text(&name);
            let open = text.contains("PRIVATE KEY") && !text.contains("ENCRYPTED");
            assert!(!open || (name == "sa.key" && text == self.old[0]), "{when}: {name}");
        }
    }

    fn assert_both_halves_belong_together(&self, when: &str) {
        assert_eq!(self.names(), ["sa.key", "sa.pub"], "{when}");
        let shown = self.run("inspect --public --passphrase-file ../passphrase sa.key");
        assert_eq!(String::from_utf8(shown.stdout).unwrap(), self.text("sa.pub"), "{when}");
    }
}

/// Waits until the tool has begun to write, or has ended.
fn has_begun(folder: &Path, child: &mut Child) {
    let writes = || {
        let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().ends_with(".chancery-part"))
    };
    while !writes() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_run_that_is_ended_anywhere_leaves_both_halves_or_neither_and_no_open_key() {
    let seed = std::env::var("CHANCERY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2026_u64);
    println!("CHANCERY_SEED={seed}");
    let bench = Bench::new();
    let started = Instant::now();
    assert!(bench.start().wait().unwrap().success());
    let whole = started.elapsed();

    let mut dice = seed;
    for run in 0..RUNS {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let signal = [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP][(run % 4) as usize];
        // From the first temporary file to the end is about half of a run: sealing comes before it, opening after.
        let delay = whole.mul_f64((dice >> 33) as f64 / f64::from(u32::MAX) * 1.2);
        let when = format!("run {run}, {signal:?} after {delay:?}");
        bench.put_the_old_pair_back();

        let mut child = bench.start();
        has_begun(&bench.folder(), &mut child);
        let until = Instant::now() + delay;
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let _ = kill_process(Pid::from_child(&child), signal);
        child.wait().unwrap();

        bench.assert_nothing_private_was_left(&when);
        if signal != Signal::KILL {
            bench.assert_both_halves_belong_together(&when);
        }
        let next = bench.run("new --algorithm p-256");
        let said = String::from_utf8(next.stderr).unwrap();
        assert!(!next.status.success() && said.contains("sa.key exists"), "{when}: {said}");
        bench.assert_both_halves_belong_together(&when);
    }
}
