//! `chancery publish` from the outside, on a directory.

#![cfg(feature = "publish")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use chancery_core::{Jwks, PublicKey};
use serde_json::Value;

const ISSUER: &str = "https://id.example.com/cluster-a";

/// A folder with keys in it and a directory to publish to.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// A file with the key of this number.
    fn key(&self, number: u8) -> PathBuf {
        self.write(&format!("{number}.pub"), key(number).to_pem())
    }

    fn publish(&self, verb: &str, keys: &[PathBuf], more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(["publish", verb, "--issuer", ISSUER, "--target-directory"]).arg(self.path("www"));
        command.arg("--key").args(keys).args(more);
        command.output().unwrap()
    }

    fn published(&self, path: &str) -> String {
        fs::read_to_string(self.path("www").join(path)).unwrap()
    }
}

/// An RSA key as far as anybody can see without factoring it.
fn key(number: u8) -> PublicKey {
    let mut modulus = [0xc5; 256];
    modulus[64] = number;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

fn kid(number: u8) -> String {
    key(number).key_id().to_string()
}

fn jwks(numbers: &[u8]) -> Vec<u8> {
    Jwks::new(numbers.iter().copied().map(key)).unwrap().to_json()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn plan_changes_nothing_and_apply_does_what_it_printed() {
    let bench = Bench::new();
    let keys = [bench.key(1)];
    let plan = bench.publish("plan", &keys, &[]);
    assert_eq!(plan.status.code(), Some(3), "{}", String::from_utf8_lossy(&plan.stderr));
    assert!(!bench.path("www").exists());
    for word in
        ["openid/v1/jwks", ".well-known/openid-configuration", "if there is none", "it is not there", &kid(1)]
    {
        assert!(text(&plan).contains(word), "{word:?} is not in: {}", text(&plan));
    }

    let apply = bench.publish("apply", &keys, &[]);
    assert_eq!(apply.status.code(), Some(0));
    assert!(text(&apply).starts_with(&text(&plan)), "the plan that was printed is the plan that is run");
    assert!(text(&apply).ends_with("\nwrote openid/v1/jwks and .well-known/openid-configuration\n"));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[1]));
    assert!(bench.published(".well-known/openid-configuration").contains(ISSUER));

    let again = bench.publish("plan", &keys, &[]);
    assert_eq!((again.status.code(), text(&again).contains("nothing to write")), (Some(0), true));
    let again = bench.publish("apply", &keys, &[]);
    assert_eq!((again.status.code(), text(&again).contains("nothing was written")), (Some(0), true));
}

#[test]
fn what_others_published_stays_until_it_is_withdrawn_by_name() {
    let bench = Bench::new();
    let (first, second) = ([bench.key(1)], [bench.key(2)]);
    bench.publish("apply", &first, &[]);
    let apply = bench.publish("apply", &second, &[]);
    assert!(text(&apply).contains(&format!("{}  RSA-2048  not among these key files, stays", kid(1))));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[2, 1]));

    let withdraw = bench.publish("apply", &second, &["--withdraw", &kid(1)]);
    assert!(text(&withdraw).contains(&format!("withdraws {}", kid(1))));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[2]));

    refused(&bench.publish("apply", &second, &["--withdraw", &kid(2)]), &[&kid(2), "--withdraw"]);

    let both = [bench.key(1), bench.key(2)];
    refused(&bench.publish("apply", &both, &[]), &[&kid(1), "was withdrawn", "--return-withdrawn"]);
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[2]), "nothing was written");
    assert_eq!(bench.publish("apply", &both, &["--return-withdrawn"]).status.code(), Some(0));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[1, 2]));
}

/// The JWKS of the second bench in the first one, under the marker of the first.
fn plant(bench: &Bench, stranger: &Bench) {
    let marker = |bench: &Bench| bench.published("openid/v1/.jwks.chancery");
    let content = |text: &str| {
        let record: Value = serde_json::from_str(text).unwrap();
        record["records"][0]["content"].as_str().unwrap().to_owned()
    };
    let (ours, theirs) = (marker(bench), marker(stranger));
    fs::write(bench.path("www/openid/v1/jwks"), stranger.published("openid/v1/jwks")).unwrap();
    let forged = ours.replace(&content(&ours), &content(&theirs));
    fs::write(bench.path("www/openid/v1/.jwks.chancery"), forged).unwrap();
}

#[test]
fn who_has_the_writer_key_knows_what_a_stranger_planted() {
    let (bench, stranger) = (Bench::new(), Bench::new());
    stranger.publish("apply", &[stranger.key(1), stranger.key(2)], &[]);
    let made = Command::new(env!("CARGO_BIN_EXE_chancery")).args(["publish", "writer-key"]).output().unwrap();
    let writer_key = bench.write("writer-key", made.stdout);
    fs::set_permissions(&writer_key, fs::Permissions::from_mode(0o600)).unwrap();
    let (only, proving) = ([bench.key(1)], ["--state-key-file", writer_key.to_str().unwrap()]);
    assert_eq!(bench.publish("apply", &only, &proving).status.code(), Some(0));

    let again = bench.publish("apply", &only, &proving);
    assert!(text(&again).contains("nothing was written"), "{}", text(&again));

    plant(&bench, &stranger);
    let words =
        ["a proof that our writer key did not make", "nothing was written", "`chancery publish restore`"];
    refused(&bench.publish("apply", &only, &proving), &words);
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[1, 2]));

    // Without it nobody can tell who was there.
    let unproven = Bench::new();
    unproven.publish("apply", &[unproven.key(1)], &[]);
    plant(&unproven, &stranger);
    unproven.publish("apply", &[unproven.key(1)], &[]);
    assert_eq!(unproven.published("openid/v1/jwks").into_bytes(), jwks(&[1, 2]));
}

#[test]
fn revoking_the_last_key_is_a_choice_that_is_asked_for_and_is_never_undone() {
    let bench = Bench::new();
    let only = [bench.key(1)];
    bench.publish("apply", &only, &[]);
    let revoke = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(["publish", "apply", "--issuer", ISSUER, "--target-directory"]).arg(bench.path("www"));
        command.arg(format!("--revoke={}", kid(1))).args(more).output().unwrap()
    };
    refused(&revoke(&[]), &["every token of this issuer would be refused", "new key first", "`--force`"]);
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[1]), "nothing was written");

    let forced = revoke(&["--force"]);
    assert_eq!(forced.status.code(), Some(0), "{}", String::from_utf8_lossy(&forced.stderr));
    assert!(text(&forced).contains("MinIO STS accepts it until it is restarted"), "{}", text(&forced));
    assert_eq!(bench.published("openid/v1/jwks"), r#"{"keys":[]}"#);

    for more in [&[][..], &["--return-withdrawn"], &["--adopt"]] {
        refused(&bench.publish("apply", &only, more), &[&kid(1), "revoked", "Leave the key out"]);
    }
    let next = bench.publish("apply", &[bench.key(2)], &[]);
    assert_eq!(next.status.code(), Some(0), "{}", String::from_utf8_lossy(&next.stderr));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[2]));
}

#[test]
fn a_plan_says_how_long_a_new_key_waits_and_who_accepts_a_withdrawn_one() {
    let bench = Bench::new();
    let (first, second) = ([bench.key(1)], [bench.key(2)]);
    let usual = text(&bench.publish("apply", &first, &[]));
    assert!(usual.contains("visible for 960 s without a gap") && !usual.contains("withdrawal"), "{usual}");
    let axum = text(&bench.publish("plan", &second, &["--for", "pyjwt,axum-jwks", "--max-age", "60"]));
    assert!(axum.contains("visible for 90 s") && axum.contains("then restart axum-jwks"), "{axum}");
    let long = text(&bench.publish("plan", &second, &["--max-age", "3600"]));
    assert!(long.contains("visible for 3600 s without a gap: caches may keep"), "{long}");

    let withdraw = text(&bench.publish("apply", &second, &["--withdraw", &kid(1)]));
    let minio = "MinIO STS accepts it until it is restarted; to end that at once, restart every MinIO server";
    assert!(withdraw.contains(minio), "{withdraw}");
}

#[test]
fn json_says_the_same_to_a_machine() {
    let bench = Bench::new();
    bench.publish("apply", &[bench.key(1)], &[]);
    let keys = [bench.key(2)];
    let plan: Value = serde_json::from_slice(&bench.publish("plan", &keys, &["--json"]).stdout).unwrap();
    assert_eq!(plan["issuer"], ISSUER);
    assert_eq!(plan["target"], format!("directory {}", bench.path("www").display()));
    assert_eq!(plan["writes"][0]["path"], "openid/v1/jwks");
    assert_eq!(plan["writes"][0]["reasons"][0], format!("adds {}", kid(2)));
    assert!(plan["writes"][0]["ifVersion"].is_string());
    assert_eq!(plan["writes"].as_array().unwrap().len(), 1);
    assert_eq!(plan["written"], Value::Null);
    assert_eq!(plan["relyingParties"]["waitSeconds"], 960);
    let foreign: Vec<_> = plan["keys"].as_array().unwrap().iter().map(|key| &key["foreign"]).collect();
    assert_eq!(foreign, [false, true]);

    let apply: Value = serde_json::from_slice(&bench.publish("apply", &keys, &["--json"]).stdout).unwrap();
    assert_eq!(apply["written"], serde_json::json!(["openid/v1/jwks"]));
    assert_eq!(apply["writes"], plan["writes"]);
}

#[test]
fn a_jwks_is_as_good_as_key_files() {
    let bench = Bench::new();
    let file = bench.write("jwks.json", jwks(&[1, 2]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.args(["publish", "apply", "--issuer", ISSUER, "--target-directory"]).arg(bench.path("www"));
    let output = command.arg("--jwks").arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[1, 2]));
}

#[test]
fn max_age_is_part_of_what_is_published() {
    let bench = Bench::new();
    let keys = [bench.key(1)];
    bench.publish("apply", &keys, &[]);
    let plan = bench.publish("plan", &keys, &["--max-age", "60"]);
    assert_eq!(plan.status.code(), Some(3));
    assert!(text(&plan).contains("cache header was public, max-age=600"), "{}", text(&plan));
}

#[test]
fn keys_that_cannot_be_published_refuse_the_whole() {
    let bench = Bench::new();
    let good = bench.key(1);
    let pem = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    for (name, content, word) in [
        ("rsa.key", pem("RSA PRIVATE KEY"), "RSA PRIVATE KEY"),
        ("pkcs8.key", pem("PRIVATE KEY"), "a private key"),
        ("sealed.key", pem("ENCRYPTED PRIVATE KEY"), "ENCRYPTED PRIVATE KEY"),
        ("both.pem", format!("{}{}", key(2).to_pem(), pem("EC PRIVATE KEY")), "block 2 (EC PRIVATE KEY)"),
        ("half.pub", "-----BEGIN PUBLIC KEY-----\nAAAA\n".to_owned(), "not readable PEM"),
        ("empty.pub", String::new(), "found none"),
    ] {
        let file = bench.write(name, content);
        refused(&bench.publish("apply", &[good.clone(), file], &[]), &[name, word]);
    }
    refused(&bench.publish("apply", &[bench.path("missing.pub")], &[]), &["missing.pub", "cannot read"]);
    assert!(!bench.path("www").exists());
}

#[test]
fn a_jwks_with_private_or_foreign_entries_is_refused() {
    let bench = Bench::new();
    let good: Value = serde_json::from_slice(&jwks(&[1])).unwrap();
    let with = |member: &str, value: &str| {
        let mut jwks = good.clone();
        jwks["keys"][0][member] = value.into();
        jwks.to_string()
    };
    for (name, content, word) in [
        ("private.json", with("d", "AQAB"), "`d`"),
        ("kid.json", with("kid", "mine"), "kid \"mine\""),
        ("type.json", with("kty", "OKP"), "OKP"),
        ("use.json", with("use", "enc"), "signatures"),
        ("text.json", "no json".to_owned(), "not JSON"),
        ("empty.json", "{\"keys\":[]}".to_owned(), "never published"),
    ] {
        let file = bench.write(name, content);
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(["publish", "apply", "--issuer", ISSUER, "--target-directory"]).arg(bench.path("www"));
        let output = command.arg("--jwks").arg(&file).output().unwrap();
        refused(&output, &[word]);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("AQAB"), "{name}");
    }
    assert!(!bench.path("www").exists());
}

#[test]
fn a_strangers_document_is_named_and_left_alone_until_adopted() {
    let bench = Bench::new();
    let keys = [bench.key(1)];
    fs::create_dir_all(bench.path("www/openid/v1")).unwrap();
    bench.write("www/openid/v1/jwks", jwks(&[9]));
    refused(&bench.publish("plan", &keys, &[]), &["www", "JWKS", "ownership marker", "--adopt"]);
    refused(&bench.publish("apply", &keys, &[]), &["--adopt"]);
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[9]));

    assert_eq!(bench.publish("apply", &keys, &["--adopt"]).status.code(), Some(0));
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[1, 9]));

    refused(
        &bench.publish("apply", &keys, &["--owner", "somebody", "--adopt"]),
        &["belongs to chancery-", "somebody"],
    );
}

#[test]
fn a_key_id_that_begins_with_a_hyphen_is_withdrawn_and_revoked_as_any_other() {
    let bench = Bench::new();
    let odd: Vec<u8> = (0..=255).filter(|number| kid(*number).starts_with('-')).take(2).collect();
    let [withdrawn, revoked] = odd[..] else { panic!("the keys of this test have no such ids: {odd:?}") };
    let stays = odd.iter().fold(1, |number, odd| if number == *odd { number + 1 } else { number });
    bench.publish("apply", &[bench.key(withdrawn), bench.key(revoked)], &[]);
    let chosen = ["--withdraw", &kid(withdrawn), "--revoke", &kid(revoked), "--max-age", "60"];
    let output = bench.publish("apply", &[bench.key(stays)], &chosen);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(bench.published("openid/v1/jwks").into_bytes(), jwks(&[stays]));
}

#[test]
fn arguments_that_do_not_fit_are_usage_errors() {
    let bench = Bench::new();
    let file = bench.key(1);
    let file = file.to_str().unwrap();
    for arguments in [
        vec!["--key", file],
        vec!["--target-directory", "x"],
        vec!["--key", file, "--target-directory", "x", "--s3-bucket", "b"],
        vec!["--key", file, "--target-directory", "x", "--s3-region", "r"],
        vec!["--key", file, "--target-directory", "x", "--gcs-prefix", "p"],
        vec!["--key", file, "--s3-bucket", "x", "--gcs-endpoint", "https://h"],
        vec!["--key", file, "--gcs-bucket", "x", "--s3-prefix", "p"],
        vec!["--key", file, "--gcs-bucket", "x", "--s3-bucket", "y"],
        vec!["--key", file, "--jwks", file, "--target-directory", "x"],
        vec!["--key", file, "--target-directory", "x", "--withdraw", "not-a-kid"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        let output = command.args(["publish", "plan", "--issuer", ISSUER]).args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[cfg(feature = "s3")]
#[test]
fn an_s3_target_that_cannot_be_meant_so_is_refused_before_anything_is_asked() {
    let bench = Bench::new();
    for (arguments, words) in [
        (vec!["--s3-bucket", "s3://b/p"], ["s3.bucket", "prefix"]),
        (vec!["--s3-bucket", "bucket", "--s3-prefix", "a//b"], ["s3.prefix", "a//b"]),
        (vec!["--s3-bucket", "bucket", "--s3-endpoint", "minio:9000"], ["s3.endpoint", "https://HOST"]),
        (
            vec!["--s3-bucket", "bucket", "--s3-endpoint", "https://u:secret@h"],
            ["s3.endpoint", "credentials"],
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(["publish", "plan", "--issuer", ISSUER, "--key"]).arg(bench.key(1)).args(&arguments);
        let output = command.output().unwrap();
        refused(&output, &words);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("secret"));
    }
}
