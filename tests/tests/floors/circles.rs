//! No two files of a crate import each other, directly or around a corner.
//!
//! A file and the files of its submodules are one module: that a submodule takes something from a module around it
//! (`super::Finding` in `lint/keys.rs`) is no import of another file. The way down and every way across is one, so a
//! submodule that reaches its parent through a sibling is in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::sources::{Crate, Imports};
use crate::{folder, metadata};

/// The sets of files of which each reaches each other.
fn circles(imports: &Imports) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reached_from(file, imports))).collect();
    let mut circles = Vec::<BTreeSet<&str>>::new();
    for (file, reaches) in &reached {
        let is_new = circles.iter().all(|circle| !circle.contains(file));
        if is_new && reaches.contains(file) {
            let back = |other: &&str| reached.get(other).is_some_and(|reaches| reaches.contains(file));
            circles.push(reaches.iter().copied().filter(back).collect());
        }
    }
    circles
}

fn reached_from<'a>(file: &'a str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(file) = waiting.pop() {
        let next = imports.get(file).into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        waiting.extend(next.filter(|file| reached.insert(*file)));
    }
    reached
}

/// A circle in words: who takes what from whom.
fn describe(circle: &BTreeSet<&str>, imports: &Imports) -> String {
    let mut text = String::new();
    for file in circle {
        for (from, names) in
            imports.get(*file).into_iter().flatten().filter(|(from, _)| circle.contains(from.as_str()))
        {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            _ = writeln!(text, "  {file} takes from {from}: {}", names.join(", "));
        }
    }
    text
}

#[test]
fn no_two_files_import_each_other() {
    let mut found = Vec::new();
    for package in metadata().workspace_packages() {
        let folder = folder(package);
        let is_root =
            |kind: &cargo_metadata::TargetKind| kind.to_string() == "lib" || kind.to_string() == "bin";
        let root = package.targets.iter().find(|target| target.kind.iter().any(is_root)).unwrap();
        let imports = Crate::read(root.src_path.as_std_path()).imports();
        for circle in circles(&imports) {
            found.push(format!("in {folder}/src, {} files:\n{}", circle.len(), describe(&circle, &imports)));
        }
    }
    assert!(found.is_empty(), "files import each other:\n{}", found.join("\n"));
}

/// The circles in a crate of these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let imports = Crate::read(Path::new(&folder.path().join("lib.rs"))).imports();
    circles(&imports).iter().map(|circle| describe(circle, &imports)).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c; pub use a::One; pub use b::Two;");

#[test]
fn a_circle_is_found_and_its_names_are_said() {
    let direct = [
        ROOT,
        ("a.rs", "pub struct One(crate::b::Two);"),
        ("b.rs", "pub struct Two; fn f(_: super::a::One) {}"),
        ("c.rs", ""),
    ];
    assert_eq!(circles_of(&direct), ["  a.rs takes from b.rs: Two\n  b.rs takes from a.rs: One\n"]);

    let around_a_corner = [
        ROOT,
        ("a.rs", "use crate::b::Two; pub struct One;"),
        ("b.rs", "use crate::c::{self, Three as T}; pub struct Two;"),
        ("c.rs", "pub struct Three; fn f() { let _ = crate::One::new(); }"),
    ];
    let said = circles_of(&around_a_corner);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("  c.rs takes from a.rs: One\n") && said[0].contains("Three"), "{said:?}");

    let through_the_parent = [
        ROOT,
        ("a.rs", "mod inner; pub struct One; fn f() { inner::g() }"),
        ("a/inner.rs", "pub fn g(_: crate::b::Two) {}"),
        ("b.rs", "use crate::One; pub struct Two;"),
        ("c.rs", ""),
    ];
    assert_eq!(circles_of(&through_the_parent).len(), 1);
}

#[test]
fn what_is_no_circle_is_let_pass() {
    let files = [
        ROOT,
        ("a.rs", "mod inner; pub struct One; fn f() { inner::g(One) }"),
        ("a/inner.rs", "use super::One; use serde::Serialize; pub fn g(_: One) {}"),
        ("b.rs", "use crate::a::One; pub struct Two; mod a { pub fn h() {} } fn f() { self::a::h() }"),
        ("c.rs", "use crate::{One, Two}; #[cfg(test)] mod tests { use crate::b::*; }"),
    ];
    assert_eq!(circles_of(&files), [""; 0]);
}
