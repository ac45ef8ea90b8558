//! The floors, enforced: imports point down only, floor 0 and the offline tool link nothing that talks or ticks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Which of our crates each of our crates may import, apart from tests.
const ALLOWED: [(&str, &[&str]); 6] = [
    ("chancery-core", &[]),
    ("chancery-keygen", &["chancery-core"]),
    ("chancery-publisher", &["chancery-core"]),
    ("chancery-issuer", &["chancery-core", "chancery-publisher"]),
    ("chancery", &["chancery-core", "chancery-keygen", "chancery-publisher", "chancery-issuer"]),
    ("e2e", &["chancery-core", "chancery-keygen", "chancery-publisher", "chancery-issuer"]),
];

/// Crates that talk to the network or run tasks. None may be reachable from `core` or `keygen`.
const NETWORK: [&str; 10] =
    ["tokio", "mio", "socket2", "hyper", "hyper-util", "reqwest", "rustls", "kube", "h2", "async-io"];

/// Crates that know the time or draw random numbers. None may be reachable from `core`.
const CLOCKS_AND_DICE: [&str; 6] = ["jiff", "chrono", "time", "getrandom", "rand", "aws-lc-rs"];

fn metadata() -> Metadata {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = vec!["--locked".to_owned(), "--filter-platform".to_owned(), target];
    MetadataCommand::new().other_options(options).exec().unwrap()
}

/// Everything `package` links in a normal build with its default features, itself included. `cargo metadata` would
/// unite the features of the whole workspace, tests included, so the exact answer is asked of `cargo tree`.
fn linked(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--package",
            package,
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8(output.stdout).unwrap();
    listing.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn imports_point_down_only() {
    let metadata = metadata();
    let ours: BTreeSet<&str> = metadata.workspace_packages().iter().map(|p| p.name.as_str()).collect();
    assert_eq!(ours, ALLOWED.iter().map(|(name, _)| *name).collect(), "a crate is missing from the table");
    for package in metadata.workspace_packages() {
        let (_, allowed) = ALLOWED.iter().find(|(name, _)| *name == package.name.as_str()).unwrap();
        let linked = package.dependencies.iter().filter(|it| it.kind != DependencyKind::Development);
        for dependency in linked {
            let name = dependency.name.as_str();
            let forbidden = ours.contains(name) && !allowed.contains(&name);
            assert!(!forbidden, "{} may not import {name}", package.name);
        }
    }
}

#[test]
fn folder_is_package_name_without_prefix() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().unwrap().file_name().unwrap();
        let expected = match package.name.as_str() {
            "chancery" => "cli",
            "e2e" => "tests",
            name => name.strip_prefix("chancery-").unwrap(),
        };
        assert_eq!(folder, expected, "{}", package.name);
    }
}

#[test]
fn core_links_no_network_clock_or_dice() {
    let linked = linked("chancery-core");
    assert!(linked.contains("sha2"), "the walk over the graph found nothing");
    for name in NETWORK.iter().chain(&CLOCKS_AND_DICE) {
        assert!(!linked.contains(*name), "core links {name}");
    }
}

#[test]
fn keygen_links_no_network() {
    let linked = linked("chancery-keygen");
    assert!(linked.contains("aws-lc-rs"), "the walk over the graph found nothing");
    for name in NETWORK {
        assert!(!linked.contains(name), "keygen links {name}");
    }
}

#[test]
fn nothing_we_ship_links_a_second_crypto_stack() {
    let linked = linked("chancery");
    for name in ["ring", "openssl-sys", "native-tls", "rsa"] {
        assert!(!linked.contains(name), "chancery links {name}");
    }
}
