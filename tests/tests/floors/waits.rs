//! No test sleeps for a result, and none asserts how long something took: both are true on one machine and false on a
//! busier one. What is waited for is asked for, by `e2e::wait` and its like.

use std::collections::BTreeMap;
use std::path::Path;

use crate::rust_files;

/// Where a pause stands, how many of them, and why.
const PAUSES: [(&str, usize, &str); 22] = [
    ("cli/tests/ring/bundle.rs", 1, "asks again, and kills between two answers"),
    ("cli/tests/interrupted.rs", 1, "the moment of the end is what is tried"),
    ("cluster/src/lease/elector/tests.rs", 3, "of the paused clock"),
    ("exchange/src/cache/tests.rs", 11, "of the paused clock"),
    ("issuer/src/state/recorder.rs", 1, "of the paused clock"),
    ("issuer/tests/issuers.rs", 1, "a wait, which asks again"),
    ("issuer/tests/serve/served.rs", 1, "a wait, which asks again"),
    ("publisher/src/store/limits.rs", 1, "of the paused clock"),
    ("signer/src/rotation/tests.rs", 1, "the pace of two who rotate, each after a time of its own"),
    ("tests/src/entra/registry.rs", 1, "the time that a write takes there"),
    ("tests/src/fault_proxy/connection.rs", 1, "a fault: a slow answer"),
    ("tests/src/kube_apiserver.rs", 1, "a wait, which asks again"),
    ("tests/src/process.rs", 2, "waits, which ask again"),
    ("tests/src/wait.rs", 1, "the wait itself"),
    ("tests/src/witness.rs", 1, "the pace of a reader"),
    ("tests/tests/rotation/files.rs", 1, "the moment of the end is what is tried"),
    ("tests/tests/rotation/files_stage.rs", 2, "the pace of a stand-in of systemd"),
    ("tests/tests/rotation/intruder.rs", 1, "the pace of an intruder"),
    ("tests/tests/rotation/machines.rs", 1, "the pace of a stand-in of a controller"),
    ("tests/tests/rotation/stage.rs", 1, "a wait, which asks again"),
    ("tests/tests/servers/process.rs", 2, "a wait, which asks again; a child that is there to be killed"),
    ("tests/tests/signer/apiserver.rs", 1, "lateness is what is tried"),
];

/// Where it is asserted how long something took, how often, and why.
const TIMES: [(&str, usize, &str); 4] = [
    ("exchange/src/cache/tests.rs", 4, "of the paused clock"),
    ("exchange/tests/exchanges/aws.rs", 1, "the least of it: slowness does no harm"),
    ("issuer/src/turns.rs", 1, "of the paused clock"),
    ("wire/src/resolve.rs", 1, "of the paused clock"),
];

/// What of a file is a test.
fn tests_of<'a>(path: &str, text: &'a str) -> &'a str {
    let is_test = path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    if is_test { text } else { text.split_once("#[cfg(test)]").unwrap_or_default().1 }
}

/// Whether a line pauses: calls a function that is called `sleep` or ends so.
fn pauses(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["sleep(", "sleep_until("].iter().any(|call| code.contains(call)) && !code.contains("fn ")
}

/// Whether a statement asserts what a stopwatch shows.
fn asserts_time(statement: &str) -> bool {
    ["assert", "ensure!"].iter().any(|word| statement.contains(word)) && statement.contains(".elapsed()")
}

/// How many there are in each file below the root of the workspace; files without one are left out.
fn found(count: impl Fn(&str) -> usize) -> BTreeMap<String, usize> {
    let root = Path::new("..");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|folder| folder.join("Cargo.toml").is_file());
    let files = folders.flat_map(|folder| [folder.join("src"), folder.join("tests")]);
    let files = files.flat_map(|folder| rust_files(&folder)).map(|file| {
        let path = file.strip_prefix(root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let count = count(tests_of(&path, &text));
        (path, count)
    });
    // These lines name what they look for.
    files.filter(|(path, count)| *count > 0 && path != "tests/tests/floors/waits.rs").collect()
}

fn allowed(places: &[(&str, usize, &str)]) -> BTreeMap<String, usize> {
    places.iter().map(|(path, count, _)| ((*path).to_owned(), *count)).collect()
}

#[test]
fn no_test_sleeps_for_a_result() {
    let found = found(|text| text.lines().filter(|line| pauses(line)).count());
    let why = "a pause proves nothing; wait for what it was to give time for, or name the place and the reason here";
    assert_eq!(found, allowed(&PAUSES), "{why}");
}

#[test]
fn no_test_asserts_how_long_something_took() {
    let found = found(|text| text.split(';').filter(|statement| asserts_time(statement)).count());
    let why = "slow machines are no error; measure in a benchmark, pause the clock, or name the place and the reason here";
    assert_eq!(found, allowed(&TIMES), "{why}");
}

#[test]
fn pauses_and_stopwatches_are_told_from_what_looks_like_them() {
    for line in
        ["tokio::time::sleep(EVERY).await;", "    std::thread::sleep(SOON);", "() = sleep_until(end) => {}"]
    {
        assert!(pauses(line), "{line}");
    }
    for line in ["// we sleep() here", "fn sleep(this: Duration) {", "sleep.await", "sleep 0.1"] {
        assert!(!pauses(line), "{line}");
    }
    assert!(asserts_time("assert!(begun\n.elapsed() < LIMIT"));
    assert!(asserts_time("ensure!(begun.elapsed() > LIMIT"));
    assert!(!asserts_time("say(begun.elapsed())") && !asserts_time("assert!(a < b"));
    assert_eq!(tests_of("wire/src/a.rs", "one #[cfg(test)] two"), " two");
    assert_eq!(tests_of("wire/src/a.rs", "one"), "");
}
