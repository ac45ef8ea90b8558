//! Exactly the rights that docs/targets/s3.md prints suffice, and each that is missing is named.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::config::Credentials;
use chancery_publisher::conformance::{Deviation, run_expecting};
use chancery_publisher::target::S3Target;
use chancery_publisher::{DocumentStore, TargetConfig};
use e2e::binary;
use e2e::chancery::{Output, run_command};
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::s3_server::{S3Server, credentials_file};
use e2e::scratch::Scratch;
use e2e::versitygw::Versitygw;
use e2e::witness::kids;
use serde_json::Value;

/// Bucket and prefix of the page.
const BUCKET: &str = "oidc-example-com";
const PREFIX: &str = "cluster-a";

/// The publisher's policy: the first JSON of the page.
fn printed_policy() -> Result<Value> {
    let page = Path::new("../docs/targets/s3.md");
    let page = std::fs::read_to_string(page)?;
    let (_, rest) = page.split_once("```json\n").context("no JSON on the page")?;
    let (policy, _) = rest.split_once("```").context("JSON without an end")?;
    Ok(serde_json::from_str(policy)?)
}

/// The same without one action; a statement that has no other goes with it.
fn without(action: &str, mut policy: Value) -> Result<Value> {
    let statements =
        policy.pointer_mut("/Statement").and_then(Value::as_array_mut).context("no statements")?;
    let before = statements.len();
    statements.retain(|statement| statement.get("Action").and_then(Value::as_str) != Some(action));
    let mut found = statements.len() < before;
    for actions in statements.iter_mut().filter_map(|statement| statement.get_mut("Action")?.as_array_mut()) {
        let before = actions.len();
        actions.retain(|other| other.as_str() != Some(action));
        found |= actions.len() < before;
    }
    ensure!(found, "the policy does not allow {action}");
    Ok(policy)
}

/// A server with the page's bucket, and a way to credentials that are limited to a policy.
enum Office {
    Minio(Minio),
    Versitygw(Versitygw),
}

impl Office {
    async fn open(name: &str) -> Result<Self> {
        let office = match name {
            "minio" => Self::Minio(Minio::start().await?),
            _ => Self::Versitygw(Versitygw::start_with_iam().await?),
        };
        office.server().create_bucket(BUCKET).await?;
        Ok(office)
    }

    fn server(&self) -> &S3Server {
        match self {
            Self::Minio(minio) => minio,
            Self::Versitygw(versitygw) => versitygw,
        }
    }

    async fn limited_to(&self, user: &str, policy: &Value) -> Result<Credentials> {
        match self {
            Self::Minio(minio) => minio.credentials_limited_to(&policy.to_string()).await,
            Self::Versitygw(versitygw) => versitygw.credentials_limited_to(user, &policy.to_string()).await,
        }
    }

    /// Publishes a key with the program and these credentials.
    async fn publish(&self, credentials: &Credentials, key: &KeyFile) -> Result<Output> {
        let dir = Scratch::new("rights")?;
        let mut command = std::process::Command::new(binary::chancery()?);
        command.env("AWS_SHARED_CREDENTIALS_FILE", credentials_file(&dir, credentials)?);
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command.args(["publish", "apply", "--issuer", "https://id.example.com/cluster-a"]);
        command.args(["--s3-bucket", BUCKET, "--s3-prefix", PREFIX, "--s3-path-style"]);
        command.args(["--s3-endpoint", self.server().endpoint(), "--key"]).arg(&key.public);
        run_command(command).await
    }
}

/// The page's policy is enough to create and to replace.
async fn the_printed_rights_suffice_on(name: &str) -> Result<()> {
    if binary::skipped(&[name]) {
        return Ok(());
    }
    let (office, keys) = (Office::open(name).await?, Scratch::new("keys")?);
    // What is absent cannot be told from what is hidden without `s3:ListBucket`, says the page. Both servers tell it.
    for (user, policy) in
        [("all", printed_policy()?), ("no-list", without("s3:ListBucket", printed_policy()?)?)]
    {
        let credentials = office.limited_to(user, &policy).await?;
        for key in ["first", "second"] {
            let key = KeyFile::p256(&keys, &format!("{user}-{key}"))?;
            let text = office.publish(&credentials, &key).await?.success()?;
            ensure!(text.contains("wrote openid/v1/jwks"), "{text}");
        }
        let read = office.server().read_object(BUCKET, "cluster-a/openid/v1/jwks").await?;
        assert_eq!(kids(&serde_json::from_slice(&read)?).len(), 2);
        office.server().empty(BUCKET).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_printed_rights_suffice_on_minio() -> Result<()> {
    the_printed_rights_suffice_on("minio").await
}

#[tokio::test]
async fn the_printed_rights_suffice_on_versitygw() -> Result<()> {
    the_printed_rights_suffice_on("versitygw").await
}

/// A right less is named, whether the documents are there or not, and nothing is written.
async fn each_missing_right_is_named_on(name: &str) -> Result<()> {
    if binary::skipped(&[name]) {
        return Ok(());
    }
    let (office, keys) = (Office::open(name).await?, Scratch::new("keys")?);
    let all = office.limited_to("all", &printed_policy()?).await?;
    for (number, action, documents) in [
        (0, "s3:PutObject", false),
        (1, "s3:PutObject", true),
        (2, "s3:GetObject", true),
        (3, "s3:GetObject", false),
    ] {
        office.server().empty(BUCKET).await?;
        if documents {
            office.publish(&all, &KeyFile::p256(&keys, "there")?).await?.success()?;
        }
        let limited =
            office.limited_to(&format!("less-{number}"), &without(action, printed_policy()?)?).await?;
        let output = office.publish(&limited, &KeyFile::p256(&keys, "new")?).await?;
        // MinIO does not say which right is missing: there may be nothing, which is created, with a warning.
        if (name, action, documents) == ("minio", "s3:GetObject", false) {
            ensure!(output.stderr.contains("WARN") && output.code == Some(0), "{output:?}");
            continue;
        }
        assert_eq!(output.code, Some(1), "{action}: {output:?}");
        let error = output.stderr.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
        ensure!(error.contains(&format!("grant {action} on it")), "{action}: {}", output.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn each_missing_right_is_named_on_minio() -> Result<()> {
    each_missing_right_is_named_on("minio").await
}

#[tokio::test]
async fn each_missing_right_is_named_on_versitygw() -> Result<()> {
    each_missing_right_is_named_on("versitygw").await
}

/// The whole battery, with the policy's actions on everything below the battery's own prefix.
async fn the_battery_passes_with_these_rights_on(name: &str) -> Result<()> {
    if binary::skipped(&[name]) {
        return Ok(());
    }
    let (office, dir) = (Office::open(name).await?, Scratch::new("rights")?);
    let mut policy = printed_policy()?;
    *policy.pointer_mut("/Statement/0/Resource").context("no resource")? =
        format!("arn:aws:s3:::{BUCKET}/{PREFIX}/*").into();
    let credentials = office.limited_to("battery", &policy).await?;
    let s3 = S3Target {
        endpoint: Some(office.server().endpoint().to_owned()),
        region: Some(office.server().region().to_owned()),
        prefix: PREFIX.to_owned(),
        path_style: true,
        credentials_file: Some(credentials_file(&dir, &credentials)?),
        ..S3Target::of_bucket(BUCKET)
    };
    let store: Arc<dyn DocumentStore> =
        chancery_publisher::open_target(&TargetConfig { s3: Some(s3), ..TargetConfig::default() }).await?;
    let protocol = Deviation {
        check: "a_version_with_other_attributes_conflicts",
        because: "S3 compares the ETag alone, which speaks of the bytes",
    };
    let passed = run_expecting(store.as_ref(), &[protocol]).await?;
    println!("{name}: {} checks passed with the printed actions alone", passed.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes_with_these_rights_on_minio() -> Result<()> {
    the_battery_passes_with_these_rights_on("minio").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes_with_these_rights_on_versitygw() -> Result<()> {
    the_battery_passes_with_these_rights_on("versitygw").await
}
