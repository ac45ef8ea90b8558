//! Keys from a machine without a network, from the outside: `chancery keygen bundle` there, `chancery ring import` here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bench::{Bench, refused, said};

const POLICY: &str = "
issuer: https://id.example.com/a
ring: { directory: ring }
keys: { directory: keys, passphraseFile: passphrase }
visibility: { directory: issuer }
signers: [{ name: a }]
key: p-256
offline: { bundleKeys: [bundle.pub] }
";
const KEYS: &str = "--algorithm p-256 --bundle-key bundle.key --passphrase-file carried";
const ISSUER: &str = "--issuer https://id.example.com/a";

/// A ring without keys, a bundle key that is enrolled, and folders for bundles.
fn bench() -> Bench {
    let bench = Bench::new(POLICY);
    for name in ["one", "two"] {
        fs::create_dir(bench.path(name)).unwrap();
    }
    bench.write_secret("carried", "of the bundle\n");
    bench.keygen("new --algorithm p-256 --private bundle.key --public bundle.pub");
    bench.succeed("init --empty");
    bench
}

impl Bench {
    #[track_caller]
    fn keygen(&self, line: &str) -> String {
        said(self.chancery(&format!("keygen {line}")))
    }

    /// Makes a bundle of this many keys, and returns their ids in its order.
    fn bundle(&self, folder: &str, keys: usize) -> Vec<String> {
        self.keygen(&format!("bundle {ISSUER} {KEYS} --keys {keys} --out-dir {folder}"));
        self.kids(folder)
    }

    fn kids(&self, folder: &str) -> Vec<String> {
        let document = fs::read(self.path(folder).join("bundle.json")).unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        let keys = document["keys"].as_array().unwrap();
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }

    /// The line that imports.
    fn import(folder: &str) -> String {
        format!("import {folder} --passphrase-file carried")
    }

    /// What is planned, in words.
    fn planned(&self) -> String {
        String::from_utf8(self.run("plan").stdout).unwrap()
    }
}

fn sorted(kids: &[String]) -> Vec<String> {
    let mut kids = kids.to_vec();
    kids.sort();
    kids
}

#[test]
fn a_bundle_is_made_signed_imported_once_and_its_first_key_is_next() {
    let bench = bench();
    let line = format!(
        "bundle {ISSUER} {KEYS} --keys 2 --not-before 2026-01-01T00:00:00Z --every 90d --out-dir one"
    );
    let said = bench.keygen(&line);
    let kids = bench.kids("one");
    assert!(said.contains(&kids[1]) && said.contains("not before 2026-04-01T00:00:00Z"), "{said}");
    for name in ["one/001.sealed.pem", "one/002.sealed.pem"] {
        assert!(fs::read_to_string(bench.path(name)).unwrap().contains("ENCRYPTED PRIVATE KEY"));
        assert_eq!(fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let (_, again) = refused(bench.chancery(&format!("keygen {line}")));
    assert!(again.contains("bundle.json exists"), "{again}");
    let text = bench.planned();
    assert!(text.contains("no imported key for ES256 is left; bring a new bundle"), "{text}");

    let said = bench.succeed(&Bench::import("one"));
    assert!(said.contains("2 private halves") && said.contains(&format!("1  {}", kids[0])), "{said}");
    assert_eq!(bench.held(), sorted(&kids));
    let text = bench.planned();
    assert!(text.contains(&format!("now      enter {}", kids[0])), "{text}");
    assert!(text.contains("2 keys are left") && !text.contains(&kids[1]) && !text.contains("make"), "{text}");

    let before = bench.held();
    let said = bench.succeed(&Bench::import("one"));
    assert!(said.contains("imported before") && said.contains("0 private halves"), "{said}");
    assert_eq!((bench.held(), bench.planned()), (before, text));
    // One that was lost is brought back.
    fs::remove_file(bench.path("keys").join(format!("{}.sealed.pem", kids[0]))).unwrap();
    assert!(bench.planned().contains("its private half is not in custody"));
    assert!(bench.succeed(&Bench::import("one")).contains("1 private halves"));
    assert!(bench.planned().contains(&format!("now      enter {}", kids[0])));
}

#[test]
fn what_nobody_enrolled_vouches_for_or_what_was_changed_is_refused_and_leaves_nothing() {
    let bench = bench();
    bench.bundle("one", 2);
    bench.keygen("new --algorithm p-256 --private other.key --public other.pub");
    let other = KEYS.replace("bundle.key", "other.key");
    bench.keygen(&format!("bundle {ISSUER} {other} --keys 1 --out-dir two"));
    let (_, why) = bench.refuse(&Bench::import("two"));
    assert!(why.contains("none of the enrolled bundle keys has signed it"), "{why}");

    let document = bench.path("one/bundle.json");
    let whole = fs::read_to_string(&document).unwrap();
    let issuer_changed = whole.replace("id.example.com/a", "id.example.com/b");
    let kids = bench.kids("one");
    let turned = whole.replace(&kids[0], "x").replace(&kids[1], &kids[0]).replace('x', &kids[1]);
    for changed in [issuer_changed, turned, format!("{whole} ")] {
        fs::write(&document, changed).unwrap();
        let (_, why) = bench.refuse(&Bench::import("one"));
        assert!(why.contains("somebody has changed it"), "{why}");
    }
    fs::write(&document, &whole).unwrap();
    let halves = [bench.path("one/001.sealed.pem"), bench.path("one/002.sealed.pem")];
    let second = fs::read(&halves[1]).unwrap();
    fs::copy(&halves[0], &halves[1]).unwrap();
    let (_, why) = bench.refuse(&Bench::import("one"));
    assert!(why.contains("002.sealed.pem") && why.contains(&format!("it holds {}", kids[0])), "{why}");
    assert!(bench.planned().contains("no imported key"), "not while a half is missing");
    fs::write(&halves[1], second).unwrap();
    bench.succeed(&Bench::import("one"));
}

#[test]
fn a_bundle_of_another_ring_or_with_a_key_that_is_known_is_refused() {
    let bench = bench();
    bench.keygen(&format!("bundle --issuer https://id.example.com/b {KEYS} --keys 1 --out-dir two"));
    let (_, why) = bench.refuse(&Bench::import("two"));
    assert!(
        why.contains("is for issuer https://id.example.com/b; expected https://id.example.com/a"),
        "{why}"
    );
    let (_, why) = bench.refuse("init");
    assert!(why.contains("--empty"), "{why}");

    let kids = bench.bundle("one", 1);
    let as_public = |kid: &str| {
        let document = fs::read(bench.path("one/bundle.json")).unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        let keys = document["keys"].as_array().unwrap().clone();
        let key = keys.iter().find(|key| key["kid"] == kid).unwrap();
        key["publicKey"].as_str().unwrap().to_owned()
    };
    fs::write(bench.path("known.pub"), as_public(&kids[0])).unwrap();
    bench.succeed("adopt --key-file known.pub");
    let (_, why) = bench.refuse(&Bench::import("one"));
    assert!(why.contains("is in the ring already, as Retiring; nothing was imported"), "{why}");
    assert!(bench.held().is_empty());

    // The same with the key over.
    let ring = fs::read_dir(bench.path("ring")).unwrap().map(|entry| entry.unwrap().path());
    let ring = ring.into_iter().find(|path| path.to_string_lossy().contains("key-ring-")).unwrap();
    let mut document: Value = serde_json::from_slice(&fs::read(&ring).unwrap()).unwrap();
    document["keys"] = Value::Array(Vec::new());
    document["tombstones"] = serde_json::json!([{ "kid": kids[0], "state": "revoked" }]);
    fs::write(&ring, document.to_string()).unwrap();
    let (_, why) = bench.refuse(&Bench::import("one"));
    assert!(why.contains("was Revoked before and never comes back"), "{why}");
    assert!(bench.held().is_empty());

    let policy = POLICY.replace("p-256", "rsa-2048");
    fs::write(bench.path("rotation.yaml"), policy).unwrap();
    fs::create_dir(bench.path("three")).unwrap();
    bench.bundle("three", 1);
    let (_, why) = bench.refuse(&Bench::import("three"));
    assert!(why.contains("signs ES256, and the policy wants RS256"), "{why}");
    fs::write(bench.path("rotation.yaml"), POLICY.replace("offline", "# offline")).unwrap();
    let (_, why) = bench.refuse(&Bench::import("three"));
    assert!(why.contains("give it `offline`"), "{why}");
}

#[test]
fn an_import_that_is_killed_anywhere_shows_nothing_and_goes_on() {
    let bench = bench();
    let kids = bench.bundle("one", 3);
    let line = Bench::import("one");
    for halves in 0..kids.len() {
        let mut child = bench.ring(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(600);
        // Until one more is there, or it was faster.
        while bench.held().len() <= halves && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < patience, "it neither goes on nor ends");
            std::thread::sleep(Duration::from_millis(2));
        }
        _ = child.kill();
        let was_killed = !child.wait().unwrap().success();
        let is_planned = bench.planned().contains("now      enter");
        assert_eq!(is_planned, bench.held().len() == kids.len() && !is_bare(&bench), "all of it or nothing");
        if !was_killed {
            break;
        }
    }
    bench.succeed(&line);
    assert_eq!(bench.held(), sorted(&kids));
    assert!(bench.planned().contains(&format!("now      enter {}", kids[0])));
}

/// Whether no bundle lies beside the ring.
fn is_bare(bench: &Bench) -> bool {
    let mut names = fs::read_dir(bench.path("ring")).unwrap().map(|entry| entry.unwrap().file_name());
    !names.any(|name| name.to_string_lossy().starts_with("key-bundles-"))
}
