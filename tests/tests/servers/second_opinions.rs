//! Keys, JWKs, sealed files and tokens that we make are read by code we did not write, and we read what it makes.
//!
//! Nothing that ships links that code: `rsa` has an unpatched timing leak (RUSTSEC-2023-0071), and josekit stands on OpenSSL.
//! Neither matters in a test, and both read these formats independently of the libraries that write ours.

use std::path::Path;

use anyhow::{Context, Result};
use chancery_keygen::PrivateKey;
use e2e::chancery;
use e2e::scratch::Scratch;
use serde_json::{Value, json};

#[cfg(feature = "josekit")]
mod openssl;
mod pure_rust;

/// Without OpenSSL's headers nothing here can be built for it: said outside CI, an error there.
#[cfg(not(feature = "josekit"))]
#[test]
fn josekit_reads_what_we_make_and_we_read_what_it_makes() {
    let missing = "the feature `josekit` of the crate e2e is off, which needs OpenSSL's headers; run tests/servers/install";
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{missing}");
    e2e::binary::say_skipped(missing);
}

/// Runs `chancery keygen` with words and paths.
async fn keygen(arguments: &[&dyn AsRef<Path>]) -> Result<String> {
    let mut all = vec![Path::new("keygen")];
    all.extend(arguments.iter().map(AsRef::as_ref));
    chancery::run(&all).await?.success()
}

/// A new key pair of ours in a folder: `sa.key` and `sa.pub`.
async fn new_key(algorithm: &str) -> Result<Scratch> {
    let dir = Scratch::new("keygen")?;
    keygen(&[&"new", &"--algorithm", &algorithm, &"--out-dir", &dir.path()]).await?;
    Ok(dir)
}

/// The only entry of the JWKS that we publish for a public key.
async fn jwk(public: &Path) -> Result<Value> {
    let jwks: Value = serde_json::from_str(&keygen(&[&"jwks", &"--key", &public]).await?)?;
    jwks.pointer("/keys/0").cloned().context("a JWKS without keys")
}

/// Brings a foreign private key in as a person does, and returns the entry that we publish for it.
async fn import(dir: &Scratch, private: &Path, passphrase: Option<&Path>) -> Result<Value> {
    let out = dir.join("imported");
    std::fs::create_dir(&out)?;
    let mut arguments: Vec<&dyn AsRef<Path>> = vec![&"import", &private, &"--out-dir", &out];
    if let Some(passphrase) = &passphrase {
        arguments.extend([&"--passphrase-file" as &dyn AsRef<Path>, passphrase]);
    }
    keygen(&arguments).await?;
    jwk(&out.join("sa.pub")).await
}

fn claims() -> Value {
    json!({ "iss": "https://id.example.com", "sub": "system:serviceaccount:demo:app", "aud": ["relying-party"] })
}

/// A token that our own key signs.
fn token(private: &Path) -> Result<String> {
    let file = chancery_keygen::PemFile::read(&std::fs::read_to_string(private)?, None);
    let keys = file.blocks.into_iter().filter_map(|block| match block.content {
        chancery_keygen::pem_file::Content::Private(key, _) => Some(key),
        _ => None,
    });
    let key: PrivateKey = *keys.into_iter().next().context("a file without a private key")?;
    Ok(key.signing_key().jwt(claims().to_string().as_bytes())?)
}
