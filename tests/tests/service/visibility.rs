//! What the service records of an issuer whose host has three addresses: itself, and two edges that are down, lag
//! behind, cache or lie as the test says. Read on its admin port.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::chancery::{self, IssuerService};
use e2e::edge::{Copy, Edge, Manner};
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::{binary, http, ports, wait};
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const JWKS: &str = "/cluster-a/openid/v1/jwks";
const PATHS: [&str; 2] = [JWKS, "/cluster-a/.well-known/openid-configuration"];

/// An issuer that serves itself at 127.0.0.1 and has an edge at 127.0.0.2 and one at 127.0.0.3.
struct Stage {
    keys: Scratch,
    watched: Scratch,
    first: KeyFile,
    site: Site,
    two: Edge,
    three: Edge,
    service: IssuerService,
}

impl Stage {
    async fn new() -> Result<Self> {
        let (keys, watched) = (Scratch::new("keys")?, Scratch::new("watched")?);
        let first = KeyFile::p256(&keys, "first")?;
        first.put_public_half_into(watched.path())?;
        let mut site = Site::named("localhost")?;
        site.add_issuer_of_files(ISSUER, &[watched.path()], json!([]))?;
        let port = site.port();
        let resolve: Vec<String> =
            (1..=3).map(|number| format!("localhost:{port}:127.0.0.{number}")).collect();
        let issuer =
            site.config.pointer_mut("/issuers/0").and_then(Value::as_object_mut).context("no issuer")?;
        issuer.insert("maxAgeSeconds".to_owned(), json!(2));
        let verify = issuer.get_mut("verify").and_then(Value::as_object_mut).context("no verify")?;
        verify.extend([
            ("every".to_owned(), json!("1s")),
            ("resolve".to_owned(), json!(resolve)),
            ("for".to_owned(), json!(["kubernetes"])),
        ]);
        let service = site.start_ready().await?;
        let (two, three) = (edge(&site, 2).await?, edge(&site, 3).await?);
        Ok(Self { keys, watched, first, site, two, three, service })
    }

    fn add_key(&self, name: &str) -> Result<KeyFile> {
        let key = KeyFile::p256(&self.keys, name)?;
        key.put_public_half_into(self.watched.path())?;
        Ok(key)
    }

    /// What the record says of a key that must have been visible for two seconds.
    async fn asked(&self, kid: &str) -> Result<Value> {
        let (status, text) = self.site.admin(&format!("visibility?kid={kid}&for=2s")).await?;
        ensure!(status == 200, "/visibility: {status}: {text}");
        Ok(serde_json::from_str::<Value>(&text)?.pointer("/issuers/0").context("no issuer")?.clone())
    }

    /// Waits until the record says that a key may sign.
    async fn may_sign(&self, kid: &str) -> Result<()> {
        let asked =
            async || Ok(self.asked(kid).await?.pointer("/key/visibleEverywhere") == Some(&json!(true)));
        let waited = wait::until("a key that is visible everywhere for long enough", asked).await;
        waited.with_context(|| self.service.log())
    }

    /// Waits until an obstacle of this reason is at 127.0.0.NUMBER, and returns the whole answer.
    async fn obstacle(&self, kid: &str, reason: &str, number: u8) -> Result<Value> {
        let edge = format!("127.0.0.{number}:{}", self.site.port());
        let what = format!("{reason} at {edge}");
        let found = wait::value(&what, async || {
            let answer = self.asked(kid).await?;
            let obstacles =
                answer.pointer("/key/obstacles").and_then(Value::as_array).context("no obstacles")?;
            let here = |obstacle: &&Value| {
                obstacle.get("reason") == Some(&json!(reason)) && obstacle.get("edge") == Some(&json!(edge))
            };
            let found = obstacles.iter().find(here);
            ensure!(found.is_some(), "{obstacles:?}");
            Ok(found.map(|_| answer.clone()))
        });
        found.await.with_context(|| self.service.log())
    }

    /// The seconds for which a key was visible without a gap, nothing when nobody shows it.
    async fn visible_for(&self, kid: &str) -> Result<Option<u64>> {
        let answer = self.asked(kid).await?;
        let keys = answer.pointer("/views/0/keys").and_then(Value::as_array).context("no keys")?;
        let key = keys.iter().find(|key| key.get("kid") == Some(&json!(kid)));
        Ok(key.and_then(|key| key.get("visibleSeconds")?.as_u64()))
    }

    /// Waits until what is missing of a key's time is only that it was not interrupted.
    async fn is_interrupted(&self, kid: &str) -> Result<()> {
        let interrupted = wait::until("an interval in which nobody looked", async || {
            let answer = self.asked(kid).await?;
            let obstacles = answer.pointer("/key/obstacles").and_then(Value::as_array).context("none")?;
            Ok(obstacles.iter().any(|obstacle| obstacle.get("reason") == Some(&json!("interrupted"))))
        });
        interrupted.await.with_context(|| self.service.log())
    }

    /// Waits until a key was visible for longer than `seconds`.
    async fn goes_on_after(&self, kid: &str, seconds: u64) -> Result<()> {
        wait::until("time that runs", async || Ok(self.visible_for(kid).await? > Some(seconds))).await
    }

    /// Waits for three more looks at an edge.
    async fn three_looks(&self, edge: &Edge) -> Result<()> {
        // Each look asks plain and past caches, each for two documents at most.
        let before = edge.asked();
        wait::until("three looks", async || Ok(edge.asked() >= before + 12)).await
    }

    /// Waits until the condition of the issuer URL has this status and reason.
    async fn condition(&self, name: &str, status: &str, reason: &str) -> Result<Value> {
        wait::value(&format!("{name}={status} {reason}"), async || {
            let (_, text) = self.site.admin("conditions").await?;
            let all: Value = serde_json::from_str(&text)?;
            let all = all.get("conditions").and_then(Value::as_array).context("no conditions")?;
            let found = all.iter().find(|condition| condition.get("type") == Some(&json!(name)));
            let found = found.with_context(|| format!("no {name} in {text}"))?;
            ensure!(found.get("subject") == Some(&json!("view issuer URL")), "{found}");
            let holds =
                found.get("status") == Some(&json!(status)) && found.get("reason") == Some(&json!(reason));
            ensure!(holds, "{found}");
            Ok(Some(found.clone()))
        })
        .await
        .with_context(|| self.service.log())
    }

    async fn copy(&self) -> Result<Copy> {
        self.two.copy(&PATHS).await
    }
}

async fn edge(site: &Site, number: u8) -> Result<Edge> {
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, number), site.port()));
    Edge::start(address, site.certificate(), (site.client(), &site.url(""))).await
}

#[tokio::test]
async fn time_runs_while_every_address_shows_the_key_and_stops_or_starts_again_as_the_rules_say() -> Result<()>
{
    let mut stage = Stage::new().await?;
    let first = stage.first.kid.clone();
    stage.may_sign(&first).await?;
    let answer = stage.asked(&first).await?;
    let edges = answer.pointer("/views/0/edges").and_then(Value::as_array).context("no edges")?;
    // Our own server answers a question past caches, so that each address has two edges.
    assert_eq!(edges.len(), 6, "{edges:?}");
    assert_eq!(answer.pointer("/longestMaxAgeSeconds"), Some(&json!(2)), "{answer}");
    stage.condition("Visible", "True", "SeenEverywhere").await?;
    stage.condition("ServedAsPublished", "True", "AsPublished").await?;

    // Down: nothing is lost, and no time runs.
    stage.three.answers(Manner::Down);
    stage.obstacle(&first, "unreadable", 3).await?;
    let before = stage.visible_for(&first).await?.context("no time")?;
    stage.three_looks(&stage.two).await?;
    assert_eq!(stage.visible_for(&first).await?, Some(before));
    let (issuer, view) = (stage.site.url(ISSUER), "issuer URL");
    let labels = [("issuer", issuer.as_str()), ("view", view)];
    assert_eq!(stage.site.metric("chancery_edges", &labels).await?, Some(6.0));
    assert_eq!(stage.site.metric("chancery_edges_readable", &labels).await?, Some(4.0));
    stage.condition("Visible", "Unknown", "EdgeUnreadable").await?;
    stage.three.answers(Manner::Through);
    stage.goes_on_after(&first, before).await?;

    // An edge that was not told of a new key: the new key waits, the old one does not.
    let old = stage.copy().await?;
    stage.two.answers(Manner::Old(old.clone()));
    let second = stage.add_key("second")?.kid;
    stage.obstacle(&second, "missing", 2).await?;
    stage.condition("Visible", "False", "KeyNotYetSeen").await?;
    // It may be missing everywhere at first.
    wait::until("a key that only the others show", async || Ok(stage.visible_for(&second).await? == Some(0)))
        .await?;
    let before = stage.visible_for(&first).await?.context("no time")?;
    stage.goes_on_after(&first, before).await?;
    stage.two.answers(Manner::Through);
    stage.may_sign(&second).await?;

    // A gap at one edge takes everything that the key had.
    stage.three.answers(Manner::Old(old));
    stage.obstacle(&second, "missing", 3).await?;
    assert_eq!(stage.visible_for(&second).await?, Some(0));
    stage.condition("Visible", "False", "KeyVanished").await?;
    let kept = stage.visible_for(&first).await?.context("no time")?;
    ensure!(kept > before, "the other key loses nothing");
    stage.three.answers(Manner::Through);
    stage.may_sign(&second).await?;

    is_started_again(&mut stage, &first, kept).await
}

/// A restart forgets neither the times nor the longest cache time, and downtime is not counted.
async fn is_started_again(stage: &mut Stage, first: &str, kept: u64) -> Result<()> {
    let third = stage.add_key("third")?.kid;
    stage.may_sign(&third).await?;
    assert_eq!(stage.service.terminate().await?, Some(0), "{}", stage.service.log());
    stage.service = stage.site.start_ready().await?;
    wait::until("a look after the restart", async || Ok(stage.visible_for(first).await? >= Some(kept)))
        .await?;
    // While nobody looked, a cache may have taken up a set without it.
    stage.is_interrupted(first).await?;
    stage.may_sign(&third).await?;
    Ok(())
}

#[tokio::test]
async fn an_old_cache_is_seen_through_and_somebody_in_between_is_named() -> Result<()> {
    let mut stage = Stage::new().await?;
    stage.may_sign(&stage.first.kid).await?;
    let old = stage.copy().await?;
    stage.two.answers(Manner::Cached(old, 17));
    let second = stage.add_key("second")?.kid;
    let (cached, behind) = wait::value("a cache that lags behind its origin", async || {
        let answer = stage.asked(&second).await?;
        let edges = answer.pointer("/views/0/edges").and_then(Value::as_array).context("no edges")?;
        let edge = |name: &str| {
            let name = format!("127.0.0.2:{}{name}", stage.site.port());
            edges.iter().find(|edge| edge.get("edge") == Some(&json!(name))).cloned()
        };
        let (cached, behind) = (edge("").context("no edge")?, edge(" past caches").context("no edge")?);
        let kids = behind.get("kids").and_then(Value::as_array).context("no kids")?;
        ensure!(kids.contains(&json!(second)), "the origin behind the cache shows it: {behind}");
        Ok(Some((cached, behind)))
    })
    .await?;
    assert_eq!(cached.get("ageSeconds"), Some(&json!(17)), "{cached}");
    assert_eq!(cached.get("kids"), Some(&json!([stage.first.kid])), "{cached}");
    assert_eq!(behind.get("ageSeconds"), Some(&Value::Null), "{behind}");
    stage.obstacle(&second, "missing", 2).await?;
    stage.condition("ServedAsPublished", "False", "Stale").await?;

    // A process that starts now knows what was published before it.
    assert_eq!(stage.service.terminate().await?, Some(0), "{}", stage.service.log());
    stage.service = stage.site.start_ready().await?;
    stage.condition("ServedAsPublished", "False", "Stale").await?;
    ensure!(!stage.service.log().contains("no target of ours ever held"), "{}", stage.service.log());
    stage.two.answers(Manner::Through);
    stage.condition("ServedAsPublished", "True", "AsPublished").await?;

    // Somebody answers at one address with a key of their own.
    let stranger = KeyFile::p256(&stage.keys, "stranger")?;
    let mut tampered = stage.copy().await?;
    let arguments = ["keygen", "jwks", "--key"].map(Path::new);
    let jwks = chancery::run(&[arguments.as_slice(), &[&stranger.public]].concat()).await?.success()?;
    tampered.get_mut(JWKS).context("no JWKS")?.body = jwks.into_bytes();
    stage.three.answers(Manner::Old(tampered));
    let condition = stage.condition("ServedAsPublished", "False", "ServesForeignKeys").await?;
    let message = condition.get("message").and_then(Value::as_str).unwrap_or_default();
    ensure!(message.contains(&stranger.kid) && message.contains("127.0.0.3"), "{message}");
    stage.condition("Visible", "False", "KeyVanished").await?;
    Ok(())
}

#[tokio::test]
async fn a_bucket_takes_the_question_past_caches_and_serves_what_its_target_holds() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let keys = Scratch::new("keys")?;
    let (key, minio) = (KeyFile::new(&keys, "first")?, Minio::start().await?);
    minio.create_public_bucket("documents").await?;
    let mut site = Site::new()?;
    let port = ports::free()?;
    let mut target = bucket_target(&minio, minio.endpoint(), "documents");
    *target.pointer_mut("/publicUrl").context("no URL")? =
        json!(format!("https://127.0.0.1:{port}/documents"));
    site.add_issuer_of_files(ISSUER, &[&key.public], json!([target]))?;
    site.use_credentials_of(&minio);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let _front = Edge::start(address, site.certificate(), (&http::client(None)?, minio.endpoint())).await?;
    let service = site.start_ready().await?;
    let seen = wait::until("the edges of the bucket", async || {
        let (_, text) = site.admin("visibility").await?;
        let answer: Value = serde_json::from_str(&text)?;
        let views = answer.pointer("/issuers/0/views").and_then(Value::as_array).context("no views")?;
        let bucket =
            views.iter().find(|view| view.get("view") == Some(&json!("bucket"))).context("no bucket")?;
        let edges = bucket.get("edges").and_then(Value::as_array).context("no edges")?;
        let shows = |edge: &Value| edge.get("kids") == Some(&json!([key.kid]));
        // The address, plain and past caches, and the target itself as its writer reads it.
        ensure!(edges.len() == 3 && edges.iter().all(shows), "{edges:?}");
        Ok(true)
    });
    seen.await.with_context(|| service.log())?;
    let served = wait::until("a bucket that serves what it holds", async || {
        let (_, text) = site.admin("conditions").await?;
        let conditions: Value = serde_json::from_str(&text)?;
        let all = conditions.get("conditions").and_then(Value::as_array).context("no conditions")?;
        let is = |it: &Value, field: &str, value: &str| it.get(field) == Some(&json!(value));
        let served =
            all.iter().find(|it| is(it, "subject", "view bucket") && is(it, "type", "ServedAsPublished"));
        Ok(served.is_some_and(|it| is(it, "reason", "AsPublished")))
    });
    served.await.with_context(|| service.log())
}
