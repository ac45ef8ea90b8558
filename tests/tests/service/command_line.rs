//! The service as its operator meets it: a configuration that is refused as a whole, signals, certificates, and the
//! demo.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::authority::LOOPBACK;
use e2e::fault_proxy::{FaultProxy, Moment, On};
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target, directory_target};
use e2e::{binary, chancery, http, ports, wait};
use reqwest::tls::TlsInfo;
use serde_json::json;

const ISSUER: &str = "/cluster-a";

/// A good configuration, and the folders it needs.
fn good_configuration(dir: &Scratch) -> Result<String> {
    KeyFile::p256(dir, "sa")?;
    std::fs::create_dir(dir.join("published"))?;
    Ok(format!(
        "issuers:
  - url: https://id.example.com/cluster-a
    retention: 7d
    sources:
      - files:
          paths: [{dir}/sa.pub]
    targets:
      - to:
          directory: {{ path: {dir}/published }}
serve:
  - listen: 127.0.0.1:{port}
",
        dir = dir.path().display(),
        port = ports::free()?,
    ))
}

/// The service refuses the good configuration with `good` replaced by `bad`, and says every one of `words`.
async fn assert_refused(replaced: (&str, &str), words: &[&str]) -> Result<()> {
    assert_refused_by(&["issuer"], replaced, words).await
}

/// The check refuses it: what one issuer alone names is opened, and opened again, while the service runs.
async fn assert_check_refuses(replaced: (&str, &str), words: &[&str]) -> Result<()> {
    assert_refused_by(&["issuer", "--check"], replaced, words).await
}

async fn assert_refused_by(command: &[&str], (good, bad): (&str, &str), words: &[&str]) -> Result<()> {
    let dir = Scratch::new("configuration")?;
    let text = good_configuration(&dir)?;
    ensure!(text.contains(good), "{good} is not in {text}");
    let file = dir.write("chancery.yaml", text.replacen(good, bad, 1))?;
    let arguments: Vec<&Path> =
        command.iter().map(Path::new).chain([Path::new("--config"), file.as_path()]).collect();
    let ended = tokio::time::timeout(wait::SOON, chancery::run(&arguments)).await;
    let output = ended.with_context(|| format!("it runs with {bad:?}"))??;
    assert_eq!(output.code, Some(1), "{bad:?}: {}", output.stderr);
    for word in words.iter().chain(&["chancery.yaml"]) {
        ensure!(output.stderr.contains(word), "{bad:?}: no {word:?} in: {}", output.stderr);
    }
    let published = std::fs::read_dir(dir.join("published"))?.count();
    assert_eq!(published, 0, "{bad:?}: something was published");
    Ok(())
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_its_line() -> Result<()> {
    let field = ("retention: 7d", "retentoin: 7d");
    assert_refused(field, &["retentoin", "retention", "line 3"]).await?;
    assert_refused(("directory: {", "direktory: {"), &["direktory", "line 9"]).await?;
    assert_refused(("- files:", "- file:"), &["file", "line 5"]).await?;
    assert_refused(("serve:", "server:"), &["server", "line 10"]).await
}

#[tokio::test]
async fn a_value_that_cannot_be_meant_is_refused_with_its_line() -> Result<()> {
    let url = "https://id.example.com/cluster-a";
    assert_refused((url, "http://id.example.com/cluster-a"), &["https", "line 2"]).await?;
    assert_refused((url, "https://id.example.com/cluster-a?b=c"), &["query", "line 2"]).await?;
    assert_refused(("7d", "soon"), &["soon", "line 3"]).await?;
    assert_refused(("7d", "0s"), &["0s", "lifetime of the longest token", "line 3"]).await?;
    assert_refused(("127.0.0.1:", "nowhere:"), &["listen", "line 11"]).await
}

#[tokio::test]
async fn a_missing_file_is_refused_with_its_line_and_the_remedy() -> Result<()> {
    let missing = ("/sa.pub", "/missing.pub");
    assert_check_refuses(missing, &["missing.pub", "line 5", "give the path"]).await?;
    let tls = "serve:\n  - tls: { certificate: /missing.crt, privateKey: /missing.key }\n    listen";
    assert_refused(("serve:\n  - listen", tls), &["missing.crt", "line 11"]).await?;
    let state = ("serve:", "state: { directory: /missing/state }\nserve:");
    assert_refused(state, &["/missing/state", "line 10", "create it"]).await
}

#[tokio::test]
async fn a_sink_that_cannot_be_meant_or_opened_is_refused_with_its_line() -> Result<()> {
    let sink = |sink: &str| format!("    sinks:\n      - {sink}\nserve:");
    let vault = |rest: &str| sink(&format!("vault: {{ address: 'https://vault', tokenFile: token{rest} }}"));
    assert_refused(("serve:", &sink("adopt: true")), &["`vault`", "line 11"]).await?;
    assert_refused(("serve:", &vault(", mount: a//b")), &["vault.mount", "a//b", "line 11"]).await?;
    assert_refused(("serve:", &vault(", role: r")), &["role", "line 11"]).await?;
    assert_check_refuses(("serve:", &vault(", ca: /missing.pem")), &["/missing.pem", "PEM file", "line 11"])
        .await?;
    let config_map = sink("configMap: { namespace: n, name: c, kubeconfig: missing }");
    assert_check_refuses(("serve:", &config_map), &["missing", "configMap", "line 11"]).await?;
    let body = sink("httpPut: { url: 'https://h', body: '{{ keys }}', read: { pointer: '' } }");
    assert_refused(("serve:", &body), &["{{keys}}", "column 1", "line 11"]).await
}

#[tokio::test]
async fn a_missing_configuration_is_named() -> Result<()> {
    let output = chancery::run(&["issuer", "--config", "/missing/chancery.yaml"]).await?;
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("/missing/chancery.yaml"), "{}", output.stderr);
    Ok(())
}

#[tokio::test]
async fn a_good_configuration_passes_the_check_and_nothing_is_done() -> Result<()> {
    let dir = Scratch::new("configuration")?;
    let file = dir.write("chancery.yaml", good_configuration(&dir)?)?;
    let arguments = [Path::new("issuer"), Path::new("--check"), Path::new("--config"), &file];
    chancery::run(&arguments).await?.success()?;
    assert_eq!(std::fs::read_dir(dir.join("published"))?.count(), 0);
    Ok(())
}

/// A site with one issuer of one key, published to a directory.
fn site(dir: &Scratch) -> Result<(Site, KeyFile)> {
    let key = KeyFile::p256(dir, "sa")?;
    std::fs::create_dir(dir.join("published"))?;
    let mut site = Site::new()?;
    site.add_issuer_of_files(ISSUER, &[&key.public], json!([directory_target(&dir.join("published"))]))?;
    Ok((site, key))
}

#[tokio::test]
async fn the_documents_are_served_as_http_has_it() -> Result<()> {
    let dir = Scratch::new("serve")?;
    let (site, key) = site(&dir)?;
    let service = site.start_ready().await?;
    site.shows(&site.url(ISSUER), &[&key.kid]).await.with_context(|| service.log())?;
    let jwks = format!("{}/openid/v1/jwks", site.url(ISSUER));
    let client = site.client();
    let got = client.get(&jwks).send().await?;
    assert_eq!(got.headers()["content-type"], "application/jwk-set+json");
    assert_eq!(got.headers()["cache-control"], "public, max-age=600");
    let etag = got.headers()["etag"].clone();
    let length = got.bytes().await?.len().to_string();

    let head = client.head(&jwks).send().await?;
    assert_eq!((head.status().as_u16(), head.headers()["content-length"].to_str()?), (200, length.as_str()));
    let unchanged = client.get(&jwks).header("if-none-match", &etag).send().await?;
    assert_eq!((unchanged.status().as_u16(), unchanged.bytes().await?.len()), (304, 0));
    let changed = client.get(&jwks).header("if-none-match", "\"another\"").send().await?;
    assert_eq!(changed.status(), 200);
    let posted = client.post(&jwks).body("x").send().await?;
    assert_eq!((posted.status().as_u16(), &posted.headers()["allow"]), (405, &"GET, HEAD".parse()?));
    assert_eq!(client.get(format!("{jwks}/more")).send().await?.status(), 404);
    let other_name = jwks.replacen("127.0.0.1", "localhost", 1);
    assert_eq!(client.get(other_name).send().await?.status(), 421);
    Ok(())
}

#[tokio::test]
async fn a_signal_to_stop_waits_for_the_writes_under_way() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let (dir, minio) = (Scratch::new("drain")?, Minio::start().await?);
    minio.create_public_bucket("documents").await?;
    let proxy = FaultProxy::start(minio.endpoint()).await?;
    let key = KeyFile::p256(&dir, "sa")?;
    let mut site = Site::new()?;
    let target = bucket_target(&minio, proxy.url(), "documents");
    site.add_issuer_of_files(ISSUER, &[&key.public], json!([target]))?;
    site.use_credentials_of(&minio);
    let hold = proxy.hold(On::put("openid/v1/jwks"), Moment::BeforeForwarding);
    let mut service = site.start_ready().await?;
    hold.reached().await?;
    let log = service.log();
    let (code, ()) = tokio::try_join!(service.terminate(), async {
        // The service has taken the signal when it accepts no request any more.
        let stopped = async || Ok(site.client().get(site.url(ISSUER)).send().await.is_err());
        wait::until("a service that stops", stopped).await?;
        hold.release();
        Ok(())
    })?;
    assert_eq!(code, Some(0), "{log}");
    let published = format!("{}/documents", minio.endpoint());
    site.shows(&published, &[&key.kid]).await
}

/// The certificate that a new connection is shown, DER.
async fn shown_certificate(site: &Site) -> Result<Vec<u8>> {
    let client = http::builder(Some(site.authority().pem()))?.tls_info(true).build()?;
    let answer = client.get(site.url(ISSUER)).send().await?;
    let info = answer.extensions().get::<TlsInfo>().context("no TLS")?;
    Ok(info.peer_certificate().context("no certificate")?.to_owned())
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_and_a_bad_one_is_not() -> Result<()> {
    let dir = Scratch::new("certificate")?;
    let (site, _key) = site(&dir)?;
    let service = site.start_ready().await?;
    let file = &site.certificate().cert;
    let in_file = || -> Result<Vec<u8>> { Ok(pem::parse(std::fs::read(file)?)?.into_contents()) };
    let first = in_file()?;
    assert!(shown_certificate(&site).await? == first);

    site.authority().issue(site.dir().path(), &LOOPBACK)?;
    let second = in_file()?;
    assert!(first != second);
    wait::until("the new certificate", async || Ok(shown_certificate(&site).await? == second))
        .await
        .with_context(|| service.log())?;

    let refused = async || site.metric("chancery_certificate_reload_total", &[("result", "refused")]).await;
    let before = refused().await?;
    std::fs::write(file, "no certificate")?;
    wait::until("a refused certificate", async || Ok(refused().await? > before)).await?;
    ensure!(service.log().contains("tls.crt"), "{}", service.log());
    assert!(shown_certificate(&site).await? == second);
    Ok(())
}

#[tokio::test]
async fn the_demo_shows_the_whole_loop_and_ends() -> Result<()> {
    let output =
        tokio::time::timeout(wait::SOON * 12, chancery::run(&["demo", "--once"])).await??.success()?;
    let mut rest = output.as_str();
    for step in [
        "made a signing key",
        "published to",
        "1 key visible",
        "is accepted by a verifier that knows only the issuer URL",
        "the second key is visible",
        "a token of the unpublished key is refused",
        "a workload has tokens",
        "seen from outside: the standby",
        "a rotation is asked for",
        "is retiring",
        "is retired",
        "the standby",
        "a revocation of",
        "its tokens are refused: the issuer publishes no key",
        " tokens of 3 keys were signed",
    ] {
        rest = rest.split_once(step).with_context(|| format!("no {step:?} in its turn in:\n{output}"))?.1;
    }
    let verified =
        rest.split_once("were verified ").and_then(|(_, rest)| rest.split_once(" times, 0 rejected"));
    let times: usize = verified.with_context(|| format!("no counts in:\n{output}"))?.0.parse()?;
    ensure!(times > 0, "{output}");
    Ok(())
}

#[tokio::test]
async fn a_line_of_the_log_is_one_event_whatever_a_file_is_called() -> Result<()> {
    let dir = Scratch::new("names")?;
    let (watched, published) = (dir.join("watched"), dir.join("published"));
    std::fs::create_dir(&watched)?;
    std::fs::create_dir(&published)?;
    std::fs::write(watched.join("a\n2026-01-01T00:00:00Z ERROR forged \u{1b}[31m\u{202e}.pub"), "no key")?;
    let mut site = Site::new()?;
    site.add_issuer_of_files(ISSUER, &[&watched], json!([directory_target(&published)]))?;
    let service = site.start()?;
    wait::until("the file in the log", async || Ok(service.log().contains("forged"))).await?;
    let log = service.log();
    ensure!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    ensure!(!log.contains(['\u{1b}', '\u{202e}']), "{log:?}");
    Ok(())
}
