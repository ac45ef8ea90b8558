//! Rotations while somebody who can write to the bucket plants keys, brings back every earlier edition, forges markers and
//! removes what is there: no live token is refused, and what was planted or revoked is gone within a period.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::minio::Minio;
use e2e::site::bucket_target;
use e2e::token::TokenSigner;
use e2e::token_verifier::TokenVerifier;
use e2e::{binary, wait};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::load::{AUDIENCE, Load, Rate};
use crate::stage::{Conduct, Stage};

const SERVERS: [&str; 4] = ["etcd", "kube-apiserver", "go-oidc", "minio"];
const BUCKET: &str = "documents";
const JWKS: &str = "openid/v1/jwks";
/// Longer than a key has to be seen without a gap before it signs: each intrusion is one.
const PAUSE: Duration = Duration::from_secs(6);
/// One of each kind.
const FEWEST: usize = 4;

/// An object as it was once written.
type Edition = (Vec<u8>, HashMap<String, String>);

/// Somebody with the bucket's credentials.
struct Intruder {
    minio: Arc<Minio>,
    issuer_url: String,
    client: reqwest::Client,
    planted: TokenSigner,
    editions: Vec<Edition>,
    intrusions: usize,
}

impl Intruder {
    fn new(stage: &Stage, minio: Arc<Minio>) -> Result<Self> {
        let (issuer_url, client) = (stage.issuer_url(), stage.site.client().clone());
        let planted = TokenSigner::generate()?;
        Ok(Self { minio, issuer_url, client, planted, editions: Vec::new(), intrusions: 0 })
    }

    async fn kids(&self, base: &str) -> Result<Vec<String>> {
        let jwks: Value = self.client.get(format!("{base}/{JWKS}")).send().await?.json().await?;
        let keys = jwks["keys"].as_array().context("no keys")?;
        let mut kids: Vec<String> =
            keys.iter().filter_map(|key| key["kid"].as_str().map(str::to_owned)).collect();
        kids.sort();
        Ok(kids)
    }

    /// Waits until the bucket shows what the issuer serves, which is what the ring has decided.
    async fn is_repaired(&self, what: &str) -> Result<()> {
        let bucket = format!("{}/{BUCKET}", self.minio.endpoint());
        wait::until(&format!("a repair of {what}"), async || {
            let (shown, served) = (self.kids(&bucket).await?, self.kids(&self.issuer_url).await?);
            ensure!(!served.iter().any(|kid| kid == self.planted.kid()), "a planted key is served");
            Ok(shown == served)
        })
        .await
    }

    async fn put(&self, (bytes, metadata): Edition) -> Result<()> {
        self.minio.replace_object((BUCKET, JWKS), bytes, |now| *now = metadata).await
    }

    /// Remembers the edition that is there, if it is a new one.
    async fn looks(&mut self) -> Result<Edition> {
        let now = self.minio.object_with_metadata(BUCKET, JWKS).await?;
        if self.editions.last() != Some(&now) {
            self.editions.push(now.clone());
        }
        Ok(now)
    }

    /// One thing after the other, and each is undone.
    async fn intrudes(&mut self) -> Result<()> {
        let (bytes, metadata) = self.looks().await?;
        let what = match self.intrusions % 4 {
            0 => {
                let mut jwks: Value = serde_json::from_slice(&bytes)?;
                let key = self.planted.jwks()["keys"][0].clone();
                jwks["keys"].as_array_mut().context("no keys")?.push(key);
                self.put((jwks.to_string().into_bytes(), metadata)).await?;
                "a planted key"
            }
            1 => {
                let mut forged = metadata;
                let every = self.kids(&self.issuer_url).await?;
                let withdrawn: Vec<String> = every.iter().map(|kid| format!("R{}", &kid[..16])).collect();
                forged.insert("chancery-withdrawn".to_owned(), withdrawn.join(","));
                forged.insert("chancery-decision".to_owned(), u64::MAX.to_string());
                self.put((bytes, forged)).await?;
                "a forged marker"
            }
            2 => {
                self.minio.delete_object(BUCKET, JWKS).await?;
                "an object that is gone"
            }
            _ => return self.brings_everything_back().await,
        };
        self.intrusions += 1;
        self.is_repaired(what).await
    }

    async fn brings_everything_back(&mut self) -> Result<()> {
        self.looks().await?;
        for edition in self.editions.clone() {
            self.put(edition).await?;
            self.is_repaired("an earlier edition").await?;
        }
        self.intrusions += 1;
        Ok(())
    }

    async fn goes_on_until(mut self, over: &AtomicBool) -> Result<Self> {
        while !over.load(Ordering::SeqCst) || self.intrusions < FEWEST {
            self.intrudes().await?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(self)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intruder_in_the_bucket_has_no_live_token_refused_and_no_key_accepted() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let _alone = crate::STAGE.lock().await;
    let minio = Arc::new(Minio::start().await?);
    minio.create_public_bucket(BUCKET).await?;
    let conduct = Conduct { rotate: true, refresh_hints: ["5s"; 3] };
    let mut stage = Stage::publishing(conduct, |site| {
        let mut target = bucket_target(&minio, minio.endpoint(), BUCKET);
        // It speaks no TLS: what it holds is known from those who write there.
        target.as_object_mut().context("no target")?.remove("publicUrl");
        let targets = json!([target]);
        *site.config.pointer_mut("/issuers/0/targets").context("no targets")? = targets;
        site.use_credentials_of(&minio);
        Ok(())
    })
    .await?;
    let ca = stage.site.authority().path();
    let relying_party = TokenVerifier::start("go-oidc", &stage.issuer_url(), AUDIENCE, ca).await?;
    let servers = std::mem::take(&mut stage.servers).into_iter().map(RwLock::new).collect::<Vec<_>>();
    let load = Load::begin(Arc::new(servers), relying_party, Rate::FAST);
    let intruder = Intruder::new(&stage, minio.clone())?;
    intruder.is_repaired("nothing").await?;

    let over = AtomicBool::new(false);
    let rotations = async {
        for _ in 0..3 {
            stage.standby(3).await?;
            stage.rotate().await?;
        }
        stage.everybody_follows().await?;
        over.store(true, Ordering::SeqCst);
        anyhow::Ok(())
    };
    let ended = tokio::try_join!(intruder.goes_on_until(&over), rotations);
    let (mut intruder, ()) = ended.with_context(|| stage.logs())?;
    let (counts, _) = load.end().await;
    let (signed, verified) = (counts.signed.load(Ordering::Relaxed), counts.verified.load(Ordering::Relaxed));
    let refused = counts.refused();
    println!(
        "3 rotations, {} intrusions, {} editions: {signed} tokens, {verified} times verified, {} refused",
        intruder.intrusions,
        intruder.editions.len(),
        refused.len()
    );
    ensure!(refused.is_empty(), "{:#?}\n{}", &refused[..refused.len().min(5)], stage.logs());
    ensure!(signed > 100, "{signed} signed");

    stage.standby(3).await?;
    let kid = stage.ring().await?.active().context("nobody signs")?.kid().to_string();
    stage.ring_command("revoke", &[&kid, "--yes"]).await?.success()?;
    let issuer = stage.issuer_url();
    wait::until("a JWKS without it", async || Ok(!stage.site.kids(&issuer).await?.contains(&kid))).await?;
    intruder.is_repaired("what was revoked").await?;
    intruder.brings_everything_back().await.with_context(|| stage.logs())?;
    ensure!(!intruder.kids(&issuer).await?.contains(&kid), "a revoked key came back");
    Ok(())
}
