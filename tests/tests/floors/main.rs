//! The floors, enforced: imports point down only, floor 0 and the offline tool link nothing that talks or ticks, what
//! the cluster runs reads no private signing key, and no two files import each other.
//! Tests do not rest on time, either.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod builds;
mod circles;
mod image;
mod sources;
mod tokens;
mod waits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Where the floors are listed.
const PAGE: &str = "docs/ARCHITECTURE.md";

/// Crates that only some may import, whatever their floors.
const ONLY: [(&str, &[&str]); 2] = [("keygen", &["signer", "cli"]), ("exchange", &["cli"])];

fn metadata() -> Metadata {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = vec!["--locked".to_owned(), "--filter-platform".to_owned(), target];
    MetadataCommand::new().other_options(options).exec().unwrap()
}

/// The packages that have a floor: all but programs of benchmarks, which nothing imports.
fn packages(metadata: &Metadata) -> Vec<&Package> {
    let all = metadata.workspace_packages().into_iter();
    all.filter(|package| !package.name.ends_with("-bench")).collect()
}

/// The name of the folder of a package.
fn folder(package: &Package) -> &str {
    package.manifest_path.parent().unwrap().file_name().unwrap()
}

/// The sources below a folder; none where there is no such folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| match path.is_dir() {
        true => rust_files(&path),
        false => Vec::from_iter((path.extension() == Some("rs".as_ref())).then_some(path)),
    };
    entries.flat_map(below).collect()
}

/// The floor of each folder, as the page lists them.
fn floors() -> BTreeMap<String, u32> {
    let root = Path::new("..");
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap();
    let (_, list) = page.split_once("## Floors\n\n```\n").expect("the page begins with its floors");
    let (list, _) = list.split_once("```").unwrap();
    let floors = list.lines().filter_map(|line| {
        let (folder, rest) = line.split_once("/ ")?;
        Some((folder.to_owned(), rest.split_whitespace().next()?.parse().ok()?))
    });
    floors.collect()
}

#[test]
fn imports_point_down_only() {
    let (floors, metadata) = (floors(), metadata());
    let packages = packages(&metadata);
    let folders: BTreeMap<&str, &str> = packages.iter().map(|it| (it.name.as_str(), folder(it))).collect();
    let mut there: Vec<&str> = folders.values().copied().collect();
    there.sort_unstable();
    assert_eq!(floors.keys().map(String::as_str).collect::<Vec<_>>(), there, "the floors of {PAGE}");
    for package in packages {
        let from = folder(package);
        let linked = package.dependencies.iter().filter(|it| it.kind != DependencyKind::Development);
        for to in linked.filter_map(|dependency| folders.get(dependency.name.as_str())) {
            let (above, below) = (floors[from], floors[*to]);
            assert!(above > below, "{from} (floor {above}) imports {to} (floor {below}), says {PAGE}");
            let may = ONLY.iter().all(|(rare, importers)| rare != to || importers.contains(&from));
            assert!(may, "{from} may not import {to}");
        }
    }
}

/// What is built in one checkout runs in another that shares its target folder.
#[test]
fn no_test_goes_by_where_it_was_built() {
    let baked = concat!("env!(\"CARGO_MANIFEST", "_DIR\")");
    for package in packages(&metadata()) {
        for path in rust_files(package.manifest_path.parent().unwrap().join("tests").as_std_path()) {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains(baked), "{}: a test runs in its package's folder", path.display());
        }
    }
}

#[test]
fn folder_is_package_name_without_prefix() {
    for package in packages(&metadata()) {
        let expected = match package.name.as_str() {
            "chancery" => "cli",
            "e2e" => "tests",
            name => name.strip_prefix("chancery-").unwrap(),
        };
        assert_eq!(folder(package), expected, "{}", package.name);
    }
}
