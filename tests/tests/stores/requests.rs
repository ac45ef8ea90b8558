//! What keeping a target up to date costs on the wire: at most two reads and two writes for a change, and two
//! reads of headers alone when there is none.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use chancery_core::publication::{Desired, WriterMemory};
use chancery_core::{CachePolicy, DocumentSet, IssuerUrl, Jwks, Owner, PublicKey, Withdrawals};
use chancery_publisher::TargetConfig;
use chancery_publisher::publish::{LastSeen, publish_again};
use chancery_publisher::target::S3Target;
use e2e::fault_proxy::FaultProxy;
use e2e::key_file::KeyFile;
use e2e::request_log::Record;
use e2e::s3_server::Brand;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::{binary, wait};
use hyper::Method;
use serde_json::json;

/// How often an unchanged target is looked at.
const ROUNDS: usize = 10;

/// How often each method was used with each answer.
fn counts(records: &[Record]) -> BTreeMap<(&str, u16), usize> {
    let mut counts = BTreeMap::new();
    for record in records {
        *counts.entry((record.method.as_str(), record.status.unwrap_or_default())).or_default() += 1;
    }
    counts
}

/// One round as the service makes it, and what it asked.
async fn a_loop_keeps_to_its_budget_on(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("wire")?);
    server.create_bucket("documents").await?;
    let proxy = FaultProxy::start(server.endpoint()).await?;
    let target = S3Target {
        endpoint: Some(proxy.url().to_owned()),
        region: Some(server.region().to_owned()),
        path_style: true,
        credentials_file: Some(server.credentials_file(&dir)?),
        ..S3Target::of_bucket("documents")
    };
    let store =
        chancery_publisher::open_target(&TargetConfig { s3: Some(target), ..TargetConfig::default() })
            .await?;
    let (issuer, owner): (IssuerUrl, Owner) = ("https://id.example.com".parse()?, "us".parse()?);
    let mut seen = LastSeen::default();
    let mut keys = vec![KeyFile::p256(&dir, "first")?.public_key()?];
    let mut asked = async |keys: &[PublicKey]| -> Result<Vec<Record>> {
        proxy.forget();
        let jwks = Jwks::new(keys.iter().cloned()).context("no key")?;
        let documents = DocumentSet::new(issuer.clone(), jwks, CachePolicy::of_seconds(600));
        let desired = Desired {
            documents: &documents,
            withdrawals: Withdrawals::none(),
            owner: &owner,
            memory: WriterMemory::NONE,
            adopt_unmarked: false,
        };
        publish_again(store.as_ref(), desired, &mut seen).await?;
        Ok(proxy.records())
    };

    let first = asked(&keys).await?;
    assert_eq!(counts(&first), BTreeMap::from([(("GET", 404), 2), (("PUT", 200), 2)]), "{first:?}");
    assert!(first.iter().filter(|record| record.method == Method::PUT).all(Record::is_conditional));
    keys.push(KeyFile::p256(&dir, "second")?.public_key()?);
    let change = asked(&keys).await?;
    // The discovery document names the algorithms, which are the same.
    assert_eq!(counts(&change), BTreeMap::from([(("HEAD", 200), 2), (("PUT", 200), 1)]), "{change:?}");
    assert!(change.iter().filter(|record| record.method == Method::PUT).all(Record::is_conditional));
    for round in 0..ROUNDS {
        let nothing = asked(&keys).await?;
        assert_eq!(counts(&nothing), BTreeMap::from([(("HEAD", 200), 2)]), "round {round}: {nothing:?}");
    }
    println!("{}: first {first:#?}\nchange {change:#?}", brand.name());
    Ok(())
}

#[tokio::test]
async fn a_loop_keeps_to_its_budget_on_minio() -> Result<()> {
    a_loop_keeps_to_its_budget_on(Brand::Minio).await
}

#[tokio::test]
async fn a_loop_keeps_to_its_budget_on_versitygw() -> Result<()> {
    a_loop_keeps_to_its_budget_on(Brand::Versitygw).await
}

/// The same through the service itself, which looks at the target from outside as well, past the proxy.
async fn the_service_keeps_to_its_budget_on(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, keys) = (brand.start().await?, Scratch::new("keys")?);
    server.create_public_bucket("documents").await?;
    let proxy = FaultProxy::start(server.endpoint()).await?;
    let watched = Scratch::new("watched")?;
    let mut site = Site::new()?;
    let target = bucket_target(&server, proxy.url(), "documents");
    site.add_issuer_of_files("", &[watched.path()], json!([target]))?;
    site.use_credentials_of(&server);
    let (url, bucket) = (site.url(""), format!("{}/documents", server.endpoint()));
    let labels = [("issuer", url.as_str()), ("target", "bucket"), ("result", "written")];
    let first = KeyFile::p256(&keys, "first")?;
    first.put_public_half_into(watched.path())?;
    let service = site.start_ready().await?;
    let second = KeyFile::p256(&keys, "second")?;
    for (publications, kids, reads, writes) in
        [(1.0, &[first.kid.as_str()][..], 2, 2), (2.0, &[first.kid.as_str(), second.kid.as_str()][..], 2, 1)]
    {
        site.shows(&bucket, kids).await?;
        // What is shown is written; the answer to it is counted a moment later.
        let counted =
            async || Ok(site.metric("chancery_publish_total", &labels).await? == Some(publications));
        wait::until("the end of the publication", counted).await?;
        let records = proxy.records();
        let of =
            |methods: &[Method]| records.iter().filter(|record| methods.contains(&record.method)).count();
        let counted = (of(&[Method::GET, Method::HEAD]), of(&[Method::PUT]));
        assert_eq!(counted, (reads, writes), "{records:#?}\n{}", service.log());
        proxy.forget();
        second.put_public_half_into(watched.path())?;
    }
    Ok(())
}

#[tokio::test]
async fn the_service_keeps_to_its_budget_on_minio() -> Result<()> {
    the_service_keeps_to_its_budget_on(Brand::Minio).await
}

#[tokio::test]
async fn the_service_keeps_to_its_budget_on_versitygw() -> Result<()> {
    the_service_keeps_to_its_budget_on(Brand::Versitygw).await
}
