//! A signer that follows a ring: rotation without a restart of anybody, and what a ring from a backup may not do.

use anyhow::Result;
use chancery_core::ring::Step;
use e2e::kube_apiserver::KubeApiserver;
use e2e::{binary, token, wait};

use crate::ring_stage::{RingStage, kid};
use crate::stage::{shown, subject, token as api_token};

const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];

async fn signs_with(server: &KubeApiserver, kid: &str) -> Result<()> {
    wait::until(&format!("a token signed with {kid}"), async || {
        Ok(token::kid(&api_token(server).await?)? == kid)
    })
    .await
}

async fn shows(server: &KubeApiserver, kid: &str, expected: bool) -> Result<()> {
    wait::until(&format!("a JWKS with {kid}: {expected}"), async || {
        Ok(shown(server).await?.iter().any(|shown| shown == kid) == expected)
    })
    .await
}

#[tokio::test]
async fn a_rotation_needs_no_restart_and_an_older_ring_brings_no_key_back() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = RingStage::new().await?;
    let (first, second) = (stage.key(true).await?, stage.key(true).await?);
    let (old, new) = (kid(&first), kid(&second));
    stage.begin(first.public_key()).await?;
    let mut signer = stage.signer().await?;
    let server = stage.stage.apiserver().await?;
    signs_with(&server, old.as_str()).await?;
    let of_the_first = api_token(&server).await?;

    stage.take(&[Step::Enter(second.public_key().clone()), Step::Publish(new.clone())]).await?;
    shows(&server, new.as_str(), true).await?;
    let before = stage.ring().await?;
    let after = stage.take(&[Step::Activate(new.clone())]).await?;
    signs_with(&server, new.as_str()).await?;
    assert_eq!(server.token_review(&of_the_first, &[]).await?, Ok(subject()));
    wait::until("the acknowledgement", async || {
        let said = stage.acknowledged().await?;
        Ok(said.position == after.position() && said.loaded.contains(&old) && said.loaded.contains(&new))
    })
    .await?;
    let said = stage.acknowledged().await?;
    assert_eq!(said.signed[&old].api_server_seconds, 3600);

    // VerifyOnly: not shown, and good. Retired: over.
    stage.take(&[Step::KeepForVerifying(old.clone())]).await?;
    shows(&server, old.as_str(), false).await?;
    assert_eq!(server.token_review(&of_the_first, &[]).await?, Ok(subject()));
    stage.take(&[Step::Retire(old.clone())]).await?;
    wait::until("a token of a retired key refused", async || {
        Ok(server.token_review(&of_the_first, &[]).await?.is_err())
    })
    .await?;

    // Somebody restores the ring of before, in which the first key signs.
    stage.write(&before).await?;
    wait::until("the complaint about it", async || {
        Ok(signer.log().contains("somebody has restored an older ring"))
    })
    .await?;
    assert_eq!(token::kid(&api_token(&server).await?)?, new.as_str());
    signer.kill()?;
    let mut signer = stage.signer().await?;
    signs_with(&server, new.as_str()).await?;
    shows(&server, old.as_str(), false).await?;
    assert!(server.token_review(&of_the_first, &[]).await?.is_err());

    assert_eq!(signer.terminate().await?, Some(0));
    Ok(())
}

#[tokio::test]
async fn a_key_whose_private_half_is_missing_is_verified_with_and_waited_for() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = RingStage::new().await?;
    let (first, second) = (stage.key(true).await?, stage.key(false).await?);
    stage.begin(first.public_key()).await?;
    let signer = stage.signer().await?;
    let server = stage.stage.apiserver().await?;
    signs_with(&server, kid(&first).as_str()).await?;
    let before = stage.acknowledged().await?.position;
    let steps =
        [Step::Enter(second.public_key().clone()), Step::Publish(kid(&second)), Step::Activate(kid(&second))];
    let after = stage.take(&steps).await?;
    shows(&server, kid(&second).as_str(), true).await?;
    assert_eq!(token::kid(&api_token(&server).await?)?, kid(&first).as_str());
    assert_eq!(stage.acknowledged().await?.position, before);
    assert!(signer.log().contains("has no private half of"), "{}", signer.log());

    chancery_signer::vault::KeyVault::store(&stage.vault, second.clone()).await?;
    signs_with(&server, kid(&second).as_str()).await?;
    wait::until("the acknowledgement", async || Ok(stage.acknowledged().await?.position == after.position()))
        .await
}

#[tokio::test]
async fn a_signer_that_acknowledged_more_than_it_finds_signs_nothing() -> Result<()> {
    let stage = RingStage::new().await?;
    let (first, second) = (stage.key(true).await?, stage.key(true).await?);
    stage.begin(first.public_key()).await?;
    let before = stage.ring().await?;
    let steps =
        [Step::Enter(second.public_key().clone()), Step::Publish(kid(&second)), Step::Activate(kid(&second))];
    let after = stage.take(&steps).await?;
    let mut signer = stage.signer().await?;
    assert_eq!(stage.acknowledged().await?.position, after.position());
    assert_eq!(signer.terminate().await?, Some(0));

    // The ring is an older one, and so is what this signer has recorded.
    stage.write(&before).await?;
    for entry in std::fs::read_dir(stage.state.path())?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("signer-record") {
            std::fs::remove_file(entry.path())?;
        }
    }
    let custody = stage.custody();
    let ring = stage.ring_arguments();
    let arguments: Vec<&str> = ring.iter().chain(&custody).map(String::as_str).collect();
    let mut signer = e2e::signer::SignerProcess::spawn(&stage.stage.dir, crate::stage::ISSUER, &arguments)?;
    wait::until("the complaint", async || Ok(signer.log().contains("somebody has restored an older ring")))
        .await?;
    assert!(!signer.socket().exists() && signer.process().is_running());

    stage.write(&after).await?;
    wait::until("its socket", async || Ok(signer.socket().exists())).await
}
