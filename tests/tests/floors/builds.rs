//! What each build that ships links, and what it must not.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that speak to a network, run tasks or bring TLS.
const NETWORK: [&str; 20] = [
    "async-io",
    "aws-config",
    "axum",
    "curl",
    "h2",
    "hickory-resolver",
    "hyper",
    "hyper-util",
    "kube",
    "mio",
    "native-tls",
    "quinn",
    "reqwest",
    "rustls",
    "socket2",
    "tokio",
    "tokio-rustls",
    "tonic",
    "tower",
    "ureq",
];

/// Crates that know the time or draw random numbers. None may be reachable from `core`.
const CLOCKS_AND_DICE: [&str; 6] = ["jiff", "chrono", "time", "getrandom", "rand", "aws-lc-rs"];

/// Our own crate that reads private signing keys, and those that it, or the demo, needs for that: they open sealed
/// keys, make keys and sign tokens.
const SIGNING_KEYS: [&str; 6] = ["chancery-keygen", "jsonwebtoken", "pbkdf2", "pkcs5", "rcgen", "scrypt"];

/// What the cluster runs.
const SERVICE: [&str; 5] = ["-p", "chancery", "--no-default-features", "--features", "service"];
/// What signs, beside a kube-apiserver.
const SIGNER: [&str; 5] = ["-p", "chancery", "--no-default-features", "--features", "signer"];
/// The offline tool.
const OFFLINE: [&str; 5] = ["-p", "chancery", "--no-default-features", "--features", "keygen"];
/// The workload's end.
const EXCHANGE: [&str; 5] = ["-p", "chancery", "--no-default-features", "--features", "exchange"];
const EVERYTHING: [&str; 3] = ["-p", "chancery", "--all-features"];

/// What a normal build with these arguments links, itself included. `cargo metadata` would unite the features of the
/// whole workspace, tests included, so the exact answer is asked of `cargo tree`.
fn linked(build: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(build)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8(output.stdout).unwrap();
    listing.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Those of `names` that a build links.
fn among<'a>(names: &[&'a str], build: &[&str]) -> Vec<&'a str> {
    let linked = linked(build);
    assert!(linked.contains("chancery-core"), "the walk over the graph found nothing");
    names.iter().copied().filter(|name| linked.contains(*name)).collect()
}

#[test]
fn core_links_no_network_clock_or_dice() {
    let core = ["-p", "chancery-core"];
    assert_eq!(among(&[NETWORK.as_slice(), &CLOCKS_AND_DICE].concat(), &core), [""; 0]);
}

#[test]
fn files_keygen_and_the_offline_tool_link_no_network() {
    let pure = [NETWORK.as_slice(), &CLOCKS_AND_DICE].concat();
    assert_eq!(among(&pure, &["-p", "chancery-render"]), [""; 0], "it is given what it needs");
    assert_eq!(among(&NETWORK, &["-p", "chancery-files"]), [""; 0]);
    assert_eq!(among(&NETWORK, &["-p", "chancery-keygen"]), [""; 0]);
    assert_eq!(among(&NETWORK, &OFFLINE), [""; 0]);
    assert_eq!(among(&["chancery-keygen"], &OFFLINE), ["chancery-keygen"]);
}

#[test]
fn the_wire_links_no_cloud_sdk_and_no_kube() {
    let wire = ["-p", "chancery-wire", "--all-features"];
    let sdks = ["aws-config", "aws-sdk-s3", "azure_core", "azure_identity", "google-cloud-auth", "kube"];
    assert_eq!(among(&sdks, &wire), [""; 0]);
    assert_eq!(among(&["reqwest", "aws-sigv4"], &wire), ["reqwest", "aws-sigv4"]);
}

#[test]
fn the_workloads_end_links_no_cloud_sdk_and_nothing_of_the_issuers_side() {
    let sdks = ["aws-config", "aws-sdk-s3", "azure_core", "azure_identity", "google-cloud-auth"];
    let others = ["chancery-issuer", "chancery-keygen", "chancery-publisher", "chancery-webhook"];
    assert_eq!(among(&[sdks.as_slice(), &others].concat(), &EXCHANGE), [""; 0]);
    assert_eq!(among(&["chancery-exchange", "kube"], &EXCHANGE), ["chancery-exchange", "kube"]);
    assert_eq!(among(&["chancery-exchange"], &SERVICE), [""; 0]);
}

#[test]
fn what_the_cluster_runs_links_nothing_that_reads_a_private_signing_key() {
    assert_eq!(among(&SIGNING_KEYS, &SERVICE), [""; 0]);
    let clouds = ["aws-sdk-s3", "azure_storage_blob", "chancery-webhook", "google-cloud-storage", "kube"];
    assert_eq!(among(&clouds, &SERVICE), clouds, "it ships with every target and source, and the webhook");
}

#[test]
fn what_looks_at_pods_links_nothing_that_publishes_signs_or_exchanges() {
    let others =
        ["chancery-exchange", "chancery-issuer", "chancery-keygen", "chancery-publisher", "chancery-signer"];
    assert_eq!(among(&others, &["-p", "chancery-webhook"]), [""; 0]);
    assert_eq!(among(&["kube"], &["-p", "chancery-webhook"]), ["kube"]);
}

#[test]
fn what_signs_links_no_target_no_public_service_and_no_cloud() {
    let public = [
        "aws-config",
        "aws-sdk-s3",
        "axum",
        "azure_core",
        "azure_storage_blob",
        "chancery-exchange",
        "chancery-issuer",
        "chancery-publisher",
        "chancery-webhook",
        "chancery-wire",
        "google-cloud-auth",
        "google-cloud-storage",
        "reqwest",
    ];
    assert_eq!(among(&public, &SIGNER), [""; 0]);
    let needed = ["chancery-keygen", "chancery-signer", "kube", "tonic"];
    assert_eq!(among(&needed, &SIGNER), needed);
    assert_eq!(among(&["chancery-signer"], &SERVICE), [""; 0]);
}

#[test]
fn the_same_look_at_the_whole_tool_finds_all_of_it() {
    assert_eq!(among(&SIGNING_KEYS, &EVERYTHING), SIGNING_KEYS);
    let spoken = ["hyper", "rustls", "socket2", "tokio"];
    assert_eq!(among(&spoken, &EVERYTHING), spoken);
}

#[test]
fn nothing_that_ships_links_a_second_crypto_stack() {
    assert_eq!(
        among(&["josekit", "native-tls", "openssl", "openssl-sys", "ring", "rsa"], &EVERYTHING),
        [""; 0]
    );
}
