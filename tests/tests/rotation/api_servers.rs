//! Kube-apiservers, nodes and copies of tokens that hold a rotation back, each by name.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chancery_core::ring::KeyState;
use e2e::cluster::API_AUDIENCE;
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::Process;
use e2e::token::{self, TokenSigner};
use e2e::{binary, chancery, ports, wait};
use k8s_openapi::api::core::v1::{Node, Secret, ServiceAccount};
use kube::Api;
use serde_json::{Value, json};

use crate::stage::{ACCOUNT, Conduct, Stage};

/// Looks are a second apart, on a busy machine.
const LONG: Duration = Duration::from_secs(180);
const JOINING: &str = "joining-control-plane";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kube_apiservers_nodes_and_copies_of_tokens_hold_back_is_said_by_name() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let _alone = crate::STAGE.lock().await;
    // The last kube-apiserver hears of no key for an hour.
    let stage = Stage::conducted(Conduct { rotate: false, refresh_hints: ["5s", "5s", "1h"] }).await?;
    let port = ports::free()?;
    let rotating = rotate_by(&stage, port)?;
    let seen = async |what: &str, words: &[&str], no_words: &[&str]| {
        let planned = plan_is(&stage, what, (words, no_words)).await;
        planned.with_context(|| format!("{}\n{}", rotating.log(), stage.logs()))
    };

    stage.standby(3).await?;
    let ring = stage.ring().await?;
    let first = ring.active().context("nobody signs")?.kid().clone();
    let standby = ring.in_state(KeyState::Published).next().context("no standby")?.kid().clone();
    stage.ring_command("rotate", &[]).await?.success()?;
    let of_c = "VerifierNotLoaded: kube-apiserver of c does not verify with it";
    seen(
        "what holds back",
        &[of_c, "VerifierNotLoaded: kube-apiserver of d is not seen: "],
        &["of a ", "of b "],
    )
    .await?;

    // A fourth one signs with files, which the ring has adopted nothing of.
    let fourth = from_files(&stage, port, "before").await?;
    let client = stage.servers[0].kube_client().await?;
    let label = json!({ "node-role.kubernetes.io/control-plane": "" });
    let node = json!({ "metadata": { "name": JOINING, "labels": label } });
    stage.servers[0].create("/api/v1/nodes", &node).await?;
    let joins = format!("NodeInMotion: node {JOINING} is joining");
    seen("a node that joins", &[of_c, &joins], &["of d "]).await?;
    ensure!(stage.ring().await?.position().epoch == ring.position().epoch, "it signs already");

    // A key id that nobody has told it of has it ask its signer.
    let claims = token::claims(&stage.servers[0].token_request(ACCOUNT, API_AUDIENCE, 600).await?)?;
    let forged = TokenSigner::generate()?.sign_as(standby.as_str(), &claims)?;
    let verdict = stage.servers[2].self_subject_review(&forged).await?;
    ensure!(verdict.is_err(), "a forged token is good: {verdict:?}");
    seen("every kube-apiserver with the key", &[&joins], &["VerifierNotLoaded"]).await?;
    Api::<Node>::all(client.clone()).delete(JOINING, &kube::api::DeleteParams::default()).await?;
    let epoch = ring.position().epoch;
    stage.ring_is("an activation", |ring| ring.position().epoch > epoch).await?;

    let retires = format!("retire {first}");
    let elsewhere = "SignedElsewhere: kube-apiserver of d signs with it";
    seen("who signs with it", &[&retires, elsewhere], &["LegacyTokens"]).await?;
    let status = stage.ring_command("status", &[]).await?.success()?;
    ensure!(status.contains(&format!("d  verifies with 2 of 2 keys, signs with {first}")), "{status}");
    copies(&stage, client).await?;

    drop(fourth);
    let _fourth = from_files(&stage, port, "after").await?;
    seen("nobody who signs with it", &[&retires], &["SignedElsewhere"]).await
}

/// A token that does not expire, in a Secret and in a kubeconfig of a host.
async fn copies(stage: &Stage, client: kube::Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), ACCOUNT.0);
    let accounts: Api<ServiceAccount> = Api::namespaced(client, ACCOUNT.0);
    let uid = accounts.get(ACCOUNT.1).await?.metadata.uid.context("an account without a UID")?;
    let (dir, _) = stage.files();
    let token = TokenSigner::read(&dir.join("before/sa.key"))?.sign(&json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": ACCOUNT.0,
        "kubernetes.io/serviceaccount/secret.name": "endless",
        "kubernetes.io/serviceaccount/service-account.name": ACCOUNT.1,
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": format!("system:serviceaccount:{}:{}", ACCOUNT.0, ACCOUNT.1),
    }))?;
    let secret = json!({
        "metadata": { "name": "endless", "annotations": { "kubernetes.io/service-account.name": ACCOUNT.1 } },
        "type": "kubernetes.io/service-account-token",
        "stringData": { "token": token },
    });
    stage.servers[0].create(&format!("/api/v1/namespaces/{}/secrets", ACCOUNT.0), &secret).await?;
    // It is good, and kube-apiserver writes down that it was used.
    wait::until("a token that is accepted", async || {
        Ok(stage.servers[0].token_review(&token, &[API_AUDIENCE]).await?.is_ok())
    })
    .await?;
    plan_is(stage, "the copies", (&["LegacyTokens: a census found 1 of its tokens that live on"], &[]))
        .await?;
    plan_is(stage, "its use", (&["SeenInUse: a token of it was in use "], &[])).await?;
    let kubeconfig =
        dir.write("calico-kubeconfig", format!("users: [{{ user: {{ token: \"{token}\" }} }}]"))?;
    let place = kubeconfig.display().to_string();
    let named = stage.ring_command("census", &["--host-path", &place]).await?;
    ensure!(named.code == Some(3), "{named:?}");
    let lines = [
        format!("  Secret {}/endless token: does not expire, last used on ", ACCOUNT.0),
        format!("  file {place}: does not expire\n"),
    ];
    ensure!(lines.iter().all(|line| named.stdout.contains(line)), "{named:?}");
    ensure!(!named.stdout.contains(&token), "the token is shown");
    secrets.delete("endless", &kube::api::DeleteParams::default()).await?;
    plan_is(stage, "no copies", (&["retire "], &["LegacyTokens", "SeenInUse"])).await
}

/// Has the ring rotated by a policy that names four kube-apiservers, of which the last one does not run yet.
fn rotate_by(stage: &Stage, port: u16) -> Result<Process> {
    let (dir, path) = stage.files();
    let kubeconfig = dir.join("kubeconfig");
    stage.servers[0].kubeconfig(&kubeconfig)?;
    let mut policy: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let fourth = ("d", format!("https://127.0.0.1:{port}"));
    let servers = ["a", "b", "c"].into_iter().zip(stage.servers.iter().map(|server| server.url().to_owned()));
    let servers = servers.chain([fourth]).map(|(name, server)| json!({ "name": name, "server": server }));
    policy["apiServers"] = json!({
        "kubeconfig": kubeconfig,
        "servers": servers.collect::<Vec<_>>(),
        "serviceAccount": format!("{}/{}", ACCOUNT.0, ACCOUNT.1),
        "look": "1s",
    });
    policy["census"] = json!({ "kubeconfig": kubeconfig, "every": "1s" });
    std::fs::write(path, policy.to_string())?;
    chancery::rotate(path, &dir.join("run.log"))
}

/// A kube-apiserver that signs and verifies with the ring's keys of this moment, from files in a folder.
async fn from_files(stage: &Stage, port: u16, folder: &str) -> Result<KubeApiserver> {
    let out = stage.files().0.join(folder);
    std::fs::create_dir(&out)?;
    stage.ring_command("export", &["--out-dir", &out.display().to_string()]).await?.success()?;
    let (signing, verifying) = (out.join("sa.key"), out.join("sa.pub"));
    let keys: [&Path; 1] = [&verifying];
    KubeApiserver::start_on(port, &stage.cluster.clone().signing_key(&signing).keys(&keys)).await
}

/// Waits for a plan with these words, and without those.
async fn plan_is(stage: &Stage, what: &str, (words, no_words): (&[&str], &[&str])) -> Result<()> {
    let mut last = String::new();
    let planned = wait::value_within(LONG, what, async || {
        last = stage.ring_command("plan", &[]).await?.stdout;
        let is_so =
            words.iter().all(|word| last.contains(word)) && !no_words.iter().any(|word| last.contains(word));
        Ok(is_so.then_some(()))
    })
    .await;
    planned
        .with_context(|| format!("the last plan, where {words:?} and not {no_words:?} was expected:\n{last}"))
}
