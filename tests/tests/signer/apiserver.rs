//! kube-apiserver signs and verifies through `chancery signer`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{API_AUDIENCE, Cluster, KUBERNETES_1_33};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::signer::SignerProcess;
use e2e::token::{self, TokenSigner};
use e2e::{binary, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{ACCOUNT, ISSUER, Stage, encoded, shown, subject, token as api_token};

const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];

#[tokio::test]
async fn a_token_is_requested_signed_shown_and_reviewed() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::new(&stage.dir, "sa")?;
    let signing = key.private.display().to_string();
    let _signer = stage.signer(&["--signing-key-file", &signing]).await?;
    let server = stage.apiserver().await?;

    let discovery: Value =
        serde_json::from_slice(&server.get_raw("/.well-known/openid-configuration").await?)?;
    ensure!(
        discovery["issuer"] == ISSUER && discovery["id_token_signing_alg_values_supported"][0] == "RS256"
    );
    assert_eq!(shown(&server).await?, std::slice::from_ref(&key.kid));

    let issued = api_token(&server).await?;
    assert_eq!(token::kid(&issued)?, key.kid);
    assert_eq!(server.token_review(&issued, &[]).await?, Ok(subject()));
    let outside = server.token_request(ACCOUNT, "vault", 600).await?;
    assert_eq!(server.token_review(&outside, &["vault"]).await?, Ok(subject()));
    assert!(server.token_review(&outside, &[API_AUDIENCE]).await?.is_err());

    let claims = token::claims(&outside)?;
    let seconds = |name: &str| claims.get(name).and_then(Value::as_u64).context("no time");
    assert_eq!(seconds("exp")? - seconds("iat")?, 600);
    Ok(())
}

/// Kubernetes 1.32 and 1.33 ask by `v1alpha1`. They serve no documents beside an external signer: nobody hands its keys to
/// what renders them (`pkg/controlplane/apiserver/config.go`, mended in 1.34).
#[tokio::test]
#[ignore = "an older Kubernetes is built for it: make soak"]
async fn kubernetes_1_33_signs_by_v1alpha1_and_serves_no_documents() -> Result<()> {
    if binary::skipped(&["etcd", KUBERNETES_1_33]) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::new(&stage.dir, "sa")?;
    let signing = key.private.display().to_string();
    let _signer = stage.signer(&["--signing-key-file", &signing]).await?;
    let server = KubeApiserver::start(&stage.cluster().await?.on(KUBERNETES_1_33)).await?;
    server.create_service_account(ACCOUNT.0, ACCOUNT.1).await?;

    let issued = api_token(&server).await?;
    assert_eq!(token::kid(&issued)?, key.kid);
    assert_eq!(server.token_review(&issued, &[]).await?, Ok(subject()));
    let outside = server.token_request(ACCOUNT, "vault", 600).await?;
    assert_eq!(server.token_review(&outside, &["vault"]).await?, Ok(subject()));
    assert!(server.token_review(&outside, &[API_AUDIENCE]).await?.is_err());
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        let refused = server.get_raw(path).await.err().context("documents")?.to_string();
        assert!(refused.contains("404"), "{refused}");
    }
    Ok(())
}

#[tokio::test]
async fn every_algorithm_signs_and_verifies() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    for (name, algorithm) in [
        ("ES256", &rcgen::PKCS_ECDSA_P256_SHA256),
        ("ES384", &rcgen::PKCS_ECDSA_P384_SHA384),
        ("ES512", &rcgen::PKCS_ECDSA_P521_SHA512),
    ] {
        let stage = Stage::new()?;
        let key = KeyFile::ecdsa(&stage.dir, "sa", algorithm)?;
        let _signer = stage.signer(&["--signing-key-file", &path(&key.private)]).await?;
        let server = stage.apiserver().await?;
        let issued = api_token(&server).await?;
        assert_eq!(server.token_review(&issued, &[]).await?, Ok(subject()), "{name}");
        let discovery: Value =
            serde_json::from_slice(&server.get_raw("/.well-known/openid-configuration").await?)?;
        assert_eq!(discovery["id_token_signing_alg_values_supported"], json!([name]));
    }
    Ok(())
}

#[tokio::test]
async fn an_excluded_key_verifies_and_is_not_shown() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let (key, old) = (KeyFile::p256(&stage.dir, "sa")?, KeyFile::new(&stage.dir, "old")?);
    let arguments = ["--signing-key-file", &path(&key.private), "--excluded-key-file", &path(&old.public)]
        .map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _signer = stage.signer(&arguments).await?;
    let server = stage.apiserver().await?;
    assert_eq!(shown(&server).await?, [key.kid]);
    let claims = token::claims(&api_token(&server).await?)?;
    let excluded = TokenSigner::read(&old.private)?.sign(&claims)?;
    assert_eq!(server.token_review(&excluded, &[]).await?, Ok(subject()));
    let unknown = TokenSigner::generate()?.sign(&claims)?;
    assert!(server.token_review(&unknown, &[]).await?.is_err());
    Ok(())
}

#[tokio::test]
async fn kube_apiserver_waits_for_a_signer_that_is_late() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::p256(&stage.dir, "sa")?;
    let late = async {
        // Later than kube-apiserver asks for it first, which can be seen nowhere.
        tokio::time::sleep(Duration::from_secs(20)).await;
        stage.signer(&["--signing-key-file", &path(&key.private)]).await
    };
    let (server, signer) = tokio::join!(stage.apiserver(), late);
    let (server, _signer) = (server?, signer?);
    assert_eq!(token::kid(&api_token(&server).await?)?, key.kid);
    Ok(())
}

#[tokio::test]
async fn a_signer_that_was_killed_is_missed_by_new_tokens_alone_until_it_is_back() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::p256(&stage.dir, "sa")?;
    let (private, state) = (path(&key.private), path(stage.dir.path()));
    let arguments = ["--signing-key-file", &private, "--state-dir", &state];
    let mut signer = stage.signer(&arguments).await?;
    let server = stage.apiserver().await?;
    let before = api_token(&server).await?;
    signer.kill()?;
    assert!(api_token(&server).await.is_err());
    assert_eq!(server.token_review(&before, &[]).await?, Ok(subject()));

    // Its socket lies there still, and nobody answers.
    let _signer = stage.signer(&arguments).await?;
    wait::until("a token after the signer is back", async || Ok(api_token(&server).await.is_ok())).await?;
    let after = api_token(&server).await?;
    for token in [before, after] {
        assert_eq!(server.token_review(&token, &[]).await?, Ok(subject()));
    }
    Ok(())
}

#[tokio::test]
async fn claims_of_another_issuer_are_not_signed_and_the_requester_learns_no_detail() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::p256(&stage.dir, "sa")?;
    let arguments = ["--signing-key-file", &path(&key.private)].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let other = format!("{ISSUER}/");
    let signer = SignerProcess::start(&stage.dir, &other, &arguments).await?;
    let server = stage.apiserver().await?;
    let refused = api_token(&server).await.err().context("signed for another issuer")?.to_string();
    assert!(refused.contains("the signer's log says why"), "{refused}");
    assert!(!refused.contains("iss"), "{refused}");
    let log = signer.log();
    assert!(log.contains("`iss`") && !log.contains(ISSUER), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_flood_of_forged_kids_keeps_nobody_from_new_tokens() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::new(&stage.dir, "sa")?;
    let signer = stage.signer(&["--signing-key-file", &path(&key.private)]).await?;
    let server = stage.apiserver().await?;
    let claims = token::claims(&api_token(&server).await?)?;
    let fetches = server.metric("apiserver_externaljwt_fetch_keys_request_total").await?;

    // What a forger pays for least: nothing is signed, since the kid is looked up first.
    let end = Instant::now() + Duration::from_secs(10);
    let flood = async |number: usize| -> Result<usize> {
        let mut sent = 0;
        while Instant::now() < end {
            let kid = format!("forged-{number}-{sent}");
            let header = encoded(json!({ "alg": "RS256", "kid": kid, "typ": "JWT" }));
            let forged = format!("{header}.{}.AAAA", encoded(&claims));
            assert!(server.token_review(&forged, &[]).await?.is_err());
            sent += 1;
        }
        Ok(sent)
    };
    let direct = async || -> Result<usize> {
        let client = signer.client("v1").await?;
        let mut fetched = 0;
        while Instant::now() < end {
            let several = (0..32).map(|_| client.fetch_keys());
            fetched += futures_util::future::try_join_all(several).await?.len();
        }
        Ok(fetched)
    };
    let sign = async || -> Result<(usize, Duration)> {
        let (mut signed, mut slowest) = (0, Duration::ZERO);
        while Instant::now() < end {
            let begun = Instant::now();
            api_token(&server).await?;
            slowest = slowest.max(begun.elapsed());
            signed += 1;
        }
        Ok((signed, slowest))
    };
    let floods = futures_util::future::try_join_all((0..16).map(flood));
    let (forged, direct, signed) = tokio::try_join!(floods, direct(), sign())?;
    let fetches = server.metric("apiserver_externaljwt_fetch_keys_request_total").await? - fetches;
    let forged: usize = forged.iter().sum();
    let (tokens, slowest) = signed;
    println!(
        "10 s: {forged} forged kids made {fetches} fetches, beside {direct} direct ones; {tokens} tokens, the slowest in {slowest:?}"
    );
    ensure!(tokens > 0 && fetches > 0.0);
    assert_eq!(
        server.metric("apiserver_externaljwt_sign_request_total{code=\"ResourceExhausted\"}").await?,
        0.0
    );
    Ok(())
}

#[tokio::test]
async fn the_keys_are_seen_to_be_fresh() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::p256(&stage.dir, "sa")?;
    let next = KeyFile::p256(&stage.dir, "next")?;
    let mut signer =
        stage.signer(&["--signing-key-file", &path(&key.private), "--refresh-hint", "1s"]).await?;
    let server = stage.apiserver().await?;
    let confirmed = async || server.metric("apiserver_externaljwt_fetch_keys_data_timestamp").await;
    let first = confirmed().await?;
    ensure!(first > 0.0);
    wait::until("a later data_timestamp", async || Ok(confirmed().await? > first)).await?;

    // A key behind the one that signs is shown without a restart of anybody.
    let both = [std::fs::read_to_string(&key.private)?, std::fs::read_to_string(&next.public)?].concat();
    std::fs::write(&key.private, both)?;
    signer.process().signal(Signal::HUP)?;
    wait::until("the second key", async || Ok(shown(&server).await?.contains(&next.kid))).await?;
    assert_eq!(token::kid(&api_token(&server).await?)?, key.kid);
    Ok(())
}

#[tokio::test]
async fn a_cluster_moves_to_the_signer_and_back_with_its_tokens() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::new(&stage.dir, "sa")?;
    let files = Cluster::new(Etcd::shared().await?.url(), ISSUER, &key.private)?;
    let external = files.clone().signing_endpoint(&stage.dir.join("signer.sock"));
    let mut tokens = Vec::new();

    let mut server = KubeApiserver::start(&files).await?;
    server.create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
    tokens.push(api_token(&server).await?);
    for cluster in [&external, &files] {
        server.process().kill()?;
        let _signer = stage.signer(&["--signing-key-file", &path(&key.private)]).await?;
        server = KubeApiserver::start_on(server.port(), cluster).await?;
        tokens.push(api_token(&server).await?);
        for token in &tokens {
            assert_eq!(token::kid(token)?, key.kid);
            assert_eq!(server.token_review(token, &[]).await?, Ok(subject()));
        }
        assert_eq!(shown(&server).await?, std::slice::from_ref(&key.kid));
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_kube_apiserver_extends_lives_as_long_as_the_signer_lets_it() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let key = KeyFile::p256(&stage.dir, "sa")?;
    let _signer =
        stage.signer(&["--signing-key-file", &path(&key.private), "--max-token-expiration", "48h"]).await?;
    let server = stage.apiserver().await?;
    let (namespace, account) = ACCOUNT;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "serviceAccountName": account, "containers": [{ "name": "c", "image": "i" }] },
    });
    server.create(&pods, &pod).await?;
    // What kubelet asks for: bound to a pod, for the API server, for an hour and seven seconds (KEP-1205).
    let pod: Value = serde_json::from_slice(&server.get_raw(&format!("{pods}/p")).await?)?;
    let bound = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"] });
    let spec = json!({ "audiences": [API_AUDIENCE], "expirationSeconds": 3607, "boundObjectRef": bound });
    let tokens = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let (status, answer) = server.post(&tokens, server.admin_token(), &json!({ "spec": spec })).await?;
    let issued = answer
        .pointer("/status/token")
        .and_then(Value::as_str)
        .with_context(|| format!("{status}: {answer}"))?;
    let claims = token::claims(issued)?;
    let seconds = |name: &str| claims.get(name).and_then(Value::as_u64).context("no time");
    assert_eq!(seconds("exp")? - seconds("iat")?, 48 * 3600);
    assert_eq!(server.token_review(issued, &[]).await?, Ok(subject()));
    Ok(())
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
