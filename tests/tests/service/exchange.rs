//! The whole way of a workload's token: a real kube-apiserver signs it, `chancery issuer` publishes the keys, `chancery
//! exchange` takes it where it is wanted, and whoever gives something for it knows nothing but our documents.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use aws_sdk_s3::config::Credentials;
use chancery_core::ring::{Request, Step};
use e2e::chancery::{self, IssuerService, Output};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::READY;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::token::{self, TokenSigner};
use e2e::{binary, wait};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::argocd::repositories_of_argo_cd_log_in_by_their_projects;
use crate::ring::Ring;

pub const ISSUER: &str = "/cluster-a";
pub const AUDIENCE: &str = "sts.amazonaws.com";
const ACCOUNT: (&str, &str) = ("demo", "app");

/// A cluster that issues, its ring of two keys, and the service that publishes them.
pub struct Stage {
    dir: Scratch,
    pub site: Site,
    ring: Ring,
    signing: KeyFile,
    second: KeyFile,
    pub cluster: KubeApiserver,
    service: IssuerService,
}

impl Stage {
    pub async fn new() -> Result<Self> {
        let (mut site, dir) = (Site::new()?, Scratch::new("exchange")?);
        let (signing, second) = (KeyFile::new(&dir, "signing")?, KeyFile::new(&dir, "second")?);
        let issuer = site.url(ISSUER);
        let mut ring = Ring::new(&dir, &issuer).await?;
        ring.adopt(&signing, true).await?;
        ring.adopt(&second, false).await?;
        let www = dir.join("www");
        std::fs::create_dir(&www)?;
        let sources = json!([{ "ring": { "directory": dir.join("ring") } }]);
        site.add_issuer(ISSUER, sources, json!([directory_target(&www)]))?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), &issuer, &signing.private)?
            .jwks_uri(&format!("{issuer}/openid/v1/jwks"));
        let (service, cluster) = tokio::try_join!(site.start_ready(), KubeApiserver::start(&cluster))?;
        site.shows(&issuer, &[&signing.kid, &second.kid]).await.with_context(|| service.log())?;
        Ok(Self { dir, site, ring, signing, second, cluster, service })
    }

    /// The kubeconfig of whoever has the Role of docs/exchange.md, and no other right.
    async fn least_rights(&self) -> Result<PathBuf> {
        let (namespace, app) = ACCOUNT;
        for name in [app, "other", "exchanger"] {
            self.cluster.create_service_account(namespace, name).await?;
        }
        let below = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        let rules = json!([
            { "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [app], "verbs": ["get"] },
            { "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [app], "verbs": ["create"] },
        ]);
        let role = json!({ "metadata": { "name": "exchanger" }, "rules": rules });
        self.cluster.create(&format!("{below}/roles"), &role).await?;
        let binding = json!({
            "metadata": { "name": "exchanger" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "exchanger" },
            "subjects": [{ "kind": "ServiceAccount", "name": "exchanger", "namespace": namespace }],
        });
        self.cluster.create(&format!("{below}/rolebindings"), &binding).await?;
        let token = self.cluster.token_request((namespace, "exchanger"), API_AUDIENCE, 3600).await?;
        let path = self.dir.join("kubeconfig");
        self.cluster.kubeconfig_with(&token, &path)?;
        Ok(path)
    }

    /// A token in a file that its owner alone reads.
    pub fn token_file(&self, name: &str, token: &str) -> Result<String> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.dir.write(name, token)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(format!("file:{}", path.display()))
    }

    /// The claims of a token that the cluster gave.
    async fn claims(&self) -> Result<Value> {
        token::claims(&self.cluster.token_request(ACCOUNT, AUDIENCE, 600).await?)
    }

    async fn exchange(&self, minio: &Minio, subcommand: &str, further: &[&str]) -> Result<Output> {
        let to = ["exchange", subcommand, "--to", "aws", "--sts-endpoint", minio.endpoint()];
        let role = ["--role-arn", minio.role_arn()?, "--region", minio.region()];
        chancery::run(&[to.as_slice(), &role, further].concat()).await
    }

    /// Takes the second key out for good.
    async fn revoke_the_second_key(&mut self) -> Result<()> {
        let kid = self.second.public_key()?.key_id().clone();
        let asked = self.ring.ring.request(&Request::Revoke { kid: kid.clone(), at_once: true })?;
        self.ring.write(asked.apply(&Step::Revoke(kid))?).await?;
        let issuer = self.site.url(ISSUER);
        self.site.shows(&issuer, &[&self.signing.kid]).await.with_context(|| self.service.log())
    }
}

pub fn credentials_in(stdout: &str) -> Result<Credentials> {
    let keys: Value = serde_json::from_str(stdout)?;
    let text = |name: &str| {
        let text = keys.get(name).and_then(Value::as_str).map(str::to_owned);
        text.with_context(|| format!("no {name}"))
    };
    let (id, secret) = (text("AccessKeyId")?, text("SecretAccessKey")?);
    Ok(Credentials::new(id, secret, Some(text("SessionToken")?), None, "chancery"))
}

fn refused(output: &Output, code: i32, parts: &[&str]) -> Result<()> {
    let Output { code: came, stdout, stderr } = output;
    ensure!(*came == Some(code), "{came:?}, expected {code}\n{stdout}\n{stderr}");
    let text = format!("{stdout}{stderr}");
    for part in parts {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_service_accounts_token_opens_a_bucket_and_a_token_that_is_wrong_in_one_thing_does_not()
-> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let kubeconfig = stage.least_rights().await?.display().to_string();
    let ca = stage.site.authority().path().display().to_string();
    let minio = Minio::start_trusting(&stage.site.trusted(ISSUER, AUDIENCE)).await?;
    minio.create_bucket("private").await?;
    minio.put_object("private", "object", b"content").await?;

    let of = |name: &'static str| [format!("service-account:demo/{name}"), kubeconfig.clone()];
    let [app, kubeconfig_path] = of("app");
    let app = ["--source", &app, "--kubeconfig", &kubeconfig_path];
    let keys = [app.as_slice(), &["--format", "credential-process"]].concat();
    let keys = credentials_in(&stage.exchange(&minio, "get", &keys).await?.success()?)?;
    ensure!(minio.read_object_with(&keys, "private", "object").await? == b"content");
    let explained = [app.as_slice(), &["--check-issuer", "--ca", &ca]].concat();
    let explained = stage.exchange(&minio, "explain", &explained).await?.success()?;
    for part in
        ["it may be sent", "were looked at", "MINIO_IDENTITY_OPENID_CLIENT_ID_CHANCERY=sts.amazonaws.com"]
    {
        ensure!(explained.contains(part), "{part:?} is missing in\n{explained}");
    }

    // The Role names one ServiceAccount, and no other can be had by it.
    let [other, kubeconfig_path] = of("other");
    let other = ["--source", &other, "--kubeconfig", &kubeconfig_path];
    refused(&stage.exchange(&minio, "get", &other).await?, 10, &["serviceaccounts", "other"])?;

    wrong_audiences(&stage, &minio, &app).await?;
    keys_that_are_not_published(&mut stage, &minio, &ca).await?;
    assert_eq!(stage.service.terminate().await?, Some(0), "{}", stage.service.log());
    Ok(())
}

/// A token for somebody else is not sent; one that is asked for somebody else is refused by whom it is sent to.
async fn wrong_audiences(stage: &Stage, minio: &Minio, app: &[&str]) -> Result<()> {
    let foreign = stage.cluster.token_request(ACCOUNT, "someone-else", 600).await?;
    let foreign = stage.token_file("foreign", &foreign)?;
    let source = ["--source", foreign.as_str()];
    let differs = [r#"["someone-else"]"#, AUDIENCE];
    refused(&stage.exchange(minio, "get", &source).await?, 10, &differs)?;
    refused(&stage.exchange(minio, "explain", &source).await?, 3, &differs)?;
    let asked = [app, &["--audience", "someone-else"]].concat();
    refused(&stage.exchange(minio, "get", &asked).await?, 10, &["[sts-audience]", "someone-else"])
}

/// A stranger's key, and one of the issuer's that is revoked.
async fn keys_that_are_not_published(stage: &mut Stage, minio: &Minio, ca: &str) -> Result<()> {
    let (claims, stranger) = (stage.claims().await?, TokenSigner::generate()?);
    let unknown = stage.token_file("unknown", &stranger.sign(&claims)?)?;
    let source = ["--source", unknown.as_str()];
    refused(&stage.exchange(minio, "get", &source).await?, 10, &["[sts-key-unknown]", stranger.kid()])?;
    let checked = [source.as_slice(), &["--check-issuer", "--ca", ca]].concat();
    let missing = [stranger.kid(), stage.signing.kid.as_str(), "not published yet"];
    refused(&stage.exchange(minio, "explain", &checked).await?, 3, &missing)?;

    let signer = TokenSigner::read(&stage.second.private)?;
    let second = stage.token_file("second", &signer.sign(&claims)?)?;
    let source = ["--source", second.as_str()];
    let checked = [source.as_slice(), &["--check-issuer", "--ca", ca]].concat();
    stage.exchange(minio, "get", &source).await?.success()?;
    stage.exchange(minio, "explain", &checked).await?.success()?;
    stage.revoke_the_second_key().await?;
    refused(&stage.exchange(minio, "explain", &checked).await?, 3, &[signer.kid(), "revoked"])?;
    // Whoever read the keys before the revocation holds them still; whoever reads them now does not.
    let anew = Minio::start_trusting(&stage.site.trusted(ISSUER, AUDIENCE)).await?;
    refused(&stage.exchange(&anew, "get", &source).await?, 10, &["[sts-key-unknown]", signer.kid()])
}

/// What is not there cannot be compared, which is a warning; what is another issuer's is refused.
#[tokio::test]
async fn an_issuer_that_cannot_be_read_is_a_warning_and_another_ones_documents_are_a_refusal() -> Result<()> {
    let (mut site, dir) = (Site::new()?, Scratch::new("exchange")?);
    let key = KeyFile::p256(&dir, "key")?;
    site.add_issuer_of_files(ISSUER, &[&key.public], json!([]))?;
    let _service = site.start_ready().await?;
    site.shows(&site.url(ISSUER), &[&key.kid]).await?;
    let ca = site.authority().path();
    let signer = TokenSigner::read(&key.private)?;
    let now = jiff::Timestamp::now().as_second();
    for (issuer, code, part) in [
        (site.url(ISSUER), 0, "it may be sent"),
        (site.url("/nobody"), 0, "warning: iss"),
        (site.url(ISSUER) + "/", 3, "a slash at its end"),
        ("http://id.example".to_owned(), 0, "cannot be read here"),
    ] {
        let claims = json!({ "iss": issuer, "sub": "s", "aud": ["rp"], "exp": now + 600, "iat": now });
        let path = dir.write("token", signer.sign(&claims)?)?;
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let source = format!("file:{}", path.display());
        let explain = ["exchange", "explain", "--to", "direct", "--audience", "rp", "--source", &source];
        let output = chancery::run(
            &[explain.map(Path::new).as_slice(), &["--check-issuer", "--ca"].map(Path::new), &[ca]].concat(),
        )
        .await?;
        refused(&output, code, &[part])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_token_opens_a_second_cluster_through_a_credential_plugin() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let kubeconfig = stage.least_rights().await?.display().to_string();
    let key = KeyFile::new(&stage.dir, "second-cluster")?;
    let second = Cluster::new(Etcd::shared().await?.url(), "https://second.example", &key.private)?;
    let second = second.trusts(stage.site.trusted(ISSUER, "second-cluster"));
    let second = KubeApiserver::start(&second).await?;
    let user = async |audience: &str| {
        let plugin = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": binary::chancery()?, "interactiveMode": "Never",
            "args": ["exchange", "get", "--format", "exec-credential", "--to", "direct", "--audience", audience,
                "--source", "service-account:demo/app", "--kubeconfig", kubeconfig],
        });
        let text = json!({
            "current-context": "c", "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": { "server": second.url(), "certificate-authority": second.ca_path() } }],
            "users": [{ "name": "u", "user": { "exec": plugin } }],
        });
        let read = kube::config::Kubeconfig::from_yaml(&text.to_string())?;
        let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await?;
        // Making the client is what runs the plugin, and waits for it.
        let client = tokio::task::spawn_blocking(move || kube::Client::try_from(config)).await??;
        let review = Api::<SelfSubjectReview>::all(client);
        let answer = review.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
        anyhow::Ok(answer.status.and_then(|status| status.user_info?.username).unwrap_or_default())
    };
    let known = wait::value_within(READY, "a user of the second cluster", async || {
        user("second-cluster").await.map(Some)
    });
    ensure!(known.await? == "oidc:system:serviceaccount:demo:app");
    let stranger = user("someone-else").await;
    let refusal = stranger.map_err(|error| format!("{error:#}")).err().context("a stranger was let in")?;
    ensure!(refusal.contains("401") || refusal.contains("Unauthorized"), "{refusal}");
    repositories_of_argo_cd_log_in_by_their_projects(&stage.cluster, &stage.dir).await
}
