//! Each real server starts, answers and stops.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, anyhow, ensure};
use e2e::authority::{Authority, LOOPBACK};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::READY;
use e2e::relying_party::TrustedIssuer;
use e2e::scratch::Scratch;
use e2e::token::{self, TokenSigner};
use e2e::token_verifier::TokenVerifier;
use e2e::{binary, http, ports};
use serde_json::json;

const ISSUER: &str = "https://issuer.example";

fn signing_key(dir: &Scratch, name: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    let made =
        Command::new("openssl").args(["genrsa", "-traditional", "-out"]).arg(&path).arg("2048").output()?;
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
    let mut first = KubeApiserver::start(&cluster).await?;
    let second = KubeApiserver::start(&cluster.clone().signing_key(&two).keys(&[&one, &two])).await?;

    first.create_service_account("demo", "app").await?;
    let token = second.token_request(("demo", "app"), e2e::cluster::API_AUDIENCE, 600).await?;
    assert!(second.self_subject_review(&token).await?.is_ok());
    let unknown_key = first.self_subject_review(&token).await?;
    assert_eq!(unknown_key.map_err(|refusal| refusal.status), Err(Some(401)));
    let jwks = "/openid/v1/jwks";
    assert_ne!(first.get_raw(jwks).await?, second.get_raw(jwks).await?);

    first.process().kill()?;
    assert!(first.get_raw(jwks).await.is_err());
    let successor = KubeApiserver::start_on(first.port(), second.cluster()).await?;
    assert_eq!(successor.get_raw(jwks).await?, second.get_raw(jwks).await?);
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

/// Anyone may read the documents of a cluster's own issuer; by default only ServiceAccounts may.
async fn publish_discovery(server: &KubeApiserver) -> Result<()> {
    let binding = json!({
        "metadata": { "name": "discovery-for-anyone" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:service-account-issuer-discovery",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Group",
            "name": "system:unauthenticated",
        }],
    });
    server.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await
}

/// A kube-apiserver that is its own public issuer, as the three relying parties need one.
async fn issuing_cluster(dir: &Scratch) -> Result<(String, KubeApiserver)> {
    let port = ports::free()?;
    let issuer = format!("https://127.0.0.1:{port}");
    let cluster = Cluster::new(Etcd::shared().await?.url(), &issuer, &signing_key(dir, "issuer.key")?)?
        .jwks_uri(&format!("{issuer}/openid/v1/jwks"));
    let server = KubeApiserver::start_on(port, &cluster).await?;
    publish_discovery(&server).await?;
    server.create_service_account("demo", "app").await?;
    Ok((issuer, server))
}

/// Tokens that differ from a good one in one thing each.
async fn refused_tokens(
    good: &str,
    server: &KubeApiserver,
    dir: &Scratch,
) -> Result<Vec<(&'static str, String)>> {
    let signer = TokenSigner::read(&dir.join("issuer.key"))?;
    let foreign = TokenSigner::generate()?;
    assert_eq!(token::kid(good)?, signer.kid());
    let claims = token::claims(good)?;
    Ok(vec![
        ("wrong audience", server.token_request(("demo", "app"), "someone-else", 600).await?),
        ("expired", signer.sign(&token::a_day_earlier(&claims))?),
        ("foreign key under a published kid", foreign.sign_as(signer.kid(), &claims)?),
        ("unpublished key", foreign.sign(&claims)?),
    ])
}

#[tokio::test]
async fn relying_parties_accept_a_good_token_and_refuse_the_others() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio", "go-oidc"]) {
        return Ok(());
    }
    let dir = Scratch::new("keys")?;
    let (url, server) = issuing_cluster(&dir).await?;
    let subject = "system:serviceaccount:demo:app";
    let right = server.token_request(("demo", "app"), "rp", 600).await?;
    let signed_again = TokenSigner::read(&dir.join("issuer.key"))?.sign(&token::claims(&right)?)?;
    let refused = refused_tokens(&right, &server, &dir).await?;

    let mut go_oidc = TokenVerifier::start("go-oidc", &url, "rp", server.ca_path()).await?;
    assert_eq!(go_oidc.verify(&right).await?, Ok(subject.to_owned()));
    assert_eq!(go_oidc.verify(&signed_again).await?, Ok(subject.to_owned()));
    for (why, token) in &refused {
        assert!(go_oidc.verify(token).await?.is_err(), "go-oidc accepted a token: {why}");
    }

    let ca_pem = server.ca_pem().to_owned();
    let trusted = TrustedIssuer { url, audiences: vec!["rp".to_owned()], ca_pem };
    let key = signing_key(&dir, "other.key")?;
    let other = Cluster::new(Etcd::shared().await?.url(), ISSUER, &key)?.trusts(trusted.clone());
    let other = KubeApiserver::start(&other).await?;
    assert_eq!(other.self_subject_review_within(READY, &right).await?, Ok(format!("oidc:{subject}")));
    for (why, token) in &refused {
        let status = other.self_subject_review(token).await?.err().and_then(|refusal| refusal.status);
        assert_eq!(status, Some(401), "kube-apiserver on a token: {why}");
    }

    let minio = Minio::start_trusting(&trusted).await?;
    minio.create_bucket("private").await?;
    minio.put_object("private", "key", b"content").await?;
    let credentials = minio.assume_role_with_web_identity(&right).await?;
    let credentials = credentials.map_err(|refusal| anyhow!("{refusal}"))?;
    assert_eq!(minio.read_object_with(&credentials, "private", "key").await?, b"content");
    for (why, token) in &refused {
        let status =
            minio.assume_role_with_web_identity(token).await?.err().and_then(|refusal| refusal.status);
        assert_eq!(status, Some(400), "MinIO on a token: {why}");
    }
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
