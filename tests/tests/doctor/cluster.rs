//! `chancery doctor` on real clusters: a healthy one, one whose flags were put in another order, replicas that differ,
//! and an issuer that nobody can read.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::listening::Listening;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::{binary, chancery, wait};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

const ISSUER: &str = "/cluster-a";
const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];

/// What `doctor` says of the one issuer of a site: exit code, rules of the findings, the whole report.
async fn doctor(site: &Site) -> Result<(Option<i32>, Vec<String>, String)> {
    doctor_with(site, &[]).await
}

async fn doctor_with(
    site: &Site,
    environment: &[(&str, &str)],
) -> Result<(Option<i32>, Vec<String>, String)> {
    let config = site.write_config()?;
    let mut command = Command::new(binary::chancery()?);
    command.args(["doctor", "--mint", "demo/app", "--json", "--config"]).arg(config);
    command.envs(environment.iter().copied());
    let output = chancery::run_command(command).await?;
    let report: Value = serde_json::from_str(&output.stdout).with_context(|| output.stderr.clone())?;
    let looks = report.pointer("/0/looks").and_then(Value::as_array).context("no looks")?;
    let findings = looks.iter().filter_map(|look| look.get("findings")?.as_array()).flatten();
    let wrong = findings.filter(|finding| finding.get("severity") != Some(&json!("note")));
    let rules = wrong.filter_map(|finding| Some(finding.get("rule")?.as_str()?.to_owned())).collect();
    Ok((output.code, rules, output.stdout))
}

/// The URL of a proxy that answers nobody, and the heads of what it was asked, in small letters.
async fn silent_proxy() -> Result<(String, Arc<Mutex<Vec<String>>>, Listening)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (url, asked) = (format!("http://{}", listener.local_addr()?), Arc::<Mutex<Vec<String>>>::default());
    let heads = asked.clone();
    let listening = Listening::on(listener, move |mut stream| {
        let heads = heads.clone();
        async move {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or_default();
            head.truncate(read);
            heads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(String::from_utf8_lossy(&head).to_lowercase());
        }
    });
    Ok((url, asked, listening))
}

/// A site whose issuer is read from these API servers, for relying parties that take an IP address.
fn site_of(mut site: Site, servers: &[&KubeApiserver]) -> Result<Site> {
    let first = servers.first().context("no server")?;
    let kubeconfig = site.dir().join("kubeconfig");
    first.kubeconfig(&kubeconfig)?;
    let endpoints: Vec<&str> = servers.iter().map(|server| server.url()).collect();
    let source = json!({ "endpoints": endpoints, "kubeconfig": kubeconfig, "pollSeconds": 1 });
    site.add_issuer(ISSUER, json!([{ "kubeApiserver": source }]), json!([]))?;
    let verify = site.config.pointer_mut("/issuers/0/verify").and_then(Value::as_object_mut);
    verify.context("no verify")?.insert("for".to_owned(), json!(["kubernetes"]));
    Ok(site)
}

async fn cluster(site: &Site, issuer: &str, key: &Path) -> Result<KubeApiserver> {
    let url = site.url(ISSUER);
    let cluster = Cluster::new(Etcd::shared().await?.url(), issuer, key)?;
    let server = KubeApiserver::start(&cluster.jwks_uri(&format!("{url}/openid/v1/jwks"))).await?;
    server.create_service_account("demo", "app").await?;
    Ok(server)
}

#[tokio::test]
async fn a_healthy_issuer_gets_no_finding_and_one_that_is_down_says_what_it_costs() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let (keys, site) = (Scratch::new("keys")?, Site::new()?);
    let key = KeyFile::new(&keys, "sa")?;
    let server = cluster(&site, &site.url(ISSUER), &key.private).await?;
    let site = site_of(site, &[&server])?;
    let mut service = site.start_ready().await?;
    let (code, rules, report) = doctor(&site).await?;
    assert_eq!((code, rules.as_slice()), (Some(0), [].as_slice()), "{report}");
    assert!(report.contains(&key.kid), "{report}");

    service.terminate().await?;
    let (code, rules, report) = doctor(&site).await?;
    assert_eq!(code, Some(3), "{report}");
    for rule in ["unreachable", "token-key-invisible"] {
        assert!(rules.iter().any(|found| found == rule), "{rule}: {report}");
    }
    Ok(())
}

#[tokio::test]
async fn tokens_of_another_issuer_are_noticed_although_every_document_is_right() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let (keys, site) = (Scratch::new("keys")?, Site::new()?);
    let key = KeyFile::new(&keys, "sa")?;
    // One slash more, as an installer's template may have it.
    let server = cluster(&site, &format!("{}/", site.url(ISSUER)), &key.private).await?;
    let site = site_of(site, &[&server])?;
    let _service = site.start_ready().await?;
    let (code, rules, report) = doctor(&site).await?;
    assert_eq!((code, rules), (Some(3), vec!["token-issuer-differs".to_owned()]), "{report}");
    assert!(report.contains("--service-account-issuer"), "{report}");
    Ok(())
}

#[tokio::test]
async fn replicas_with_different_keys_are_named() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let (keys, site) = (Scratch::new("keys")?, Site::new()?);
    let (one, two) = (KeyFile::new(&keys, "one")?, KeyFile::new(&keys, "two")?);
    let control_plane = Cluster::new(Etcd::shared().await?.url(), &site.url(ISSUER), &one.private)?;
    let of = |key: &KeyFile| control_plane.clone().signing_key(&key.private).keys(&[&key.public]);
    let (first, second) = (of(&one), of(&two));
    let (first, second) = tokio::try_join!(KubeApiserver::start(&first), KubeApiserver::start(&second))?;
    first.create_service_account("demo", "app").await?;
    let site = site_of(site, &[&first, &second])?;
    let _service = site.start_ready().await?;
    let (code, rules, report) = doctor(&site).await?;
    assert_eq!((code, rules), (Some(3), vec!["replica-keys-differ".to_owned(); 2]), "{report}");
    for (url, kid) in [(first.url(), &two.kid), (second.url(), &one.kid)] {
        assert!(report.contains(&format!("{url} lacks keys")) && report.contains(kid), "{report}");
    }
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_nobody_may_read_is_explained_by_its_missing_policy() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let (keys, minio) = (Scratch::new("keys")?, Minio::start().await?);
    minio.create_bucket("private").await?;
    let key = KeyFile::new(&keys, "sa")?;
    let mut site = Site::new()?;
    let target = bucket_target(&minio, minio.endpoint(), "private");
    site.add_issuer_of_files(ISSUER, &[&key.public], json!([target]))?;
    site.use_credentials_of(&minio);
    let service = site.start_ready().await?;
    let read = async || Ok(minio.read_object("private", "openid/v1/jwks").await.is_ok());
    wait::until("the published JWKS", read).await.with_context(|| service.log())?;

    let (id, secret) = minio.root_credentials();
    // Who reads without credentials reads as everybody does: past the proxies of this machine.
    let (proxy, asked, _proxy) = silent_proxy().await?;
    let environment = [
        ("AWS_ACCESS_KEY_ID", id),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("HTTP_PROXY", &proxy),
        ("http_proxy", &proxy),
        ("HTTPS_PROXY", &proxy),
        ("https_proxy", &proxy),
    ];
    doctor_with(&site, &environment).await?;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    assert!(!asked.is_empty(), "the SDK, with its credentials, goes through the proxy");
    assert!(asked.iter().all(|head| head.contains("authorization:")), "{asked:?}");

    let (code, rules, report) =
        doctor_with(&site, &[("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)]).await?;
    assert_eq!(code, Some(3), "{report}");
    assert!(rules.iter().any(|rule| rule == "s3-no-bucket-policy"), "{rules:?}: {report}");
    assert!(!report.contains(secret), "{report}");

    // Opened to everybody, it is not complained about any more.
    minio.create_public_bucket("public").await?;
    *site.config.pointer_mut("/issuers/0/targets/0").context("no target")? =
        bucket_target(&minio, minio.endpoint(), "public");
    drop(service);
    let service = site.start_ready().await?;
    let read = async || Ok(minio.read_object("public", "openid/v1/jwks").await.is_ok());
    wait::until("the published JWKS", read).await.with_context(|| service.log())?;
    let (_, rules, report) =
        doctor_with(&site, &[("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)]).await?;
    assert!(!rules.iter().any(|rule| rule.starts_with("s3-")), "{rules:?}: {report}");
    Ok(())
}
