//! Why an anonymous reader cannot read from Azurite, as far as it has the controls that Azure has.

use std::time::Duration;

use anyhow::Result;
use chancery_core::Marker;
use chancery_core::publication::Precondition;
use chancery_publisher::TargetConfig;
use chancery_publisher::doctor::azure_blob::{AzureBlobFacts, anonymous, explain, held};
use chancery_publisher::store::Put;
use chancery_publisher::target::AzureBlobTarget;
use e2e::azurite::Azurite;
use e2e::scratch::Scratch;
use e2e::{binary, ports};

const JWKS: &str = "openid/v1/jwks";

#[tokio::test]
async fn what_stops_an_anonymous_reader_is_told_from_what_is_not_there() -> Result<()> {
    if binary::skipped(&["azurite"]) {
        return Ok(());
    }
    let (azurite, dir) = (Azurite::start().await?, Scratch::new("doctor-azure")?);
    azurite.create_container("private").await?;
    azurite.create_public_container("public").await?;
    azurite.create_public_container("empty").await?;
    let closed = format!("http://{}", ports::free_address()?);
    for (container, written, url, rules) in [
        ("public", true, None, vec![]),
        ("private", true, None, vec!["azure-container-private"]),
        ("empty", false, None, vec!["azure-blob-missing"]),
        ("missing", false, None, vec!["azure-container-missing"]),
        ("public", false, Some(azurite.blob_url("public", "elsewhere")), vec!["azure-wrong-place"]),
        ("public", false, Some(closed), vec!["azure-unreachable"]),
    ] {
        let target = AzureBlobTarget {
            endpoint: Some(azurite.endpoint().to_owned()),
            sas_file: Some(dir.write(container, azurite.sas(container, "rcw"))?),
            ..AzureBlobTarget::of_container(container)
        };
        let store = chancery_publisher::open_target(&TargetConfig {
            azure_blob: Some(target),
            ..TargetConfig::default()
        })
        .await?;
        if written {
            let marker = Marker::of("us".parse()?);
            let put = Put {
                path: JWKS,
                bytes: b"{}",
                media_type: "application/json",
                cache_control: "no-store",
                marker: &marker,
                precondition: &Precondition::Absent,
            };
            store.write(put).await?;
        }
        let url = url.unwrap_or_else(|| azurite.blob_url(container, JWKS));
        let facts = AzureBlobFacts {
            anonymous: anonymous(&url, Duration::from_secs(10)).await,
            held: Some(held(store.as_ref(), JWKS).await),
            settings: None,
            url,
        };
        let found: Vec<_> = explain(&facts).into_iter().map(|finding| finding.rule).collect();
        assert_eq!(found, rules, "{facts:?}");
    }
    Ok(())
}
