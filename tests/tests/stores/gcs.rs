//! A bucket of Google Cloud Storage as a target: the stores' battery on a real server, the rights that suffice, and
//! every fault between us and it.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use chancery_core::jwks::ObservedJwks;
use chancery_core::publication::{Desired, Precondition, WriterMemory};
use chancery_core::{
    CachePolicy, DocumentSet, Jwks, Marker, Owner, PublicKey, WithdrawalCause, Withdrawals, key_file,
};
use chancery_publisher::conformance::{Deviation, run_expecting};
use chancery_publisher::doctor::gcs::{Addresses, explain, probe};
use chancery_publisher::publish::{LastSeen, publish_again};
use chancery_publisher::store::Put;
use chancery_publisher::target::GcsTarget;
use chancery_publisher::{DocumentStore, PublishError, StoreError, StoreErrorKind, TargetConfig, publish};
use e2e::chancery::run_command;
use e2e::fake_gcs::FakeGcs;
use e2e::fault_proxy::{Fault, FaultProxy, On};
use e2e::gcs_gate::{Controls, GcsGate, LEAST_ROLE};
use e2e::google_sts::GoogleSts;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::{binary, ports};
use hyper::StatusCode;

const JWKS: &str = "openid/v1/jwks";
const BUCKET: &str = "documents";
const PREFIX: &str = "clusters/a";
const ISSUER: &str = "https://storage.googleapis.com/documents/clusters/a";
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
const TOKEN: &str = "ya29.an-access-token";

/// Where fake-gcs-server is not the real one. What it leaves out besides (rights, ETags and conditions of reads,
/// metagenerations) no check of the battery sees; [`GcsGate`] adds all of it.
const DEVIATIONS: [Deviation; 2] = [
    Deviation { check: "a_created_object_reads_back_exactly", because: MEDIA_TYPE },
    Deviation { check: "a_good_version_replaces_everything", because: MEDIA_TYPE },
];
const MEDIA_TYPE: &str = "fake-gcs-server takes the media type from the second part of an upload, and guesses it where that has none; the real one takes it from the attributes in the first";

fn skipped() -> bool {
    binary::skipped(&["fake-gcs-server"])
}

async fn server() -> Result<FakeGcs> {
    let server = FakeGcs::start().await?;
    server.create_bucket(BUCKET).await?;
    Ok(server)
}

fn target(endpoint: &str) -> GcsTarget {
    GcsTarget {
        endpoint: Some(endpoint.to_owned()),
        prefix: format!("/{PREFIX}/"),
        anonymous: true,
        ..GcsTarget::of_bucket(BUCKET)
    }
}

/// The same with the credentials that `sts` exchanges.
fn with_credentials(endpoint: &str, sts: &GoogleSts) -> Result<GcsTarget> {
    let credentials_file = Some(sts.credentials_file()?);
    Ok(GcsTarget { anonymous: false, credentials_file, ..target(endpoint) })
}

async fn open(target: GcsTarget) -> Result<Arc<dyn DocumentStore>> {
    Ok(chancery_publisher::open_target(&TargetConfig { gcs: Some(target), ..TargetConfig::default() })
        .await?)
}

/// What is to be published, with whom it belongs to.
struct Wish {
    documents: DocumentSet,
    owner: Owner,
}

impl Wish {
    fn of(keys: &[&KeyFile]) -> Result<Self> {
        let mut found: Vec<PublicKey> = Vec::new();
        for key in keys {
            found.extend(key_file::read_public_keys(&key.public_pem()?).keys);
        }
        let jwks = Jwks::new(found).context("no key")?;
        let documents = DocumentSet::new(ISSUER.parse()?, jwks, CachePolicy::default());
        Ok(Self { documents, owner: "us".parse()? })
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

fn keys(dir: &Scratch) -> Result<[KeyFile; 2]> {
    Ok([KeyFile::p256(dir, "first")?, KeyFile::p256(dir, "second")?])
}

fn kids(keys: &[&KeyFile]) -> BTreeSet<String> {
    keys.iter().map(|key| key.kid.clone()).collect()
}

async fn published(server: &FakeGcs) -> Result<BTreeSet<String>> {
    let bytes = server.read_object(BUCKET, &format!("{PREFIX}/{JWKS}")).await?;
    Ok(ObservedJwks::parse(&bytes)?.keys().map(|key| key.key_id().to_string()).collect())
}

async fn create(store: &dyn DocumentStore) -> Result<Option<StoreError>> {
    let marker = Marker::of("us".parse()?);
    let put = Put {
        path: JWKS,
        bytes: b"{}",
        media_type: "application/json",
        cache_control: "no-store",
        marker: &marker,
        precondition: &Precondition::Absent,
    };
    Ok(store.write(put).await.err())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes_on_the_server_itself_and_behind_the_gate() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (server, sts) = (server().await?, GoogleSts::start(TOKEN, &[SCOPE]).await?);
    let gate = GcsGate::start(&server, BUCKET, "clusters/b/", TOKEN).await?;
    let behind = GcsTarget { prefix: "clusters/b".to_owned(), ..with_credentials(gate.url(), &sts)? };
    for (target, deviations) in [(target(server.endpoint()), DEVIATIONS.as_slice()), (behind, &[])] {
        let store = open(target).await?;
        let passed = run_expecting(store.as_ref(), deviations).await?;
        println!("{}: {} checks passed: {}", store.describe(), passed.len(), passed.join(", "));
    }
    // What the store calls a path lies below the prefix.
    let key = format!("{PREFIX}/conformance/a_created_object_reads_back_exactly/object");
    assert_eq!(server.read_object(BUCKET, &key).await?, b"{\"keys\":[]}");
    assert_eq!(sts.given(), 1, "an access token is kept as long as it lives");
    Ok(())
}

#[tokio::test]
async fn a_missing_bucket_bad_credentials_and_no_server_are_told_apart() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (server, dir) = (server().await?, Scratch::new("gcs-store")?);
    let gate = GcsGate::start(&server, BUCKET, "", TOKEN).await?;
    let other = GoogleSts::start("ya29.of-somebody-else", &[SCOPE]).await?;
    let stale = dir.write("stale", "header.of-another-token.hunter2")?;
    let closed = format!("http://{}", ports::free_address()?);
    let with = |file| GcsTarget { anonymous: false, credentials_file: Some(file), ..target(gate.url()) };
    for (what, target, kind, words) in [
        // The server says "Not Found" of an object and of a bucket alike; writing tells them apart.
        (
            "bucket",
            GcsTarget { bucket: "elsewhere".to_owned(), ..target(server.endpoint()) },
            StoreErrorKind::NoSuchContainer,
            "bucket",
        ),
        ("nobody", target(gate.url()), StoreErrorKind::Denied, "credentials"),
        ("stranger", with(other.credentials_file()?), StoreErrorKind::Denied, "credentials"),
        ("stale token", with(other.credentials_file_of("c", &stale)?), StoreErrorKind::Denied, "credentials"),
        (
            "no token",
            with(other.credentials_file_of("d", &dir.join("none"))?),
            StoreErrorKind::Denied,
            "credentials",
        ),
        ("no server", target(&closed), StoreErrorKind::Unavailable, "endpoint"),
    ] {
        let store = open(target).await?;
        let read = store.read(JWKS).await.err();
        let write = create(store.as_ref()).await?.with_context(|| format!("{what}: it was written"))?;
        ensure!(read.is_some() || what == "bucket", "{what}: it was read");
        for error in read.into_iter().chain([write]) {
            assert_eq!(error.kind, kind, "{what}: {error}");
            let text = error.to_string();
            assert!(text.contains(words) && text.contains(&store.describe()), "{what}: {text}");
            assert!(!text.contains("hunter2") && !text.contains("ya29"), "{what}: {text}");
        }
    }
    Ok(())
}

/// The calls of one publication behind the gate, which must succeed.
async fn calls(
    gate: &GcsGate,
    store: &dyn DocumentStore,
    wish: &Wish,
    seen: &mut LastSeen,
) -> Result<Vec<String>> {
    gate.take_calls();
    publish_again(store, wish.desired(), seen).await?;
    Ok(gate.take_calls())
}

#[tokio::test]
async fn the_documented_role_suffices_and_its_calls_are_the_only_ones() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (server, dir) = (server().await?, Scratch::new("gcs-store")?);
    let sts = GoogleSts::start(TOKEN, &[SCOPE]).await?;
    let gate = GcsGate::start(&server, BUCKET, PREFIX, TOKEN).await?;
    let store = open(with_credentials(gate.url(), &sts)?).await?;
    let [first, second] = keys(&dir)?;
    let (one, both) = (Wish::of(&[&first])?, Wish::of(&[&first, &second])?);
    let mut seen = LastSeen::default();
    let discovery = ".well-known/openid-configuration";
    let line = |what: &str, path: &str, status: u16| format!("{what} {PREFIX}/{path} -> {status}");

    let created = calls(&gate, store.as_ref(), &one, &mut seen).await?;
    // Who may not list is refused where there is nothing.
    let expected = ["create", "get"].map(|what| {
        let status = if what == "get" { 403 } else { 200 };
        [discovery, JWKS].map(|path| line(what, path, status))
    });
    assert_eq!(created, expected.concat());
    let idle = calls(&gate, store.as_ref(), &one, &mut seen).await?;
    let conditional = [discovery, JWKS].map(|path| line("get unless", path, 304));
    assert_eq!(idle, conditional, "two conditional reads when nothing changed");
    let changed = calls(&gate, store.as_ref(), &both, &mut seen).await?;
    let expected = [conditional.to_vec(), vec![line("replace", JWKS, 200)]].concat();
    assert_eq!(changed, expected, "two reads and at most two writes");
    assert_eq!(published(&server).await?, kids(&[&first, &second]));

    let page = include_str!("../../../docs/targets/gcs.md");
    let documented: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("- storage.")).collect();
    assert_eq!(documented, LEAST_ROLE.map(|right| right.trim_start_matches("storage.")));

    // One right less fails, and the error names it.
    for (missing, wish, fails) in [
        ("storage.objects.get", &both, true),
        ("storage.objects.create", &one, false),
        ("storage.objects.delete", &one, false),
    ] {
        let rest: Vec<&'static str> = LEAST_ROLE.into_iter().filter(|right| *right != missing).collect();
        gate.grant(&rest);
        let published = publish(store.as_ref(), wish.desired()).await;
        if !fails {
            // The key that is there stays and needs no write; a withdrawal does.
            published?;
        }
        let withdrawals = Withdrawals::of([second.kid.parse()?], WithdrawalCause::Retired, 1);
        let withdrawal = Desired { withdrawals: &withdrawals, ..one.desired() };
        let error = publish(store.as_ref(), withdrawal).await.err().context("it was published")?;
        let PublishError::Store(error) = error else { anyhow::bail!("{error}") };
        assert_eq!(error.kind, StoreErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(&format!("grant {missing}")), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn the_binary_publishes_with_workload_identity_federation() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (server, dir) = (server().await?, Scratch::new("gcs-store")?);
    let sts = GoogleSts::start(TOKEN, &[SCOPE]).await?;
    let gate = GcsGate::start(&server, BUCKET, PREFIX, TOKEN).await?;
    let [first, _] = keys(&dir)?;
    let run = async |operation: &str| {
        let mut command = Command::new(binary::chancery()?);
        command.env("GOOGLE_APPLICATION_CREDENTIALS", sts.credentials_file()?);
        command.args(["publish", operation, "--issuer", ISSUER, "--gcs-bucket", BUCKET]);
        command.args(["--gcs-prefix", PREFIX, "--gcs-endpoint", gate.url(), "--key"]).arg(&first.public);
        run_command(command).await
    };
    assert_eq!(run("plan").await?.code, Some(3));
    let applied = run("apply").await?.success()?;
    ensure!(applied.contains("wrote openid/v1/jwks and .well-known/openid-configuration"), "{applied}");
    assert_eq!(run("plan").await?.code, Some(0));
    assert_eq!(published(&server).await?, kids(&[&first]));
    assert_eq!(sts.given(), 3, "one for each run");

    // As an anonymous relying party reads it.
    for (path, kind) in
        [(JWKS, "application/jwk-set+json"), (".well-known/openid-configuration", "application/json")]
    {
        let url = server.object_url(BUCKET, &format!("{PREFIX}/{path}"));
        let answer = e2e::http::client(None)?.get(url).send().await?.error_for_status()?;
        assert_eq!(answer.headers()["content-type"], kind);
        assert_eq!(answer.headers()["cache-control"], "public, max-age=600");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_on_the_way_loses_a_key() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let dir = Scratch::new("gcs-store")?;
    let [first, second] = keys(&dir)?;
    let (one, two) = (Wish::of(&[&first])?, Wish::of(&[&second])?);
    let busy = || Fault::Answer(StatusCode::SERVICE_UNAVAILABLE);
    let sts = GoogleSts::start(TOKEN, &[SCOPE]).await?;
    for (name, on, fault) in [
        ("a read cut off", On::get(JWKS), Fault::HangUp),
        ("a read answered with 503", On::get(JWKS).times(2), busy()),
        ("a truncated read", On::get(JWKS), Fault::Truncate),
        ("a write cut off", On::upload(JWKS), Fault::HangUp),
        ("a write answered with 503", On::upload(JWKS).times(2), busy()),
        ("a write answered with 429", On::upload(JWKS), Fault::TooManyRequests(1)),
        ("a write whose answer is lost", On::upload(JWKS), Fault::LoseAnswer),
        ("a write whose answer is truncated", On::upload(JWKS), Fault::Truncate),
        ("a write that is not answered", On::upload(JWKS), Fault::StallAnswer),
    ] {
        let server = server().await?;
        let gate = GcsGate::start(&server, BUCKET, PREFIX, TOKEN).await?;
        let proxy = FaultProxy::start(gate.url()).await?;
        let store = open(GcsTarget { timeout_seconds: 1, ..with_credentials(proxy.url(), &sts)? }).await?;
        publish(store.as_ref(), one.desired()).await?;
        let before = proxy.records().len();
        proxy.fail(on, fault);
        let outcome = publish(store.as_ref(), two.desired()).await.with_context(|| name.to_owned())?;
        assert_eq!(outcome.foreign, [first.kid.parse()?], "{name}");
        assert_eq!(published(&server).await?, kids(&[&first, &second]), "{name}");
        ensure!(proxy.records().len() > before + 3, "{name}: the fault was not met: {:?}", proxy.records());
        // Both documents, and the changed JWKS: each upload took effect once.
        let calls = gate.take_calls();
        let written = calls.iter().filter(|call| !call.starts_with("get") && call.ends_with(" -> 200"));
        assert_eq!(written.count(), 3, "{name}: {calls:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_writers_that_meet_neither_loses_a_key() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (server, dir) = (server().await?, Scratch::new("gcs-store")?);
    let [first, second] = keys(&dir)?;
    let (one, two) = (Wish::of(&[&first])?, Wish::of(&[&second])?);
    let proxy = FaultProxy::start(server.endpoint()).await?;
    let held = proxy.hold(On::upload(JWKS), e2e::fault_proxy::Moment::BeforeForwarding);
    let slow = open(target(proxy.url())).await?;
    let slow = tokio::spawn(async move { publish(slow.as_ref(), one.desired()).await });
    held.reached().await?;
    let fast = open(target(server.endpoint())).await?;
    publish(fast.as_ref(), two.desired()).await?;
    held.release();
    slow.await??;
    assert_eq!(published(&server).await?, kids(&[&first, &second]));
    let lost = |record: &e2e::request_log::Record| record.status == Some(412);
    ensure!(proxy.records().iter().any(lost), "nobody lost a race: {:?}", proxy.records());
    Ok(())
}

#[tokio::test]
async fn the_doctor_names_the_control_that_keeps_readers_out() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (server, dir) = (server().await?, Scratch::new("gcs-store")?);
    let sts = GoogleSts::start(TOKEN, &[SCOPE, "https://www.googleapis.com/auth/cloud-platform"]).await?;
    let gate = GcsGate::start(&server, BUCKET, PREFIX, TOKEN).await?;
    let target = with_credentials(gate.url(), &sts)?;
    let addresses = Addresses { organization_policy: gate.url().to_owned(), ..Addresses::of(&target) };
    let rules = async || -> Vec<&'static str> {
        explain(&probe(&target, None, &addresses).await).into_iter().map(|finding| finding.rule).collect()
    };
    let everything =
        [&LEAST_ROLE[..], &["storage.buckets.get", "storage.buckets.getIamPolicy", "orgpolicy.policy.get"]];
    gate.grant(&everything.concat());
    assert_eq!(rules().await, ["gcs-not-published"]);

    let [first, _] = keys(&dir)?;
    publish(open(target.clone()).await?.as_ref(), Wish::of(&[&first])?.desired()).await?;
    let granted = Controls { everybody_may_read: true, ..Controls::default() };
    for (controls, expected) in [
        (granted, &[][..]),
        (Controls::default(), &["gcs-no-public-grant"]),
        (Controls { bucket_prevents: true, ..granted }, &["gcs-bucket-prevents-public-access"]),
        (Controls { organization_prevents: true, ..granted }, &["gcs-organization-prevents-public-access"]),
        (
            Controls { organization_restricts_members: true, ..Controls::default() },
            &["gcs-organization-restricts-members"],
        ),
    ] {
        gate.control(controls);
        assert_eq!(rules().await, expected, "{controls:?}");
    }
    gate.grant(&LEAST_ROLE);
    gate.control(Controls::default());
    assert_eq!(rules().await, ["gcs-private"], "the controls may not be read");
    Ok(())
}
