//! `chancery issuer` keeps a relying party in sync that is given the keys themselves: whatever happens on the way, the
//! tokens of the published keys are accepted there, and no others.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use e2e::chancery::IssuerService;
use e2e::fault_proxy::{Fault, FaultProxy, Moment, On};
use e2e::key_api::KeyApi;
use e2e::key_file::KeyFile;
use e2e::relying_party::Verdict;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::tls_front::TlsFront;
use e2e::token::TokenSigner;
use e2e::vault::{KubernetesRole, Role, Vault};
use e2e::wait;
use hyper::StatusCode;
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const AUDIENCE: &str = "vault";
const SUBJECT: &str = "system:serviceaccount:demo:app";
/// The policy of docs/targets/sinks.md.
const POLICY: [(&str, &[&str]); 1] = [("auth/jwt/config", &["read", "update"])];

/// A folder of keys that is watched, and what is told of it.
struct Stage {
    dir: Scratch,
    watched: PathBuf,
    site: Site,
}

impl Stage {
    /// An issuer whose only outlet is this sink, and whose keys go a moment after they vanished.
    fn new() -> Result<Self> {
        let dir = Scratch::new("sink-keys")?;
        let watched = dir.join("watched");
        std::fs::create_dir(&watched)?;
        let mut site = Site::new()?;
        site.add_issuer_of_files(ISSUER, &[&watched], json!([]))?;
        site.config.as_object_mut().context("a configuration")?.remove("serve");
        let issuer =
            site.config.pointer_mut("/issuers/0").and_then(Value::as_object_mut).context("an issuer")?;
        issuer.remove("targets");
        issuer.insert("verify".to_owned(), json!({ "enabled": false }));
        issuer.insert("retention".to_owned(), json!("1s"));
        Ok(Self { dir, watched, site })
    }

    fn sink(&mut self, sink: Value) -> Result<()> {
        let issuer = self.site.config.pointer_mut("/issuers/0").and_then(Value::as_object_mut);
        issuer.context("an issuer")?.insert("sinks".to_owned(), json!([sink]));
        Ok(())
    }

    fn url(&self) -> String {
        self.site.url(ISSUER)
    }

    fn key(&self, name: &str) -> Result<KeyFile> {
        KeyFile::new(&self.dir, name)
    }

    async fn gauge(&self, name: &str) -> Result<Option<f64>> {
        self.site.metric(name, &[("issuer", &self.url()), ("sink", "one")]).await
    }

    /// How many rounds have ended well.
    async fn good_rounds(&self) -> Result<f64> {
        let mut rounds = 0.0;
        for result in ["written", "unchanged"] {
            let labels = [("issuer", &*self.url()), ("sink", "one"), ("result", result)];
            rounds += self.site.metric("chancery_uploads_total", &labels).await?.unwrap_or_default();
        }
        Ok(rounds)
    }

    /// Waits until a round has ended after the first `before`, so that no request is under way.
    async fn round_after(&self, before: f64) -> Result<()> {
        wait::until("the end of a round", async || Ok(self.good_rounds().await? > before)).await
    }

    async fn is_up_to_date(&self) -> Result<()> {
        let up = async || Ok(self.gauge("chancery_sink_up_to_date").await? == Some(1.0));
        wait::until("the sink to be up to date", up).await
    }

    /// A token as kube-apiserver would sign it with this key.
    fn token(&self, key: &KeyFile, audience: &str, subject: &str) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        TokenSigner::read(&key.private)?.sign(&json!({
            "iss": self.url(), "aud": [audience], "sub": subject, "iat": now, "nbf": now, "exp": now + 3600,
        }))
    }

    async fn logs_in(&self, vault: &Vault, key: &KeyFile) -> Result<Verdict> {
        vault.login("app", &self.token(key, AUDIENCE, SUBJECT)?).await
    }
}

fn role() -> Role {
    Role { bound_audience: AUDIENCE.to_owned(), bound_subject: SUBJECT.to_owned() }
}

async fn holds(vault: &Vault, keys: &[&KeyFile]) -> Result<()> {
    let mut expected: Vec<&str> = keys.iter().map(|key| key.kid.as_str()).collect();
    expected.sort_unstable();
    wait::until(&format!("Vault to hold {expected:?}"), async || {
        let mut kids = vault.kids()?;
        kids.sort();
        ensure!(kids == expected, "it holds {kids:?}");
        Ok(true)
    })
    .await
}

/// Its log, which says nothing that must stay secret.
fn log_of(service: &IssuerService, secrets: &[&str]) -> Result<String> {
    let log = service.log();
    for secret in ["hvs.", "eyJ"].iter().chain(secrets) {
        ensure!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
    Ok(log)
}

#[tokio::test]
async fn a_rotation_reaches_vault_before_a_token_of_the_new_key_does() -> Result<()> {
    let mut stage = Stage::new()?;
    let vault = Vault::start_in("team-a").await?;
    vault.add_role("app", role());
    let front = TlsFront::start(vault.url(), stage.site.certificate()).await?;
    let (old, new, stranger) = (stage.key("old")?, stage.key("new")?, stage.key("stranger")?);

    // Chancery itself logs in with the token of its pod, which its own cluster has signed.
    let ours = ("chancery-system", "chancery-issuer");
    let role = KubernetesRole::of(ours, "https://vault.example", &POLICY, 3600);
    vault.add_kubernetes_role("chancery", role, &[old.public_pem()?, new.public_pem()?]);
    let subject = "system:serviceaccount:chancery-system:chancery-issuer";
    let projected = stage.token(&old, "https://vault.example", subject)?;
    stage.site.dir().write("token", format!("{projected}\n"))?;
    stage.sink(json!({ "name": "one", "vault": {
        "address": front.url(), "namespace": "team-a", "ca": stage.site.authority().path(),
        "kubernetes": { "role": "chancery", "tokenFile": "token" },
    } }))?;

    old.put_public_half_into(&stage.watched)?;
    let mut service = stage.site.start()?;
    holds(&vault, &[&old]).await?;
    stage.is_up_to_date().await?;
    assert_eq!(vault.configuration().get("bound_issuer"), Some(&json!(stage.url())));
    assert_eq!(stage.logs_in(&vault, &old).await?, Ok(format!("jwt-{SUBJECT}")));
    for refused in [&new, &stranger] {
        assert!(stage.logs_in(&vault, refused).await?.is_err(), "{refused:?}");
    }

    new.put_public_half_into(&stage.watched)?;
    holds(&vault, &[&old, &new]).await?;
    for accepted in [&old, &new] {
        assert!(stage.logs_in(&vault, accepted).await?.is_ok(), "{accepted:?}");
    }

    // Every token of ours is revoked: the next round logs in anew. Then the old key goes.
    vault.revoke_tokens();
    std::fs::remove_file(stage.watched.join("old.pub"))?;
    holds(&vault, &[&new]).await?;
    assert!(stage.logs_in(&vault, &new).await?.is_ok());
    for refused in [&old, &stranger] {
        let refusal = stage.logs_in(&vault, refused).await?.err().context("a withdrawn key is accepted")?;
        assert!(refusal.reason.contains("no known key"), "{refusal}");
    }

    let mut requests = vault.requests();
    requests.retain(|request| request != "POST auth/jwt/login");
    requests.sort();
    requests.dedup();
    assert_eq!(requests, ["GET auth/jwt/config", "POST auth/jwt/config", "POST auth/kubernetes/login"]);
    assert_eq!(vault.warnings(), [""; 0]);
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    log_of(&service, &[&projected])?;
    Ok(())
}

#[tokio::test]
async fn no_fault_on_the_way_to_vault_costs_a_key() -> Result<()> {
    let mut stage = Stage::new()?;
    let vault = Vault::start().await?;
    let proxy = FaultProxy::start(vault.url()).await?;
    let foreign = stage.key("foreign")?;
    let fields = json!({
        "jwt_validation_pubkeys": [foreign.public_pem()?], "bound_issuer": stage.url(), "default_role": "app",
        "jwt_supported_algs": ["RS256"], "namespace_in_state": false,
    });
    vault.configure(&fields)?;
    stage.site.dir().write("token", vault.token(&POLICY))?;
    stage.sink(json!({ "name": "one", "vault": { "address": proxy.url(), "tokenFile": "token" } }))?;
    let first = stage.key("first")?;
    first.put_public_half_into(&stage.watched)?;
    let mut keys = vec![foreign.clone(), first];
    let mut service = stage.site.start()?;
    stage.is_up_to_date().await?;
    holds(&vault, &keys.iter().collect::<Vec<_>>()).await?;

    let write = || On::post("auth/jwt/config");
    for (name, fault) in [
        ("answered-500", Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR)),
        ("throttled", Fault::TooManyRequests(1)),
        ("reset", Fault::HangUp),
        ("answer-lost", Fault::LoseAnswer),
    ] {
        let before = stage.good_rounds().await?;
        proxy.fail(write().times(2), fault);
        keys.push(stage.key(name)?);
        keys.last().context("a key")?.put_public_half_into(&stage.watched)?;
        stage.round_after(before).await?;
        holds(&vault, &keys.iter().collect::<Vec<_>>()).await?;
        proxy.heal();
    }

    // Somebody adds a key after we have read, and before we write.
    let (theirs, ours) = (stage.key("theirs")?, stage.key("ours")?);
    let hold = proxy.hold(On::get("auth/jwt/config").nth(2), Moment::BeforeForwarding);
    ours.put_public_half_into(&stage.watched)?;
    hold.reached().await?;
    let mut pems: Vec<String> = keys.iter().map(KeyFile::public_pem).collect::<Result<_>>()?;
    pems.push(theirs.public_pem()?);
    let mut written = fields.clone();
    written["jwt_validation_pubkeys"] = json!(pems);
    vault.configure(&written)?;
    hold.release();
    keys.extend([theirs, ours]);
    holds(&vault, &keys.iter().collect::<Vec<_>>()).await?;

    stage.is_up_to_date().await?;
    assert_eq!(stage.gauge("chancery_sink_foreign_keys").await?, Some(2.0));
    for field in ["bound_issuer", "default_role", "jwt_supported_algs", "namespace_in_state"] {
        assert_eq!(vault.configuration().get(field), fields.get(field), "{field}");
    }
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    let log = log_of(&service, &[])?;
    assert!(log.contains("keys that no source shows") && log.contains(&foreign.kid), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_sealed_vault_is_waited_for_and_named_once() -> Result<()> {
    let mut stage = Stage::new()?;
    let vault = Vault::start().await?;
    vault.seal(true);
    stage.site.dir().write("token", vault.token(&POLICY))?;
    stage.sink(json!({ "name": "one", "vault": { "address": vault.url(), "tokenFile": "token" } }))?;
    let key = stage.key("key")?;
    key.put_public_half_into(&stage.watched)?;
    let mut service = stage.site.start()?;
    let failures = [("issuer", &*stage.url()), ("sink", "one"), ("result", "failed")];
    wait::until("two failed rounds", async || {
        Ok(stage.site.metric("chancery_uploads_total", &failures).await?.is_some_and(|count| count >= 2.0))
    })
    .await?;
    assert_eq!(stage.gauge("chancery_sink_up_to_date").await?, Some(0.0));
    vault.seal(false);
    holds(&vault, &[&key]).await?;
    stage.is_up_to_date().await?;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    let log = log_of(&service, &[])?;
    assert_eq!(log.matches("Vault is sealed").count(), 1, "{log}");
    assert!(log.contains("unseal it"), "{log}");
    Ok(())
}

#[tokio::test]
async fn an_http_api_follows_and_keeps_what_others_put_there() -> Result<()> {
    let mut stage = Stage::new()?;
    let api = KeyApi::start("first-secret").await?;
    let proxy = FaultProxy::start(api.origin()).await?;
    let foreign = stage.key("foreign")?;
    api.set(json!({ "pems": [foreign.public_pem()?] }));
    stage.site.dir().write("token", "first-secret\n")?;
    stage.sink(json!({ "name": "one", "httpPut": {
        "url": format!("{}{}", proxy.url(), e2e::key_api::PATH),
        "headers": {
            "Authorization": { "file": "token", "prefix": "Bearer " },
            "Accept": { "value": "application/json" },
        },
        "body": "{ \"issuer\": \"{{issuer}}\", \"pems\": {{pems}}, \"set\": {{jwks}}, \"jwks\": \"{{jwks_string}}\" }",
        "read": { "pointer": "/pems" },
    } }))?;
    let first = stage.key("first")?;
    first.put_public_half_into(&stage.watched)?;
    let mut service = stage.site.start()?;
    api_holds(&api, &[&first, &foreign]).await?;

    stage.is_up_to_date().await?;
    let before = stage.good_rounds().await?;
    proxy.fail(On::put("a").times(2), Fault::Answer(StatusCode::BAD_GATEWAY));
    proxy.fail(On::put("a").nth(3), Fault::LoseAnswer);
    let hold = proxy.hold(On::put("a").nth(4), Moment::BeforeForwarding);
    let (second, theirs) = (stage.key("second")?, stage.key("theirs")?);
    second.put_public_half_into(&stage.watched)?;
    stage.round_after(before).await?;
    api_holds(&api, &[&first, &second, &foreign]).await?;

    // The object changes between our reading and our write, whose If-Match fails then.
    let third = stage.key("third")?;
    third.put_public_half_into(&stage.watched)?;
    hold.reached().await?;
    let mut pems = api.value().get("pems").and_then(Value::as_array).cloned().context("no PEMs")?;
    pems.push(json!(theirs.public_pem()?));
    api.set(json!({ "pems": pems }));
    hold.release();
    api_holds(&api, &[&first, &second, &third, &foreign, &theirs]).await?;
    stage.is_up_to_date().await?;
    let value = api.value();
    assert_eq!(value.get("issuer"), Some(&json!(stage.url())));
    let text = value.get("jwks").and_then(Value::as_str).context("no text")?;
    assert_eq!(Some(&serde_json::from_str::<Value>(text)?), value.get("set"));
    // What the sink holds is part of what the world sees.
    for key in [&first, &third] {
        is_seen(&stage.site, "one", &key.kid).await.with_context(|| service.log())?;
    }
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    log_of(&service, &["first-secret"])?;
    Ok(())
}

/// Waits until the visibility record says that a view shows a key now.
async fn is_seen(site: &Site, view: &str, kid: &str) -> Result<()> {
    wait::until(&format!("{kid} in the view {view}"), async || {
        let (status, text) = site.admin("visibility").await?;
        ensure!(status == 200, "{text}");
        let record: Value = serde_json::from_str(&text)?;
        let views = record.pointer("/issuers/0/views").and_then(Value::as_array).context("no views")?;
        let view =
            views.iter().find(|shown| shown.get("view") == Some(&json!(view))).context("no such view")?;
        let keys = view.get("keys").and_then(Value::as_array).context("no keys")?;
        Ok(keys
            .iter()
            .any(|key| key.get("kid") == Some(&json!(kid)) && key.get("shownNow") == Some(&json!(true))))
    })
    .await
}

async fn api_holds(api: &KeyApi, keys: &[&KeyFile]) -> Result<()> {
    let mut expected: Vec<&str> = keys.iter().map(|key| key.kid.as_str()).collect();
    expected.sort_unstable();
    wait::until(&format!("the API to hold {expected:?}"), async || {
        let value = api.value();
        let entries = value.pointer("/set/keys").and_then(Value::as_array).context("no set")?;
        let mut kids: Vec<&str> = entries.iter().filter_map(|entry| entry.get("kid")?.as_str()).collect();
        kids.sort_unstable();
        ensure!(kids == expected, "it holds {kids:?}");
        Ok(true)
    })
    .await
}
