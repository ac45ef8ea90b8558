//! The stores' battery on Azurite, and its refusals as kinds of ours.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use chancery_core::Marker;
use chancery_core::publication::{Precondition, Version};
use chancery_publisher::conformance::run_expecting;
use chancery_publisher::store::{Put, StoreError};
use chancery_publisher::target::AzureBlobTarget;
use chancery_publisher::{DocumentStore, StoreErrorKind, TargetConfig};
use e2e::azurite::{Azurite, Validity};
use e2e::fault_proxy::FaultProxy;
use e2e::scratch::Scratch;
use e2e::{binary, ports};
use tokio::sync::OnceCell;

mod publishing;

const JWKS: &str = "openid/v1/jwks";
const READ: &str = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read";
const WRITE: &str = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write";

fn skipped() -> bool {
    binary::skipped(&["azurite"])
}

/// One server for all tests; each has a container of its own.
async fn azurite() -> Result<&'static Azurite> {
    static AZURITE: OnceCell<Azurite> = OnceCell::const_new();
    AZURITE.get_or_try_init(Azurite::start).await
}

/// A container, with what is needed to publish there.
struct Stage {
    azurite: &'static Azurite,
    container: String,
    dir: Scratch,
}

impl Stage {
    async fn new(container: &str) -> Result<Self> {
        let stage = Self::of(container).await?;
        stage.azurite.create_container(container).await?;
        Ok(stage)
    }

    async fn new_public(container: &str) -> Result<Self> {
        let stage = Self::of(container).await?;
        stage.azurite.create_public_container(container).await?;
        Ok(stage)
    }

    async fn of(container: &str) -> Result<Self> {
        let azurite = azurite().await?;
        Ok(Self { azurite, container: container.to_owned(), dir: Scratch::new("azure-store")? })
    }

    /// A file with a signature for `rights`.
    fn sas(&self, rights: &str) -> Result<PathBuf> {
        self.dir.write(&format!("sas-{rights}"), self.azurite.sas(&self.container, rights))
    }

    fn target(&self, rights: &str) -> Result<AzureBlobTarget> {
        Ok(AzureBlobTarget {
            endpoint: Some(self.azurite.endpoint().to_owned()),
            prefix: "/clusters/a/".to_owned(),
            sas_file: Some(self.sas(rights)?),
            ..AzureBlobTarget::of_container(&self.container)
        })
    }

    /// The target as it is seen through a proxy, which does not wait long.
    fn behind(&self, proxy: &FaultProxy) -> Result<AzureBlobTarget> {
        let endpoint = format!("{}/{}", proxy.url(), self.azurite.account());
        Ok(AzureBlobTarget { endpoint: Some(endpoint), timeout_seconds: 1, ..self.target("rcw")? })
    }

    async fn proxy(&self) -> Result<FaultProxy> {
        FaultProxy::start(self.azurite.origin()).await
    }

    /// Where a document lies, as a request names it.
    fn path(&self, document: &str) -> String {
        format!("/{}/{}/clusters/a/{document}", self.azurite.account(), self.container)
    }

    async fn kids(&self) -> Result<BTreeSet<String>> {
        let bytes = self.azurite.read_blob(&self.container, &format!("clusters/a/{JWKS}")).await?;
        Ok(e2e::witness::kids(&serde_json::from_slice(&bytes)?))
    }
}

async fn open(target: AzureBlobTarget) -> Result<Arc<dyn DocumentStore>> {
    Ok(chancery_publisher::open_target(&TargetConfig { azure_blob: Some(target), ..TargetConfig::default() })
        .await?)
}

async fn write(store: &dyn DocumentStore, precondition: &Precondition) -> Result<Version, StoreError> {
    #[expect(clippy::unwrap_used, reason = "two letters are a legal owner")]
    let marker = Marker::of("us".parse().unwrap());
    let put = Put {
        path: JWKS,
        bytes: b"{}",
        media_type: "application/json",
        cache_control: "no-store",
        marker: &marker,
        precondition,
    };
    store.write(put).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new("battery").await?;
    let store = open(stage.target("rcw")?).await?;
    assert_eq!(store.describe(), format!("{}/battery/clusters/a", stage.azurite.endpoint()));
    // Where Azurite differs from Azure (see its harness), the battery does not look.
    let passed = run_expecting(store.as_ref(), &[]).await?;
    println!("{}: {} checks passed: {}", store.describe(), passed.len(), passed.join(", "));
    // What the store calls a path lies below the prefix.
    let path = "clusters/a/conformance/a_created_object_reads_back_exactly/object";
    assert_eq!(stage.azurite.read_blob("battery", path).await?, b"{\"keys\":[]}");
    Ok(())
}

#[tokio::test]
async fn a_missing_container_bad_credentials_and_no_server_are_told_apart() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new("refusals").await?;
    let good = stage.target("rcw")?;
    let elsewhere = stage.dir.write("elsewhere", stage.azurite.sas("elsewhere", "rcw"))?;
    let forged = stage.azurite.sas("refusals", "rcw").replace("&sig=", "&sig=hunter2");
    let forged = stage.dir.write("forged", forged)?;
    let expired = stage.azurite.sas_of("refusals", "rcw", Validity::Expired);
    let expired = stage.dir.write("expired", expired)?;
    let closed = format!("http://{}/account", ports::free_address()?);
    for (target, kind, words) in [
        (
            AzureBlobTarget { container: "elsewhere".to_owned(), sas_file: Some(elsewhere), ..good.clone() },
            StoreErrorKind::NoSuchContainer,
            "container",
        ),
        (AzureBlobTarget { sas_file: Some(forged), ..good.clone() }, StoreErrorKind::Denied, "credentials"),
        (AzureBlobTarget { sas_file: Some(expired), ..good.clone() }, StoreErrorKind::Denied, "credentials"),
        (AzureBlobTarget { endpoint: Some(closed), ..good }, StoreErrorKind::Unavailable, "endpoint"),
    ] {
        let store = open(target).await?;
        let read = store.read(JWKS).await.err().context("it was read")?;
        let write = write(store.as_ref(), &Precondition::Absent).await.err().context("it was written")?;
        for error in [read, write] {
            assert_eq!(error.kind, kind, "{error}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(words) && text.contains(&store.describe()), "{text}");
            assert!(!text.contains("sig=") && !text.contains("hunter2"), "{text}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn one_right_less_fails_with_an_error_that_names_it() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = Stage::new("rights").await?;
    let blind = open(stage.target("cw")?).await?;
    let there = write(blind.as_ref(), &Precondition::Absent).await?;
    let read = blind.read(JWKS).await.err().context("it was read without the right to")?;
    let reader = open(stage.target("r")?).await?;
    assert!(reader.read(JWKS).await?.is_some());
    let replace = Precondition::Unchanged(there.clone());
    let create = write(reader.as_ref(), &Precondition::Absent).await.err();
    let replaced = write(reader.as_ref(), &replace).await.err();
    let creator = open(stage.target("rc")?).await?;
    let not_replaced = write(creator.as_ref(), &replace).await.err();
    for (error, right, letter) in [
        (Some(read), READ, "r)"),
        (create, WRITE, "c and w)"),
        (replaced, WRITE, "w)"),
        (not_replaced, WRITE, "w)"),
    ] {
        let error = error.context("a right less, and it worked")?;
        assert_eq!(error.kind, StoreErrorKind::Denied, "{error}");
        let text = error.to_string();
        assert!(text.contains(right) && text.contains(letter), "{text}");
    }
    assert_eq!(open(stage.target("rcw")?).await?.read(JWKS).await?.context("gone")?.version, there);
    Ok(())
}
