//! Rotations under load: nothing is refused, whoever is frozen or killed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use chancery_core::ring::KeyState;
use e2e::token_verifier::TokenVerifier;
use e2e::{binary, wait};
use rustix::process::Signal;
use tokio::sync::RwLock;

use crate::load::{AUDIENCE, Load, Rate};
use crate::stage::Stage;

const SERVERS: [&str; 3] = ["etcd", "kube-apiserver", "go-oidc"];
/// Says how many rotations there are in all.
const ROTATIONS: &str = "CHANCERY_ROTATIONS";
/// One in peace, one around a frozen signer, one around a killed one.
const FEWEST: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_rotated_under_load_and_no_live_token_is_refused() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let _alone = crate::STAGE.lock().await;
    let rotations = std::env::var(ROTATIONS).ok().and_then(|text| text.parse().ok()).unwrap_or(FEWEST);
    let started = Instant::now();
    let mut stage = Stage::start().await?;
    say(&format!("everybody runs after {:.0?}", started.elapsed()));
    let ca = stage.site.authority().path();
    let relying_party = TokenVerifier::start("go-oidc", &stage.issuer_url(), AUDIENCE, ca).await?;
    let servers = std::mem::take(&mut stage.servers).into_iter().map(RwLock::new).collect::<Vec<_>>();
    let load = Load::begin(Arc::new(servers), relying_party, Rate::FAST);
    let begun = Instant::now();

    for number in 1..=rotations.max(FEWEST) - 2 {
        stage.standby(3).await?;
        stage.rotate().await?;
        say(&format!("rotation {number} done after {:.0?}", started.elapsed()));
    }
    let signed = load.counts.signed.load(Ordering::Relaxed);
    let rate = f64::from(u32::try_from(signed)?) / begun.elapsed().as_secs_f64();
    say(&format!("{signed} tokens so far, {rate:.0} a second"));
    frozen(&mut stage, &load).await?;
    say(&format!("a rotation around a frozen signer done after {:.0?}", started.elapsed()));
    killed(&mut stage, &load).await?;
    say(&format!("a rotation around a killed signer done after {:.0?}", started.elapsed()));

    let (counts, tokens) = load.end().await;
    let (signed, verified) = (counts.signed.load(Ordering::Relaxed), counts.verified.load(Ordering::Relaxed));
    let refused = counts.refused();
    say(&format!(
        "{} rotations: {signed} tokens of {} keys, {verified} times verified, {} refused, after {:.0?}",
        rotations.max(FEWEST),
        counts.keys(),
        refused.len(),
        started.elapsed(),
    ));
    ensure!(
        refused.is_empty(),
        "{} refused: {:#?}\n{}",
        refused.len(),
        &refused[..refused.len().min(5)],
        stage.logs()
    );
    ensure!(
        signed > 100 && tokens.len() > 100 && verified == (signed + tokens.len()) * 4,
        "{signed} signed, {} live, {verified} verified",
        tokens.len()
    );
    revoked(&stage).await
}

/// A signer that does not answer has not loaded the next standby: that one waits, and the signer is named.
async fn frozen(stage: &mut Stage, load: &Load) -> Result<()> {
    stage.standby(3).await?;
    load.rest(2, true).await;
    stage.freeze(2).await?;
    let ring = stage.ring().await?;
    let standby = ring.in_state(KeyState::Published).next().context("no standby")?.kid().clone();
    stage.ring_command("taint", &[standby.as_str()]).await?.success()?;
    stage.ring_is("another standby", |ring| ring.key(&standby).is_none()).await?;
    stage.standby(2).await?;
    let before = stage.ring().await?.position().epoch;
    stage.ring_command("rotate", &[]).await?.success()?;
    stage.says(&["SignerNotLoaded", "signer c"]).await?;
    // Whoever looks again comes to the same.
    for _ in 0..3 {
        let plan = stage.ring_command("plan", &[]).await?.stdout;
        ensure!(plan.contains("SignerNotLoaded: signer c"), "{plan}");
        let epoch = stage.ring().await?.position().epoch;
        ensure!(epoch == before, "a key signs that one kube-apiserver does not know");
    }
    stage.signers[2].process().signal(Signal::CONT)?;
    stage.ring_is("an activation", |ring| ring.position().epoch > before).await?;
    load.rest(2, false).await;
    stage.everybody_follows().await
}

/// A signer that is gone may have signed until it is heard again: the key before stays, and the signer is named.
async fn killed(stage: &mut Stage, load: &Load) -> Result<()> {
    stage.standby(3).await?;
    load.rest(2, true).await;
    stage.signers[2].kill()?;
    stage.rotate().await?;
    stage.says(&["SignerNotStopped", "signer c"]).await?;
    stage.signers[2] = stage.signer(2).await?;
    stage.everybody_follows().await?;
    load.rest(2, false).await;
    let ring = stage.ring().await?;
    let stopped = |key| ring.signing_still(key).is_empty();
    ensure!(ring.in_state(KeyState::Retiring).all(stopped), "it caught up");
    load.goes_on(2).await
}

/// The key that signs is revoked: another one signs first, and then it is gone within a period.
async fn revoked(stage: &Stage) -> Result<()> {
    stage.standby(3).await?;
    let kid = stage.ring().await?.active().context("nobody signs")?.kid().to_string();
    let unasked = stage.ring_command("revoke", &[&kid]).await?;
    ensure!(unasked.code == Some(1) && unasked.stdout.contains("Who goes on accepting it"), "{unasked:?}");
    let asked = Instant::now();
    stage.ring_command("revoke", &[&kid, "--yes"]).await?.success()?;
    stage
        .ring_is("a revoked key", |ring| ring.tombstones().iter().any(|over| over.kid.as_str() == kid))
        .await?;
    let over = Instant::now();
    let issuer = stage.issuer_url();
    wait::until("a JWKS without it", async || Ok(!stage.site.kids(&issuer).await?.contains(&kid))).await?;
    say(&format!(
        "revoked {:.1?} after it was asked, gone from the JWKS {:.1?} later",
        over - asked,
        over.elapsed()
    ));
    Ok(())
}

/// Where the test runner does not capture it.
fn say(what: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "rotation: {what}");
}
