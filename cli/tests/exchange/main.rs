//! `chancery exchange` as tools call it, against an STS on this machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![cfg(feature = "exchange")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// base64url without padding (RFC 4648 section 5).
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

fn token(audience: &str, lives: i64) -> String {
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({
        "iss": "https://id.example/a", "sub": "system:serviceaccount:team-a:app", "aud": [audience],
        "exp": now + lives, "iat": now,
    });
    let header = json!({ "alg": "RS256", "kid": "k" });
    format!(
        "{}.{}.canary",
        base64url(header.to_string().as_bytes()),
        base64url(claims.to_string().as_bytes())
    )
}

/// A folder with a token, and the command for it.
struct Scene {
    folder: tempfile::TempDir,
    url: String,
}

impl Scene {
    /// An STS that answers everything with this.
    fn new(token: &str, status: u16, body: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut read = [0; 64 * 1024];
                _ = stream.read(&mut read);
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { folder, url }
    }

    fn with_keys() -> Self {
        let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
        let keys = format!(
            "<R><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s'k</SecretAccessKey><SessionToken>st</SessionToken><Expiration>{ends:.0}</Expiration></Credentials></R>"
        );
        Self::new(&token("sts.amazonaws.com", 600), 200, keys)
    }

    fn command(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        let source = format!("file:{}", self.folder.path().join("token").display());
        command.env_clear().args(["exchange", subcommand, "--source", &source]).args(arguments);
        command
    }

    fn aws(&self, subcommand: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(subcommand, &["--to", "aws", "--sts-endpoint", &self.url]);
        command.env("AWS_REGION", "eu-central-1").env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/app");
        command.args(arguments).output().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn e14_aws_tools_read_keys_and_a_file_is_for_its_owner_alone() {
    let scene = Scene::with_keys();
    let output = scene.aws("get", &["--format", "credential-process"]);
    assert!(output.status.success(), "{}", error(&output));
    let keys: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&keys["Version"], &keys["AccessKeyId"]), (&json!(1), &json!("ASIA")));
    let path = scene.path("credentials");
    let output = scene.aws("get", &["--format", "env", "--out", path.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", error(&output));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(path).unwrap().contains("export AWS_SESSION_TOKEN='st'"));
}

#[test]
fn a_command_runs_with_the_credential_and_its_own_exit_code() {
    let scene = Scene::with_keys();
    let output = scene.aws("exec", &["--", "/bin/sh", "-c", "echo $AWS_SECRET_ACCESS_KEY; exit 7"]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(7), "s'k\n"), "{}", error(&output));
}

#[test]
fn e07_the_exit_code_is_the_class_and_no_token_is_printed() {
    let denied = "<E><Error><Code>AccessDenied</Code><Message>Not authorized</Message></Error></E>";
    for (subject, status, body, code) in [
        (token("sts.amazonaws.com", 600), 403, denied, 10),
        (token("other", 600), 200, "", 10),
        (token("sts.amazonaws.com", 600), 503, "", 11),
        (token("sts.amazonaws.com", 600), 429, "", 12),
        (token("sts.amazonaws.com", -60), 200, "", 13),
        ("no token".to_owned(), 200, "", 14),
    ] {
        let scene = Scene::new(&subject, status, body.to_owned());
        let output = scene.aws("get", &[]);
        assert_eq!(output.status.code(), Some(code), "{}", error(&output));
        assert!(!error(&output).contains("canary") && output.stdout.is_empty(), "{}", error(&output));
    }
    let scene = Scene::with_keys();
    let output = scene.aws("get", &["--min-ttl", "7200"]);
    assert_eq!(output.status.code(), Some(10), "{}", error(&output));
    assert!(error(&output).contains("--min-ttl"));
    assert_eq!(scene.aws("get", &["--format", "nonsense"]).status.code(), Some(2));
}

#[test]
fn e15_a_chain_is_explained_without_an_exchange() {
    let scene = Scene::new(&token("sts.amazonaws.com", 600), 500, String::new());
    let output = scene.aws("explain", &[]);
    assert!(output.status.success(), "{}", error(&output));
    let text = out(&output);
    assert!(text.contains("it may be sent") && text.contains("oidc-provider/id.example/a"), "{text}");
    let output = scene.aws("explain", &["--json", "--expect-issuer", "https://id.example/a/"]);
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["differences"][0]["hint"], "the slash at the end is missing");
    assert!(!text.contains("canary"));
}

#[test]
fn docker_and_google_read_their_own_answers() {
    let scene = Scene::new(&token("audience", 600), 200, String::new());
    for server in ["https://index.docker.io/v1/", "myregistry.azurecr.io"] {
        let mut docker = scene.command("get", &["--to", "gcp", "--format", "docker"]);
        let mut child = docker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(server.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = out(&output);
        assert_eq!(
            (output.status.code(), said.as_str()),
            (Some(1), "credentials not found in native keychain")
        );
    }
    let google = |audience: &str| {
        let arguments = ["--to", "direct", "--format", "gcp-executable"];
        let mut command = scene.command("get", &arguments);
        let output = command.env("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE", audience).output().unwrap();
        serde_json::from_str::<Value>(&out(&output)).unwrap()
    };
    assert_eq!(google("audience")["success"], true);
    let failed = google("other");
    assert_eq!((&failed["success"], &failed["code"]), (&json!(false), &json!("subject-token-unsuitable")));
}
