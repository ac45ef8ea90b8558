//! Each real server starts, answers and stops.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use e2e::authority::{Authority, LOOPBACK};
use e2e::cluster::{Cluster, TrustedIssuer};
use e2e::etcd::Etcd;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::{binary, http};

const ISSUER: &str = "https://issuer.example";

fn signing_key(dir: &Scratch, name: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    let made = Command::new("openssl").args(["genrsa", "-traditional", "-out"]).arg(&path).arg("2048").output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(path)
}

#[tokio::test]
async fn etcd_starts_and_stops() -> Result<()> {
    if binary::skipped(&["etcd"]) {
        return Ok(());
    }
    let etcd = Etcd::start().await?;
    let version = http::client(None)?.get(format!("{}/version", etcd.url())).send().await?.text().await?;
    assert!(version.contains("3.7.3"), "{version}");
    let address = etcd.url().trim_start_matches("http://").to_owned();
    drop(etcd);
    assert!(TcpStream::connect(address).is_err(), "etcd still listens");
    Ok(())
}

#[tokio::test]
async fn kube_apiserver_issues_a_token_and_knows_its_bearer() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("keys")?;
    let key = signing_key(&dir, "sa.key")?;
    let jwks_uri = format!("{ISSUER}/openid/v1/jwks");
    let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &key)?.jwks_uri(&jwks_uri);
    let server = KubeApiserver::start(&cluster).await?;

    let discovery = server.get_raw("/.well-known/openid-configuration").await?;
    let discovery: serde_json::Value = serde_json::from_slice(&discovery)?;
    assert_eq!(discovery["issuer"], ISSUER);
    assert_eq!(discovery["jwks_uri"], jwks_uri);

    server.create_service_account("demo", "app").await?;
    let token = server.token_request(("demo", "app"), e2e::cluster::API_AUDIENCE, 600).await?;
    let user = server.self_subject_review(&token).await?;
    assert_eq!(user, Ok("system:serviceaccount:demo:app".to_owned()));
    let foreign = server.token_request(("demo", "app"), "someone-else", 600).await?;
    let refusal = server.self_subject_review(&foreign).await?;
    assert_eq!(refusal.map_err(|refusal| refusal.status), Err(Some(401)));

    let version = server.kube_client().await?.apiserver_version().await?;
    assert_eq!(version.git_version, "v1.36.3");
    Ok(())
}

#[tokio::test]
async fn two_kube_apiservers_on_one_prefix_are_one_cluster() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("keys")?;
    let (one, two) = (signing_key(&dir, "one.key")?, signing_key(&dir, "two.key")?);
    let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &one)?;
    let first = KubeApiserver::start(&cluster).await?;
    let second = KubeApiserver::start(&cluster.clone().signing_key(&two).keys(&[&one, &two])).await?;

    first.create_service_account("demo", "app").await?;
    let token = second.token_request(("demo", "app"), e2e::cluster::API_AUDIENCE, 600).await?;
    assert!(second.self_subject_review(&token).await?.is_ok());
    let unknown_key = first.self_subject_review(&token).await?;
    assert_eq!(unknown_key.map_err(|refusal| refusal.status), Err(Some(401)));
    let jwks = "/openid/v1/jwks";
    assert_ne!(first.get_raw(jwks).await?, second.get_raw(jwks).await?);
    Ok(())
}

#[tokio::test]
async fn kube_apiserver_takes_an_authentication_configuration() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("keys")?;
    let authority = Authority::new(dir.path())?;
    let trusted = TrustedIssuer {
        url: "https://127.0.0.1:1/nobody".to_owned(),
        audiences: vec!["one".to_owned(), "two".to_owned()],
        ca_pem: authority.pem().to_owned(),
    };
    let key = signing_key(&dir, "sa.key")?;
    let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &key)?.trusts(trusted);
    let server = KubeApiserver::start(&cluster).await?;
    assert!(server.self_subject_review(server.admin_token()).await?.is_ok());
    Ok(())
}

#[tokio::test]
async fn minio_keeps_an_object_and_shows_it_to_anyone() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let minio = Minio::start().await?;
    minio.create_bucket("private").await?;
    minio.create_public_bucket("public").await?;
    let anyone = http::client(None)?;
    for (bucket, status) in [("private", 403), ("public", 200)] {
        minio.put_object(bucket, "a/b", b"content").await?;
        assert_eq!(minio.read_object(bucket, "a/b").await?, b"content");
        let seen = anyone.get(minio.object_url(bucket, "a/b")).send().await?;
        assert_eq!(seen.status(), status, "{bucket}");
    }
    Ok(())
}

#[test]
fn a_certificate_is_renewed_in_place() -> Result<()> {
    let dir = Scratch::new("certificates")?;
    let authority = Authority::new(dir.path())?;
    let first = std::fs::read(authority.issue(dir.path(), &LOOPBACK)?.cert)?;
    let second = std::fs::read(authority.issue(dir.path(), &LOOPBACK)?.cert)?;
    assert_ne!(first, second);
    Ok(())
}
