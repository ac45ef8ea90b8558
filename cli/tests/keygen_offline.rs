//! The offline tool is offline: with the keygen feature alone, nothing is linked that could open a socket.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that speak to a network, run tasks or bring TLS.
const NETWORK: [&str; 22] = [
    "aws-config",
    "aws-sdk-s3",
    "axum",
    "curl",
    "h2",
    "hickory-resolver",
    "hyper",
    "hyper-util",
    "kube",
    "mio",
    "native-tls",
    "openssl",
    "quinn",
    "reqwest",
    "rustls",
    "socket2",
    "tokio",
    "tokio-rustls",
    "tonic",
    "tower",
    "ureq",
    "webpki-roots",
];

/// The crates that are linked into the binary, by name. Build scripts and tests are not.
fn linked(features: &[&str]) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--package", "chancery", "--edges", "normal", "--prefix", "none"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--format", "{p}"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs the tests, so it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn network(linked: &BTreeSet<String>) -> Vec<&str> {
    let spoken = |name: &&String| NETWORK.contains(&name.as_str());
    linked.iter().filter(spoken).map(String::as_str).collect()
}

#[test]
fn keygen_alone_links_no_network_crate() {
    let linked = linked(&["--no-default-features", "--features", "keygen"]);
    assert!(linked.contains("chancery-keygen") && linked.contains("aws-lc-rs"), "{linked:?}");
    assert_eq!(network(&linked), Vec::<&str>::new());
}

#[test]
fn the_same_look_at_the_whole_tool_finds_the_network() {
    let linked = linked(&["--all-features"]);
    for name in ["tokio", "hyper", "rustls", "socket2"] {
        assert!(network(&linked).contains(&name), "{name} is not found, so this test proves nothing");
    }
}
