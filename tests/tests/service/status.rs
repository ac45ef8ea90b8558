//! The status page of a real service: an issuer that is well, one whose bucket refuses it, and one whose key waits.

use anyhow::{Context as _, Result, bail, ensure};
use e2e::chancery::IssuerService;
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target, directory_target};
use e2e::{binary, http, wait};
use serde_json::{Value, json};

use crate::ring::Ring;

mod browser;

/// It is not there at first.
const BUCKET: &str = "not-yet-there";

/// Every word that a person reads on a page of the admin port.
async fn page(site: &Site, path: &str) -> Result<String> {
    let (status, html) = site.admin(path).await?;
    ensure!(status == 200, "{path}: {status}: {html}");
    Ok(html)
}

async fn facts(site: &Site, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&page(site, path).await?)?)
}

/// The path of the page of one issuer, or of its twin.
fn of(issuer: &str, page: &str) -> String {
    let url: String = issuer
        .chars()
        .map(|it| if it == ':' || it == '/' { format!("%{:02X}", u32::from(it)) } else { it.to_string() })
        .collect();
    format!("status/{page}?url={url}")
}

/// How one issuer stands.
#[derive(Debug)]
struct Row {
    issuer: String,
    state: String,
    sentence: String,
}

/// How each issuer stands, in the order of the page.
fn rows(overview: &Value) -> Vec<Row> {
    let text = |row: &Value, name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let rows = overview.get("issuers").and_then(Value::as_array).into_iter().flatten();
    let row =
        |row| Row { issuer: text(row, "issuer"), state: text(row, "state"), sentence: text(row, "sentence") };
    rows.map(row).collect()
}

/// A text as it stands between tags.
fn escaped(text: &str) -> String {
    let escape = |it: char| match it {
        '"' | '&' | '\'' | '<' | '>' => format!("&#{};", u32::from(it)),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}

/// A service with an issuer of each state.
struct Stage {
    minio: Minio,
    active: KeyFile,
    waits: KeyFile,
    site: Site,
    service: IssuerService,
    _dir: Scratch,
}

impl Stage {
    /// Starts it. The target of the issuer that is refused has this name, and its bucket is not there.
    async fn start(target: &str) -> Result<Self> {
        let (dir, minio) = (Scratch::new("status")?, Minio::start().await?);
        let (active, waits) = (KeyFile::p256(&dir, "active")?, KeyFile::p256(&dir, "waits")?);
        let mut site = Site::new()?;
        site.use_credentials_of(&minio);
        Ring::new(&dir, &site.url("/well")).await?.adopt(&active, true).await?;
        let www = dir.join("www");
        std::fs::create_dir_all(&www)?;
        let ring = json!([{ "ring": { "directory": dir.join("ring") } }]);
        site.add_issuer("/well", ring, json!([directory_target(&www)]))?;
        let mut bucket = bucket_target(&minio, minio.endpoint(), BUCKET);
        bucket.as_object_mut().context("no target")?.remove("publicUrl");
        *bucket.pointer_mut("/to/name").context("no name")? = json!(target);
        site.add_issuer_of_files("/refused", &[&waits.public], json!([bucket]))?;
        site.add_issuer_of_files("/waiting", &[&waits.public], json!([]))?;
        let issuers = site.config.pointer_mut("/issuers").and_then(Value::as_array_mut);
        for issuer in issuers.context("no issuers")? {
            let verify = issuer.pointer_mut("/verify").and_then(Value::as_object_mut);
            verify.context("no verify")?.insert("every".to_owned(), json!("1s"));
        }
        let service = site.start_ready().await?;
        Ok(Self { minio, active, waits, site, service, _dir: dir })
    }

    /// Waits until each issuer is in the state that it is here for.
    async fn settled(&self) -> Result<Vec<Row>> {
        let settled = wait::value("one of each state, the worst first", async || {
            let rows = rows(&facts(&self.site, "status.json").await?);
            let states: Vec<_> = rows.iter().map(|row| (row.issuer.clone(), row.state.as_str())).collect();
            let expected = [("/refused", "broken"), ("/waiting", "waiting"), ("/well", "healthy")];
            ensure!(states == expected.map(|(path, state)| (self.site.url(path), state)), "{rows:?}");
            // It waits for the first look before it waits for time.
            Ok(rows.iter().any(|row| row.sentence.contains("at the earliest")).then_some(rows))
        });
        settled.await.with_context(|| self.service.log())
    }
}

#[tokio::test]
async fn an_operator_sees_what_is_broken_first_and_everything_about_each_issuer() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let stage = Stage::start("bucket").await?;
    let said = stage.settled().await?;
    let [refused, waiting, well] = said.as_slice() else { bail!("{said:?}") };
    let refusal = &refused.sentence;
    assert!(
        refusal.contains("Target bucket cannot be read or written") && refusal.contains("NoSuchBucket"),
        "{refusal}"
    );
    assert!(waiting.sentence.contains(&stage.waits.kid), "{}", waiting.sentence);
    assert_eq!(well.sentence, "All is as it should be: 1 key is published.");
    is_shown_as_promised(&stage.site, &said).await?;
    tells_everything_about_each(&stage).await?;

    stage.minio.create_public_bucket(BUCKET).await?;
    let mended = wait::until("a bucket that is written", async || {
        let target = facts(&stage.site, &of(&refused.issuer, "issuer.json")).await?;
        let state = target.pointer("/targets/0/state").and_then(Value::as_str).map(str::to_owned);
        ensure!(state.as_deref() == Some("healthy"), "{target:#}");
        Ok(target.pointer("/targets/0/lastGoodAt").is_some_and(Value::is_string))
    });
    mended.await.with_context(|| stage.service.log())
}

/// What every browser is told, and that the page has every sentence.
async fn is_shown_as_promised(site: &Site, said: &[Row]) -> Result<()> {
    let answer = http::client(None)?.get(site.admin_url("status")).send().await?;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!((header("cache-control"), header("x-content-type-options")), ("no-store", "nosniff"));
    assert!(header("content-security-policy").starts_with("default-src 'none'; style-src 'sha256-"));
    let html = answer.text().await?;
    for Row { issuer, sentence, .. } in said {
        assert!(
            html.contains(&escaped(issuer)) && html.contains(&escaped(sentence)),
            "{issuer}: {sentence}: {html}"
        );
    }
    for (path, status, word) in [
        ("status?page=2", 404, "there is no page 2"),
        ("status?page=x", 400, "expected a number from 1"),
        ("status/issuer?url=https%3A%2F%2Fnobody.example", 404, "there is no issuer https://nobody.example"),
        ("status/issuer", 400, "expected `url` alone"),
    ] {
        let (found, text) = site.admin(path).await?;
        assert!(found == status && text.contains(word), "{path}: {found}: {text}");
    }
    let posted = http::client(None)?.post(site.admin_url("status")).send().await?;
    assert_eq!(posted.status(), 405, "it can only be read");
    Ok(())
}

async fn tells_everything_about_each(stage: &Stage) -> Result<()> {
    let Stage { site, active, waits, .. } = stage;
    let of_ring = facts(site, &of(&site.url("/well"), "issuer.json")).await?;
    let at = |facts: &Value, pointer: &str| facts.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at(&of_ring, "/keys/0/kid"), json!(active.kid));
    assert_eq!(
        (at(&of_ring, "/keys/0/state"), at(&of_ring, "/rotation/activeKey")),
        (json!("active"), json!(active.kid))
    );
    assert_eq!(
        (at(&of_ring, "/targets/0/name"), at(&of_ring, "/targets/0/state")),
        (json!("directory"), json!("healthy"))
    );
    assert_eq!(
        (at(&of_ring, "/targets/0/drift/state"), at(&of_ring, "/targets/0/foreignKeys/state")),
        (json!("healthy"), json!("healthy"))
    );
    assert_eq!(
        (at(&of_ring, "/sources/0/state"), at(&of_ring, "/replica/publishes")),
        (json!("healthy"), json!(true))
    );
    assert_eq!(at(&of_ring, "/replica/certificates/0/state"), json!("healthy"));
    assert!(at(&of_ring, "/replica/certificates/0/expiresAt").is_string(), "{of_ring:#}");
    assert!(at(&of_ring, "/outside/views/0/edges/0/name").is_string(), "{of_ring:#}");

    let of_files = facts(site, &of(&site.url("/waiting"), "issuer.json")).await?;
    assert_eq!(
        (at(&of_files, "/keys/0/maySign"), at(&of_files, "/keys/0/state")),
        (json!(false), json!("live"))
    );
    assert!(
        at(&of_files, "/keys/0/because/0").as_str().is_some_and(|it| it.contains("more are needed")),
        "{of_files:#}"
    );
    assert_eq!(at(&of_files, "/rotation"), Value::Null);

    let html = page(site, &of(&site.url("/refused"), "issuer")).await?;
    for word in [
        "Target bucket cannot be read or written",
        "NoSuchBucket",
        "What to do:",
        &waits.kid,
        "Where relying parties read from",
    ] {
        assert!(html.contains(word), "{word} is not in {html}");
    }
    Ok(())
}
