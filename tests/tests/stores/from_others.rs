//! The commands of docs/from-others.md, from documents as other tools leave them: the keys stay, and relying parties see them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::authority::{Authority, LOOPBACK};
use e2e::azurite::Azurite;
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::tls_front::TlsFront;
use e2e::witness::kids;
use e2e::{binary, chancery};
use serde_json::{Value, json};

const DISCOVERY: &str = ".well-known/openid-configuration";
const JWKS: &str = "openid/v1/jwks";

/// The commands of a section and the exit codes that they promise.
fn commands(section: &str) -> Result<Vec<(String, i32)>> {
    let page = std::fs::read_to_string("../docs/from-others.md")?;
    let block = page.split(&format!("\n```sh {section}\n")).nth(1).context("no such block")?;
    let lines = block.split("\n```").next().unwrap_or_default().lines();
    Ok(lines
        .map(|line| match line.split_once(" # exit code ") {
            Some((command, code)) => (command.to_owned(), code.trim().parse().unwrap_or(-1)),
            None => (line.to_owned(), 0),
        })
        .collect())
}

/// Who types them, and where.
struct Reader {
    dir: Scratch,
    key: KeyFile,
    authority: Authority,
}

impl Reader {
    fn new() -> Result<Self> {
        let dir = Scratch::new("from-others")?;
        let authority = Authority::new(dir.path())?;
        let key = KeyFile::new(&dir, "theirs")?;
        std::fs::copy(&key.public, dir.join("sa.pub"))?;
        Ok(Self { dir, key, authority })
    }

    /// Types the commands of a section; each of `chancery publish` is led to the server of the test.
    async fn types(&self, section: &str, server: &str, variables: &[(&str, &str)]) -> Result<()> {
        let program = binary::chancery()?;
        let folder = program.parent().context("a program without a folder")?;
        let path = format!("{}:{}", folder.display(), std::env::var("PATH")?);
        let ca: &Path = self.authority.path();
        for (line, code) in commands(section)? {
            // The server's address is in the place of an account's name.
            let line = line.replace(r#" --azure-account "$ACCOUNT""#, "");
            let line = if line.contains("chancery publish") { format!("{line} {server}") } else { line };
            let mut command = Command::new("sh");
            command.args(["-euc", &line]).current_dir(self.dir.path()).envs(variables.iter().copied());
            command.env("PATH", &path).env("SSL_CERT_FILE", ca).env("CURL_CA_BUNDLE", ca);
            let output = chancery::run_command(command).await?;
            ensure!(output.code == Some(code), "{section}: {line}: {output:?}");
        }
        Ok(())
    }

    /// The entry of a key as all of them write it.
    async fn entry(&self, key: &KeyFile) -> Result<Value> {
        let arguments = ["keygen".as_ref(), "jwks".as_ref(), "--key".as_ref(), key.public.as_os_str()];
        let jwks: Value = serde_json::from_str(&chancery::run(&arguments).await?.success()?)?;
        jwks.pointer("/keys/0").cloned().context("no key")
    }
}

/// A discovery document of theirs.
fn discovery(issuer: &str, jwks: &str) -> Vec<u8> {
    let document = json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/{jwks}"), "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
        "claims_supported": ["aud", "exp", "sub", "iat", "iss", "sub"],
    });
    format!("{document:#}").into_bytes()
}

fn pretty(keys: &[&Value]) -> Vec<u8> {
    format!("{:#}", json!({ "keys": keys })).into_bytes()
}

#[tokio::test]
async fn documents_of_ccoctl_kops_and_the_irsa_webhook_are_taken_over_with_their_keys() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let reader = Reader::new()?;
    let minio = Minio::start().await?;
    let front =
        TlsFront::start(minio.endpoint(), &reader.authority.issue(reader.dir.path(), &LOOPBACK)?).await?;
    let second = KeyFile::new(&reader.dir, "next")?;
    let (first_entry, second_entry) = (reader.entry(&reader.key).await?, reader.entry(&second).await?);
    let mut nameless = first_entry.clone();
    nameless["kid"] = json!("");
    let (first, both) = (vec![reader.key.kid.clone()], vec![reader.key.kid.clone(), second.kid.clone()]);
    let server = format!("--s3-endpoint {} --s3-path-style", minio.endpoint());
    let (id, secret) = minio.root_credentials();
    for (section, prefix, place, keys, expected) in [
        ("ccoctl", "", "keys.json", vec![&first_entry, &second_entry], &both),
        ("kops", "prod.example.com", JWKS, vec![&first_entry, &second_entry], &both),
        ("irsa", "", "keys.json", vec![&first_entry, &nameless], &first),
    ] {
        minio.create_public_bucket(section).await?;
        let issuer = format!("{}/{section}/{prefix}", front.url());
        let issuer = issuer.trim_end_matches('/');
        let at = |path: &str| if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") };
        minio.put_object(section, &at(DISCOVERY), &discovery(issuer, place)).await?;
        minio.put_object(section, &at(place), &pretty(&keys)).await?;
        let variables = [
            ("ISSUER", issuer),
            ("BUCKET", section),
            ("REGION", minio.region()),
            ("PREFIX", prefix),
            ("AWS_ACCESS_KEY_ID", id),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        reader.types(section, &server, &variables).await?;
        let published: Value = serde_json::from_slice(&minio.read_object(section, &at(JWKS)).await?)?;
        assert_eq!(kids(&published), expected.iter().cloned().collect(), "{section}");
        let named: Value = serde_json::from_slice(&minio.read_object(section, &at(DISCOVERY)).await?)?;
        assert_eq!(named["jwks_uri"], format!("{issuer}/{JWKS}"), "{section}");
        if place != JWKS {
            assert_eq!(
                minio.read_object(section, &at(place)).await?,
                pretty(&keys),
                "{section}: it is left alone"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn documents_of_azwi_are_taken_over_with_their_keys() -> Result<()> {
    if binary::skipped(&["azurite"]) {
        return Ok(());
    }
    let reader = Reader::new()?;
    let azurite = Azurite::start_with_tls(&reader.authority).await?;
    azurite.create_public_container("oidc").await?;
    let second = KeyFile::new(&reader.dir, "next")?;
    let keys = [reader.entry(&reader.key).await?, reader.entry(&second).await?];
    let issuer = azurite.blob_url("oidc", "");
    let issuer = issuer.trim_end_matches('/');
    azurite.put_blob("oidc", DISCOVERY, &discovery(issuer, JWKS)).await?;
    azurite.put_blob("oidc", JWKS, &pretty(&keys.iter().collect::<Vec<_>>())).await?;
    let sas = azurite.sas("oidc", "rcw");
    let variables = [("ISSUER", issuer), ("CONTAINER", "oidc"), ("AZURE_STORAGE_SAS_TOKEN", sas.as_str())];
    let server = format!("--azure-endpoint {}", azurite.endpoint());
    reader.types("azwi", &server, &variables).await?;
    let published: Value = serde_json::from_slice(&azurite.read_blob("oidc", JWKS).await?)?;
    assert_eq!(kids(&published), [reader.key.kid.clone(), second.kid.clone()].into());
    Ok(())
}
