//! A folder with a token, an STS on this machine, and the command for both.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

pub fn token(audience: &str, lives: i64) -> String {
    token_of(audience, lives, &json!({}))
}

/// A token with further claims.
pub fn token_of(audience: &str, lives: i64, further: &Value) -> String {
    let now = jiff::Timestamp::now().as_second();
    let mut claims = json!({
        "iss": "https://id.example/a", "sub": "system:serviceaccount:team-a:app", "aud": [audience],
        "exp": now + lives, "iat": now,
    });
    claims.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    let header = json!({ "alg": "RS256", "kid": "k" });
    format!(
        "{}.{}.canary",
        base64url(header.to_string().as_bytes()),
        base64url(claims.to_string().as_bytes())
    )
}

/// A folder with a token, and the command for it.
pub struct Scene {
    pub folder: tempfile::TempDir,
    pub url: String,
    asked: Arc<AtomicUsize>,
}

impl Scene {
    /// An STS that answers everything with this.
    pub fn new(token: &str, status: u16, body: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let mut read = [0; 64 * 1024];
                _ = stream.read(&mut read);
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { folder, url, asked }
    }

    pub fn with_keys() -> Self {
        let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
        let keys = format!(
            "<R><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s'k</SecretAccessKey><SessionToken>st</SessionToken><Expiration>{ends:.0}</Expiration></Credentials></R>"
        );
        Self::new(&token("sts.amazonaws.com", 600), 200, keys)
    }

    pub fn command(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        let source = format!("file:{}", self.folder.path().join("token").display());
        command.env_clear().args(["exchange", subcommand, "--source", &source]).args(arguments);
        command
    }

    pub fn aws(&self, subcommand: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(subcommand, &["--to", "aws", "--sts-endpoint", &self.url]);
        command.env("AWS_REGION", "eu-central-1").env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/app");
        command.args(arguments).output().unwrap()
    }

    /// How often the server was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
