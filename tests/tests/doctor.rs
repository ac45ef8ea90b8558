//! `chancery doctor` on real clusters: a healthy one, one whose flags were put in another order, replicas that differ,
//! and an issuer that nobody can read.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::{binary, chancery};
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];

/// What `doctor` says of the one issuer of a site: exit code, rules of the findings, the whole report.
async fn doctor(site: &Site) -> Result<(Option<i32>, Vec<String>, String)> {
    let config = site.write_config()?;
    let arguments: [PathBuf; 6] =
        ["doctor".into(), "--config".into(), config, "--mint".into(), "demo/app".into(), "--json".into()];
    let output = chancery::run(&arguments).await?;
    let report: Value = serde_json::from_str(&output.stdout).with_context(|| output.stderr.clone())?;
    let looks = report.pointer("/0/looks").and_then(Value::as_array).context("no looks")?;
    let findings = looks.iter().filter_map(|look| look.get("findings")?.as_array()).flatten();
    let wrong = findings.filter(|finding| finding.get("severity") != Some(&json!("note")));
    let rules = wrong.filter_map(|finding| Some(finding.get("rule")?.as_str()?.to_owned())).collect();
    Ok((output.code, rules, output.stdout))
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
