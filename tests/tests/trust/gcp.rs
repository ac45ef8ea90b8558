//! Registering an issuer with Google Cloud and keeping its uploaded keys in sync, against a strict stand-in for IAM.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use chancery_core::jwks::ObservedJwks;
use chancery_core::upload::{DesiredUpload, UploadPlan};
use chancery_core::{Jwks, KeyId, Owner, PublicKey, WithdrawalCause, Withdrawals, key_file};
use chancery_publisher::StoreErrorKind;
use chancery_publisher::sink::config::GcpProviderPlace;
use chancery_publisher::sink::gcp::{GcpSink, connect};
use chancery_publisher::sink::{JwksSink as _, UploadError, upload};
use e2e::binary;
use e2e::chancery::{Output, run, run_command};
use e2e::gcp_iam::{GcpIam, PERMISSIONS};
use e2e::google_sts::GoogleSts;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example.com/a";
const TOKEN: &str = "ya29.an-access-token";
const SCOPE: &str = "https://www.googleapis.com/auth/iam";
const PROVIDER: &str = "clusters/providers/cluster-a";

/// Google's side, and who may change it.
struct Stage {
    iam: GcpIam,
    sts: GoogleSts,
    dir: Scratch,
}

impl Stage {
    async fn new() -> Result<Self> {
        let (iam, sts) = (GcpIam::start(TOKEN).await?, GoogleSts::start(TOKEN, &[SCOPE]).await?);
        Ok(Self { iam, sts, dir: Scratch::new("trust-gcp")? })
    }

    async fn trust(&self, operation: &str, more: &[&str]) -> Result<Output> {
        let mut command = Command::new(binary::chancery()?);
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.sts.credentials_file()?);
        command.args(["trust", "gcp", operation, "--issuer", ISSUER, "--project", "my-project"]);
        command.args(["--pool", "clusters", "--provider", "cluster-a", "--owner", "us"]);
        command.args(["--endpoint", self.iam.url()]).args(more);
        run_command(command).await
    }

    fn provider(&self) -> Result<Value> {
        self.iam.resource(PROVIDER).context("there is no provider")
    }

    fn sink(&self) -> Result<GcpSink> {
        let config = GcpProviderPlace {
            project: "my-project".parse()?,
            pool: "clusters".parse()?,
            provider: "cluster-a".parse()?,
            credentials_file: Some(self.sts.credentials_file()?),
            endpoint: Some(self.iam.url().to_owned()),
        };
        Ok(connect(&config)?)
    }

    /// A JWKS of these keys in a file.
    async fn jwks_file(&self, keys: &[&KeyFile]) -> Result<std::path::PathBuf> {
        let mut arguments: Vec<&Path> = ["keygen", "jwks", "--key"].map(Path::new).to_vec();
        arguments.extend(keys.iter().map(|key| key.public.as_path()));
        self.dir.write("jwks.json", run(&arguments).await?.success()?)
    }

    fn uploaded(&self) -> Result<Vec<String>> {
        let provider = self.provider()?;
        let text = provider.pointer("/oidc/jwksJson").and_then(Value::as_str);
        let jwks = ObservedJwks::parse(text.context("no key is uploaded")?.as_bytes())?;
        Ok(jwks.keys().map(|key| key.key_id().to_string()).collect())
    }
}

fn key(file: &KeyFile) -> Result<PublicKey> {
    key_file::read_public_keys(&file.public_pem()?).keys.into_iter().next().context("no key")
}

fn refused(output: &Output, words: &[&str]) -> Result<()> {
    ensure!(output.code == Some(1), "{output:?}");
    for word in words {
        ensure!(output.stderr.contains(word), "{word:?} is not in {}", output.stderr);
    }
    ensure!(!output.stderr.contains("ya29"), "{}", output.stderr);
    Ok(())
}

#[tokio::test]
async fn a_registration_is_planned_made_and_left_alone() -> Result<()> {
    let stage = Stage::new().await?;
    let planned = stage.trust("plan", &["--audience", "sts"]).await?;
    assert_eq!(planned.code, Some(3), "{planned:?}");
    for words in
        PERMISSIONS.into_iter().chain(["POST http", "workloadIdentityPoolId=clusters", "\"issuerUri\""])
    {
        ensure!(planned.stdout.contains(words), "{words} is not in {}", planned.stdout);
    }
    assert_eq!(stage.iam.take_calls(), ["GET /clusters -> 404"], "planning only reads");

    stage.iam.delay_operations(1);
    stage.trust("apply", &["--audience", "sts"]).await?.success()?;
    let calls = stage.iam.take_calls();
    assert_eq!(
        calls,
        [
            "GET /clusters -> 404",
            "POST ?workloadIdentityPoolId=clusters -> 200",
            "GET /v1/projects/123456789012/locations/global/workloadIdentityPools/clusters/operations/op0 -> 200",
            "GET /v1/projects/123456789012/locations/global/workloadIdentityPools/clusters/operations/op0 -> 200",
            "POST /clusters/providers?workloadIdentityPoolProviderId=cluster-a -> 200",
            "GET /v1/projects/123456789012/locations/global/workloadIdentityPools/clusters/providers/cluster-a/operations/op1 -> 200",
            "GET /v1/projects/123456789012/locations/global/workloadIdentityPools/clusters/providers/cluster-a/operations/op1 -> 200",
        ]
    );
    let provider = stage.provider()?;
    assert_eq!(provider["oidc"], json!({ "issuerUri": ISSUER, "allowedAudiences": ["sts"] }));
    assert_eq!(provider["attributeMapping"], json!({ "google.subject": "assertion.sub" }));
    assert_eq!(provider["description"], "Kept by Chancery. chancery-owner=us");

    for operation in ["plan", "apply"] {
        stage.trust(operation, &["--audience", "sts"]).await?.success()?;
        let reads = ["GET /clusters -> 200", "GET /clusters/providers/cluster-a -> 200"];
        assert_eq!(stage.iam.take_calls(), reads, "{operation} changes nothing any more");
    }
    stage.trust("apply", &["--audience", "vault"]).await?.success()?;
    assert_eq!(stage.provider()?["oidc"]["allowedAudiences"], json!(["sts", "vault"]));
    let patch = stage.iam.take_calls().into_iter().find(|call| call.starts_with("PATCH"));
    assert_eq!(
        patch.as_deref(),
        Some("PATCH /clusters/providers/cluster-a?updateMask=oidc.allowedAudiences -> 200")
    );
    Ok(())
}

#[tokio::test]
async fn what_is_not_ours_or_deleted_is_never_touched() -> Result<()> {
    let stage = Stage::new().await?;
    stage.trust("apply", &[]).await?.success()?;
    let made = stage.provider()?;
    for (field, value, words) in [
        (
            "description",
            "Kept by Chancery. chancery-owner=them",
            ["belongs to them", "provider id of its own"],
        ),
        ("description", "Terraform", ["no mark", "chancery-owner=us"]),
        ("state", "DELETED", ["30 days", "undelete"]),
    ] {
        stage.iam.change(PROVIDER, |provider| {
            *provider = made.clone();
            provider[field] = json!(value);
        });
        let before = stage.provider()?;
        stage.iam.take_calls();
        for operation in ["plan", "apply"] {
            refused(&stage.trust(operation, &["--audience", "sts"]).await?, &words)?;
        }
        assert_eq!(stage.provider()?, before);
        ensure!(stage.iam.take_calls().iter().all(|call| call.starts_with("GET")), "it was touched");
    }
    Ok(())
}

#[tokio::test]
async fn the_printed_permissions_suffice_and_the_missing_one_is_named() -> Result<()> {
    let page = include_str!("../../../docs/trust/gcp.md");
    let documented: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(documented, PERMISSIONS);
    for missing in PERMISSIONS {
        let stage = Stage::new().await?;
        if missing == "iam.workloadIdentityPoolProviders.update" {
            stage.trust("apply", &[]).await?.success()?;
        }
        let rest: Vec<&'static str> = PERMISSIONS.into_iter().filter(|other| *other != missing).collect();
        stage.iam.grant(&rest);
        if missing == "iam.workloadIdentityPoolProviders.get" {
            // The pool is there, or the provider would not be asked for.
            stage.iam.change("clusters", |_| {});
        }
        let output = stage.trust("apply", &["--audience", "sts"]).await?;
        refused(&output, &[&format!("grant {missing} on the project my-project")])?;
    }
    Ok(())
}

#[tokio::test]
async fn google_asks_for_patience_or_refuses_and_the_answer_is_told() -> Result<()> {
    let stage = Stage::new().await?;
    stage.iam.refuse(&[429, 503]);
    stage.trust("apply", &[]).await?.success()?;
    stage.iam.take_calls();

    stage.iam.refuse(&[429; 4]);
    refused(&stage.trust("plan", &[]).await?, &["429", "60 such writes in a minute"])?;
    assert_eq!(stage.iam.take_calls().len(), 4);

    let policy = "Precondition check failed: constraints/iam.workloadIdentityPoolProviders";
    stage.iam.fail_operation(json!({ "code": 9, "message": policy }));
    refused(
        &stage.trust("apply", &["--audience", "sts"]).await?,
        &["400", "organization policy", "to allow https://id.example.com/a"],
    )?;
    assert_eq!(stage.provider()?["oidc"], json!({ "issuerUri": ISSUER }));

    stage.iam.refuse(&[401]);
    refused(&stage.trust("plan", &[]).await?, &["401", "give credentials"])?;
    Ok(())
}

#[tokio::test]
async fn names_that_google_would_refuse_are_wrong_usage() -> Result<()> {
    for (project, pool, provider, words) in [
        ("a/b", "clusters", "cluster-a", "a project's id or number"),
        ("my-project", "gcp-pool", "cluster-a", "do not begin with `gcp-`"),
        ("my-project", "clusters", "abc", "4 to 32"),
    ] {
        let arguments = ["--issuer", ISSUER, "--project", project, "--pool", pool, "--provider", provider];
        let output = run(&[&["trust", "gcp", "plan"], arguments.as_slice()].concat()).await?;
        ensure!(output.code == Some(2) && output.stderr.contains(words), "{output:?}");
    }
    Ok(())
}

#[tokio::test]
async fn keys_are_uploaded_with_the_registration_and_kept_in_sync() -> Result<()> {
    let stage = Stage::new().await?;
    let [first, second, third] = ["first", "second", "third"].map(|name| KeyFile::p256(&stage.dir, name));
    let (first, second, third) = (first?, second?, third?);
    let file = stage.jwks_file(&[&first]).await?;
    let file = file.to_str().context("a path")?;
    stage.trust("apply", &["--upload-jwks", file]).await?.success()?;
    assert_eq!(stage.uploaded()?, [first.kid.as_str()]);

    let (sink, owner) = (stage.sink()?, "us".parse::<Owner>()?);
    let sync = async |keys: &[&KeyFile], withdrawn: &[KeyId]| -> Result<UploadPlan> {
        let keys: Vec<PublicKey> = keys.iter().map(|file| key(file)).collect::<Result<_>>()?;
        let jwks = Jwks::new(keys).context("no key")?;
        let withdrawals = Withdrawals::of(withdrawn.iter().cloned(), WithdrawalCause::Retired, 1);
        Ok(upload(
            &sink,
            DesiredUpload { jwks: &jwks, withdrawals: &withdrawals, owner: &owner, adopt_unmarked: false },
        )
        .await?)
    };
    stage.iam.take_calls();
    assert_eq!(sync(&[&first], &[]).await?.upload, None);
    assert_eq!(
        stage.iam.take_calls(),
        ["GET /clusters/providers/cluster-a -> 200"],
        "one read when it is in sync"
    );

    // Somebody else's key stays, and is reported.
    sync(&[&third], &[]).await?;
    let plan = sync(&[&first, &second], &[]).await?;
    assert_eq!(plan.foreign, [third.kid.parse::<KeyId>()?]);
    assert_eq!(stage.uploaded()?, [&first, &second, &third].map(|key| key.kid.clone()));
    let patches = stage.iam.take_calls().into_iter().filter(|call| call.starts_with("PATCH"));
    assert_eq!(
        patches.collect::<Vec<_>>(),
        ["PATCH /clusters/providers/cluster-a?updateMask=oidc.jwksJson -> 200"; 2]
    );
    sync(&[&first, &second], &[third.kid.parse()?]).await?;
    assert_eq!(stage.uploaded()?, [&first, &second].map(|key| key.kid.clone()));

    // A rival who read before us and wrote after us: what both have is there in the end.
    let alone = Jwks::new([key(&third)?]).context("no key")?.to_json();
    stage.iam.overwrite_keys_once(String::from_utf8(alone)?);
    sync(&[&second], &[first.kid.parse()?]).await?;
    assert_eq!(stage.uploaded()?, [&second, &third].map(|key| key.kid.clone()));

    // The rest of the provider is as it was.
    assert_eq!(stage.provider()?["oidc"]["issuerUri"], ISSUER);
    assert_eq!(stage.provider()?["attributeMapping"], json!({ "google.subject": "assertion.sub" }));
    Ok(())
}

#[tokio::test]
async fn a_sink_that_cannot_or_must_not_be_written_says_why() -> Result<()> {
    let stage = Stage::new().await?;
    let (file, owner) = (KeyFile::p256(&stage.dir, "first")?, "us".parse::<Owner>()?);
    let p256 = key(&file)?;
    let p384 = include_str!("../../../core/tests/data/p384.public.pem");
    let p384 = key_file::read_public_keys(p384).keys.into_iter().next().context("no key")?;
    let sink = stage.sink()?;
    let sync = async |key: &PublicKey| -> Result<UploadError> {
        let jwks = Jwks::new([key.clone()]).context("no key")?;
        let desired = DesiredUpload {
            jwks: &jwks,
            withdrawals: Withdrawals::none(),
            owner: &owner,
            adopt_unmarked: false,
        };
        upload(&sink, desired).await.err().context("it was uploaded")
    };
    let fails = |error: UploadError, kind: StoreErrorKind, words: &str| {
        let text = error.to_string();
        let UploadError::Store(error) = error else { anyhow::bail!("{error}") };
        ensure!(error.kind == kind && text.contains(words), "{kind:?}, {words}: {text}");
        ensure!(text.contains(&sink.describe()), "{text}");
        Ok(())
    };
    fails(sync(&p256).await?, StoreErrorKind::NoSuchContainer, "chancery trust gcp apply")?;
    stage.trust("apply", &[]).await?.success()?;
    fails(sync(&p384).await?, StoreErrorKind::Misconfigured, "P-384")?;
    stage.iam.grant(&["iam.workloadIdentityPoolProviders.get"]);
    fails(sync(&p256).await?, StoreErrorKind::Denied, "iam.workloadIdentityPoolProviders.update")?;
    stage.iam.grant(&PERMISSIONS);

    let made = stage.provider()?;
    stage.iam.change(PROVIDER, |provider| provider["state"] = json!("DELETED"));
    fails(sync(&p256).await?, StoreErrorKind::NoSuchContainer, "undelete")?;
    stage.iam.change(PROVIDER, |provider| {
        *provider = made.clone();
        provider["description"] = json!("Kept by Chancery. chancery-owner=them");
    });
    let blocked = sync(&p256).await?.to_string();
    ensure!(blocked.contains("belongs to them"), "{blocked}");
    // Without a mark, the configuration that names it is the permission.
    stage.iam.change(PROVIDER, |provider| provider["description"] = json!("by hand"));
    let jwks = Jwks::new([p256]).context("no key")?;
    upload(
        &sink,
        DesiredUpload { jwks: &jwks, withdrawals: Withdrawals::none(), owner: &owner, adopt_unmarked: false },
    )
    .await?;
    assert_eq!(stage.uploaded()?, [file.kid.as_str()]);
    Ok(())
}
