//! The closed loop: a key of `chancery keygen` signs in a real cluster, `chancery issuer` watches that cluster and
//! publishes, and relying parties that know nothing but the issuer URL accept its tokens, and no others.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::READY;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target, directory_target};
use e2e::token::{self, TokenSigner};
use e2e::token_verifier::TokenVerifier;
use e2e::{binary, chancery};
use serde_json::json;

const ISSUER: &str = "/cluster-a";
const AUDIENCE: &str = "relying-party";
const ACCOUNT: (&str, &str) = ("demo", "app");
const SUBJECT: &str = "system:serviceaccount:demo:app";
const PATHS: [&str; 2] = ["openid/v1/jwks", ".well-known/openid-configuration"];

/// A cluster that issues, and the site whose issuer it says it is.
struct Stage {
    keys: Scratch,
    site: Site,
    cluster: KubeApiserver,
    minio: Minio,
}

impl Stage {
    async fn new() -> Result<Self> {
        let mut site = Site::new()?;
        let keys = Scratch::new("keys")?;
        let out = ["keygen", "new", "--out-dir"].map(Path::new);
        chancery::run(&[out.as_slice(), &[keys.path()]].concat()).await?.success()?;
        let url = site.url(ISSUER);
        let cluster = Cluster::new(Etcd::shared().await?.url(), &url, &keys.join("sa.key"))?
            .jwks_uri(&format!("{url}/openid/v1/jwks"));
        let (cluster, minio) = tokio::try_join!(KubeApiserver::start(&cluster), Minio::start())?;
        cluster.create_service_account(ACCOUNT.0, ACCOUNT.1).await?;

        let kubeconfig = site.dir().join("kubeconfig");
        cluster.kubeconfig(&kubeconfig)?;
        minio.create_public_bucket("documents").await?;
        std::fs::create_dir(site.dir().join("published"))?;
        let sources = json!([{ "kubeApiserver": {
            "endpoints": [cluster.url()], "kubeconfig": kubeconfig, "pollSeconds": 1,
        } }]);
        let targets = json!([
            bucket_target(&minio, minio.endpoint(), "documents"),
            directory_target(&site.dir().join("published")),
        ]);
        site.add_issuer(ISSUER, sources, targets)?;
        site.use_credentials_of(&minio);
        Ok(Self { keys, site, cluster, minio })
    }

    /// Every place that relying parties read holds the bytes that the cluster itself serves.
    async fn is_published_everywhere(&self) -> Result<()> {
        let kid = TokenSigner::read(&self.keys.join("sa.key"))?.kid().to_owned();
        let bucket = format!("{}/documents", self.minio.endpoint());
        for base in [&self.site.url(ISSUER), &bucket] {
            self.site.shows(base, &[&kid]).await?;
        }
        let directory = self.site.dir().join("published");
        let there = async || Ok(PATHS.iter().all(|path| directory.join(path).is_file()));
        e2e::wait::until("the documents in the directory", there).await?;
        for path in PATHS {
            let expected = self.cluster.get_raw(&format!("/{path}")).await?;
            ensure!(self.site.read(&self.site.url(ISSUER), path).await? == expected, "served {path}");
            ensure!(self.site.read(&bucket, path).await? == expected, "{path} in the bucket");
            ensure!(std::fs::read(directory.join(path))? == expected, "{path} in the directory");
        }
        Ok(())
    }

    async fn token(&self, audience: &str) -> Result<String> {
        self.cluster.token_request(ACCOUNT, audience, 600).await
    }

    /// Tokens that differ from a good one in one thing each.
    async fn bad_tokens(&self) -> Result<Vec<(&'static str, String)>> {
        let claims = token::claims(&self.token(AUDIENCE).await?)?;
        let signer = TokenSigner::read(&self.keys.join("sa.key"))?;
        let stranger = TokenSigner::generate()?;
        Ok(vec![
            ("wrong audience", self.token("someone-else").await?),
            ("expired", signer.sign(&token::a_day_earlier(&claims))?),
            ("foreign key under a published kid", stranger.sign_as(signer.kid(), &claims)?),
            ("unpublished key", stranger.sign(&claims)?),
        ])
    }
}

async fn second_cluster_decides(stage: &Stage, good: &str, bad: &[(&str, String)]) -> Result<()> {
    let dir = Scratch::new("second-cluster")?;
    let key = KeyFile::new(&dir, "sa")?;
    let trusted = stage.site.trusted(ISSUER, AUDIENCE);
    let cluster = Cluster::new(Etcd::shared().await?.url(), "https://second.example", &key.private)?;
    let server = KubeApiserver::start(&cluster.trusts(trusted)).await?;
    let verdict = server.self_subject_review_within(READY, good).await?;
    ensure!(verdict == Ok(format!("oidc:{SUBJECT}")), "kube-apiserver: {verdict:?}");
    for (why, token) in bad {
        let status = server.self_subject_review(token).await?.err().and_then(|refusal| refusal.status);
        ensure!(status == Some(401), "kube-apiserver on a token: {why}: {status:?}");
    }
    Ok(())
}

async fn minio_sts_decides(stage: &Stage, good: &str, bad: &[(&str, String)]) -> Result<()> {
    let minio = Minio::start_trusting(&stage.site.trusted(ISSUER, AUDIENCE)).await?;
    minio.create_bucket("private").await?;
    minio.put_object("private", "object", b"content").await?;
    let credentials = minio.assume_role_with_web_identity(good).await?;
    let credentials = credentials.map_err(|refusal| anyhow!("MinIO: {refusal}"))?;
    ensure!(minio.read_object_with(&credentials, "private", "object").await? == b"content");
    for (why, token) in bad {
        let refusal = minio.assume_role_with_web_identity(token).await?.err();
        let status = refusal.and_then(|refusal| refusal.status);
        ensure!(status == Some(400), "MinIO on a token: {why}: {status:?}");
    }
    Ok(())
}

async fn go_oidc_decides(stage: &Stage, good: &str, bad: &[(&str, String)]) -> Result<()> {
    let ca = stage.site.authority().path();
    let mut go_oidc = TokenVerifier::start("go-oidc", &stage.site.url(ISSUER), AUDIENCE, ca).await?;
    let verdict = go_oidc.verify(good).await?;
    ensure!(verdict == Ok(SUBJECT.to_owned()), "go-oidc: {verdict:?}");
    for (why, token) in bad {
        ensure!(go_oidc.verify(token).await?.is_err(), "go-oidc accepted a token: {why}");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_is_published_and_every_relying_party_accepts_its_tokens_and_no_others() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio", "go-oidc"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let mut service = stage.site.start_ready().await?;
    stage.is_published_everywhere().await?;

    let (good, bad) = (stage.token(AUDIENCE).await?, stage.bad_tokens().await?);
    tokio::try_join!(
        second_cluster_decides(&stage, &good, &bad),
        minio_sts_decides(&stage, &good, &bad),
        go_oidc_decides(&stage, &good, &bad),
    )?;

    let (url, ca, key) = (stage.site.url(ISSUER), stage.site.authority().path(), stage.keys.join("sa.pub"));
    let verify = ["verify", &url, "--for", "kubernetes,minio", "--ca"].map(Path::new);
    let expect = [ca, Path::new("--expect-key"), &key];
    chancery::run(&[verify.as_slice(), &expect].concat()).await?.success()?;
    let stranger = KeyFile::new(&stage.keys, "stranger")?;
    let expect = [ca, Path::new("--expect-key"), &stranger.public];
    let missing = chancery::run(&[verify.as_slice(), &expect].concat()).await?;
    assert_eq!(missing.code, Some(3), "{}{}", missing.stdout, missing.stderr);
    assert!(missing.stdout.contains(&stranger.kid), "{}", missing.stdout);

    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}
