//! Publishing to Azurite: by the binary with the least rights, by two writers at once, and through every fault.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use chancery_core::publication::{Desired, WriterMemory};
use chancery_core::{CachePolicy, DocumentSet, Jwks, Owner, Withdrawals, key_file};
use chancery_publisher::publish;
use chancery_publisher::publish::{LastSeen, publish_again};
use chancery_publisher::target::AzureBlobTarget;
use e2e::authority::Authority;
use e2e::azurite::Azurite;
use e2e::chancery::{Output, run_command};
use e2e::entra::{AUDIENCE, Credential, Entra, Kind, TENANT};
use e2e::fault_proxy::{Fault, Moment, On};
use e2e::key_file::KeyFile;
use e2e::request_log::Record;
use e2e::scratch::Scratch;
use e2e::token::TokenSigner;
use e2e::{binary, http};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{JWKS, READ, Stage, WRITE, open, skipped};

const ISSUER: &str = "https://id.example.com/clusters/a";
const DISCOVERY: &str = ".well-known/openid-configuration";

/// What a publisher with one key wants.
struct Publisher {
    documents: DocumentSet,
    owner: Owner,
    kid: String,
}

impl Publisher {
    fn with_key(dir: &Scratch, name: &str) -> Result<Self> {
        let key = KeyFile::p256(dir, name)?;
        let jwks = Jwks::new(key_file::read_public_keys(&key.public_pem()?).keys).context("no key")?;
        let issuer = ISSUER.parse()?;
        let owner = Owner::of_issuer(&issuer);
        let documents = DocumentSet::new(issuer, jwks, CachePolicy::of_seconds(600));
        Ok(Self { documents, owner, kid: key.kid })
    }

    fn desired(&self) -> Desired<'_> {
        Desired {
            documents: &self.documents,
            withdrawals: Withdrawals::none(),
            owner: &self.owner,
            memory: WriterMemory::NONE,
            adopt_unmarked: false,
        }
    }
}

/// Runs `chancery publish` for one key, with nothing of Azure in its environment but `variables`.
async fn chancery(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Output> {
    let mut command = Command::new(binary::chancery()?);
    for name in ["AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_STORAGE_SAS_TOKEN"] {
        command.env_remove(name);
    }
    command.args(["publish"]).args(arguments).envs(variables.iter().copied());
    run_command(command).await
}

/// The permissions that Azure checks for what was asked: Get Blob and Put Blob, and nothing else is expected
/// (<https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#permissions-for-blob-service-operations>).
fn permissions(records: &[Record], stage: &Stage) -> Result<BTreeSet<String>> {
    let documents = [stage.path(JWKS), stage.path(DISCOVERY)];
    let of = |record: &Record| -> Result<String> {
        ensure!(documents.contains(&record.path), "{record:?} is none of {documents:?}");
        match record.method {
            Method::GET => Ok(READ.to_owned()),
            Method::PUT => Ok(WRITE.to_owned()),
            _ => anyhow::bail!("{record:?} needs another permission"),
        }
    };
    records.iter().map(of).collect()
}

/// The data actions of the role that docs/targets/azure-blob.md tells to make.
fn documented_actions() -> Result<BTreeSet<String>> {
    let page = include_str!("../../../../docs/targets/azure-blob.md");
    let json = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    let role: Value = serde_json::from_str(json.context("no role in the page")?)?;
    let actions = |kind| role.get(kind).and_then(Value::as_array).context("no actions in the role");
    assert!(actions("Actions")?.is_empty(), "nothing of the account itself is needed");
    Ok(actions("DataActions")?.iter().filter_map(|action| action.as_str().map(str::to_owned)).collect())
}

#[tokio::test]
async fn the_binary_publishes_with_the_documented_rights_and_anyone_reads() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new_public("published").await?;
    let proxy = stage.proxy().await?;
    let key = KeyFile::p256(&stage.dir, "sa")?;
    let endpoint = format!("{}/{}", proxy.url(), stage.azurite.account());
    let public = key.public.display().to_string();
    let sas = stage.azurite.sas("published", "rcw");
    let arguments = |command| {
        [
            command,
            "--issuer",
            ISSUER,
            "--key",
            &public,
            "--azure-container",
            "published",
            "--azure-endpoint",
            &endpoint,
            "--azure-prefix",
            "clusters/a",
        ]
    };
    let variables = [("AZURE_STORAGE_SAS_TOKEN", sas.as_str()), ("CHANCERY_LOG", "trace")];
    let applied = chancery(&arguments("apply"), &variables).await?;
    let log = applied.stderr.clone();
    ensure!(applied.success()?.contains("wrote openid/v1/jwks and .well-known"), "{log}");
    let signature = sas.split("sig=").nth(1).context("a SAS without signature")?;
    ensure!(!log.contains(signature), "the log holds the signature:\n{log}");
    let asked: Vec<_> = proxy.records().into_iter().map(|record| (record.method, record.status)).collect();
    let reads = |status| (Method::GET, Some(status));
    let wrote = (Method::PUT, Some(201));
    assert_eq!(asked, [reads(404), reads(404), wrote.clone(), wrote], "two reads and two writes");
    assert_eq!(permissions(&proxy.records(), &stage)?, documented_actions()?);
    // Nothing is left to do, which two readings show.
    let before = proxy.records().len();
    assert_eq!(chancery(&arguments("plan"), &variables).await?.code, Some(0));
    let again: Vec<_> = proxy.records().split_off(before).into_iter().map(|r| (r.method, r.status)).collect();
    assert_eq!(again, [reads(206), reads(206)]);

    let anonymous = http::client(None)?;
    for (document, media_type) in [(JWKS, "application/jwk-set+json"), (DISCOVERY, "application/json")] {
        let url = stage.azurite.blob_url("published", &format!("clusters/a/{document}"));
        let answer = anonymous.get(url).send().await?;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], media_type);
        assert_eq!(answer.headers()["cache-control"], "public, max-age=600");
        assert!(answer.headers().contains_key("x-ms-meta-chancery_owner"));
    }
    assert_eq!(stage.kids().await?, BTreeSet::from([key.kid]));
    Ok(())
}

#[tokio::test]
async fn what_is_up_to_date_costs_two_conditional_reads_in_the_static_website_too() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new("$web").await?;
    let proxy = stage.proxy().await?;
    let publisher = Publisher::with_key(&stage.dir, "sa")?;
    let store = open(stage.behind(&proxy)?).await?;
    let mut seen = LastSeen::default();
    let first = publish_again(store.as_ref(), publisher.desired(), &mut seen).await?;
    assert_eq!(first.written.len(), 2);
    let before = proxy.records().len();
    let second = publish_again(store.as_ref(), publisher.desired(), &mut seen).await?;
    assert!(second.written.is_empty());
    let asked: Vec<_> = proxy.records().split_off(before).into_iter().map(|r| (r.method, r.status)).collect();
    assert_eq!(asked, [(Method::GET, Some(304)), (Method::GET, Some(304))]);
    assert_eq!(stage.kids().await?, BTreeSet::from([publisher.kid]));
    Ok(())
}

#[tokio::test]
async fn two_writers_in_every_order_lose_no_key() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new("writers").await?;
    let mut expected = BTreeSet::new();
    // The slower one creates, then replaces; its write waits before or after Azurite has seen it.
    for (round, moment) in
        [Moment::BeforeForwarding, Moment::AfterForwarding, Moment::BeforeForwarding].into_iter().enumerate()
    {
        let proxy = stage.proxy().await?;
        let slow = Publisher::with_key(&stage.dir, &format!("slow-{round}"))?;
        let fast = Publisher::with_key(&stage.dir, &format!("fast-{round}"))?;
        expected.extend([slow.kid.clone(), fast.kid.clone()]);
        let target = AzureBlobTarget { timeout_seconds: 30, ..stage.behind(&proxy)? };
        let (held, direct) = (open(target).await?, open(stage.target("rcw")?).await?);
        let hold = proxy.hold(On::put(JWKS), moment);
        let waiting = tokio::spawn(async move { publish(held.as_ref(), slow.desired()).await });
        hold.reached().await?;
        publish(direct.as_ref(), fast.desired()).await?;
        hold.release();
        waiting.await??;
        assert_eq!(stage.kids().await?, expected, "{moment:?} in round {round}");
    }
    Ok(())
}

#[tokio::test]
async fn every_fault_leaves_the_union_of_all_keys() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new("faults").await?;
    let mut expected = BTreeSet::new();
    let unavailable = Fault::Answer(StatusCode::SERVICE_UNAVAILABLE);
    for (name, faults) in [
        ("none", vec![]),
        ("refused-writes", vec![(On::put("").times(3), unavailable.clone())]),
        ("refused-reads", vec![(On::get("").times(3), unavailable)]),
        (
            "patience",
            vec![(On::put(JWKS), Fault::TooManyRequests(1)), (On::get(JWKS), Fault::TooManyRequests(1))],
        ),
        ("reset", vec![(On::get("").times(2), Fault::HangUp), (On::put("").times(3), Fault::HangUp)]),
        ("lost-answers", vec![(On::put(JWKS), Fault::LoseAnswer), (On::put(DISCOVERY), Fault::LoseAnswer)]),
        ("lost-twice", vec![(On::put(JWKS).times(2), Fault::LoseAnswer)]),
        ("stalls", vec![(On::put(JWKS), Fault::Stall), (On::get(JWKS), Fault::Stall)]),
        ("late-answers", vec![(On::put(JWKS), Fault::StallAnswer)]),
    ] {
        let proxy = stage.proxy().await?;
        faults.into_iter().for_each(|(on, fault)| proxy.fail(on, fault));
        let publisher = Publisher::with_key(&stage.dir, name)?;
        let store = open(stage.behind(&proxy)?).await?;
        publish(store.as_ref(), publisher.desired()).await.with_context(|| name.to_owned())?;
        expected.insert(publisher.kid);
        assert_eq!(stage.kids().await?, expected, "after {name}: {:?}", proxy.records());
    }
    Ok(())
}

#[tokio::test]
async fn a_workload_identity_publishes_over_tls() -> Result<()> {
    const CLIENT: &str = "11111111-1111-1111-1111-111111111111";
    if skipped() {
        return Ok(());
    }
    let dir = Scratch::new("workload-identity")?;
    let authority = Authority::new(dir.path())?;
    let azurite = Azurite::start_with_tls(&authority).await?;
    azurite.create_container("documents").await?;
    let entra = Entra::start(&authority).await?;
    let (issuer, subject) = ("https://other.example", "system:serviceaccount:chancery:issuer");
    let signer = TokenSigner::generate()?;
    entra.shows(issuer, signer.jwks());
    entra.add(Kind::Application, CLIENT, &[]);
    let claims = json!({ "iss": issuer, "sub": subject, "aud": [AUDIENCE], "exp": 4_000_000_000_u64 });
    let token = dir.write("token", signer.sign(&claims)?)?;
    let key = KeyFile::p256(&dir, "sa")?;
    let (public, token) = (key.public.display().to_string(), token.display().to_string());
    let authority = authority.path().display().to_string();
    let arguments = [
        "apply",
        "--issuer",
        ISSUER,
        "--key",
        &public,
        "--azure-container",
        "documents",
        "--azure-endpoint",
        azurite.endpoint(),
    ];
    let variables = [
        ("AZURE_CLIENT_ID", CLIENT),
        ("AZURE_TENANT_ID", TENANT),
        ("AZURE_FEDERATED_TOKEN_FILE", &token),
        ("AZURE_AUTHORITY_HOST", entra.url()),
        ("SSL_CERT_FILE", &authority),
    ];
    let refused = chancery(&arguments, &variables).await?;
    assert_eq!(refused.code, Some(1), "nobody trusts it yet");
    for words in ["access was denied", "AADSTS700211", "chancery trust azure"] {
        ensure!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let credential = Credential {
        name: "publisher".to_owned(),
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        audience: AUDIENCE.to_owned(),
        description: None,
    };
    entra.register(CLIENT, credential)?;
    chancery(&arguments, &variables).await?.success()?;
    let jwks: Value = serde_json::from_slice(&azurite.read_blob("documents", JWKS).await?)?;
    assert_eq!(e2e::witness::kids(&jwks), BTreeSet::from([key.kid]));
    let given = entra.records().iter().filter(|record| record.status == 200).count();
    assert_eq!(given, 1, "one token serves every request");
    Ok(())
}
