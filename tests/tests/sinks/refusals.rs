//! What Vault and HTTP APIs refuse is named with its remedy, and no secret is in the words.

use anyhow::{Context, Result};
use chancery_core::upload::{DesiredUpload, UploadPlan};
use chancery_core::{IssuerUrl, Jwks, Withdrawals, key_file};
use chancery_publisher::StoreErrorKind;
use chancery_publisher::sink::http_put::HttpPutSink;
use chancery_publisher::sink::vault::VaultSink;
use chancery_publisher::sink::{JwksSink, SinkConfig, SinkPlace, UploadError, upload};
use e2e::authority::Authority;
use e2e::key_api::KeyApi;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::tls_front::TlsFront;
use e2e::token::TokenSigner;
use e2e::vault::{KubernetesRole, Rule, Vault};
use serde_json::{Value, json};

const POLICY: [Rule<'static>; 1] = [("auth/jwt/config", &["read", "update"])];

fn issuer() -> Result<IssuerUrl> {
    Ok("https://id.example.com".parse()?)
}

/// The sink of a configuration, whose files are in `dir`.
fn open(dir: &Scratch, config: Value) -> Result<Box<dyn JwksSink>> {
    let mut config: SinkConfig = serde_json::from_value(config)?;
    config.start_paths_at(dir.path());
    Ok(match config.place()? {
        SinkPlace::Vault(place) => Box::new(VaultSink::open(place, &issuer()?)?),
        SinkPlace::HttpPut(place) => Box::new(HttpPutSink::open(place, &issuer()?)?),
        other => anyhow::bail!("{other:?}"),
    })
}

async fn put(sink: &dyn JwksSink, keys: &[&KeyFile]) -> Result<Result<UploadPlan, UploadError>> {
    let pems = keys.iter().map(|key| key.public_pem()).collect::<Result<Vec<_>>>()?;
    let jwks = Jwks::new(key_file::read_public_keys(&pems.concat()).keys).context("no keys")?;
    let owner = "us".parse()?;
    Ok(upload(
        sink,
        DesiredUpload { jwks: &jwks, withdrawals: Withdrawals::none(), owner: &owner, adopt_unmarked: false },
    )
    .await)
}

/// The refusal of an upload: its kind, and words in which no secret is.
async fn refusal(sink: &dyn JwksSink, key: &KeyFile) -> Result<(StoreErrorKind, String)> {
    let error = put(sink, &[key]).await?.err().context("it is not refused")?;
    let UploadError::Store(error) = error else { anyhow::bail!("{error}") };
    let (kind, words) = (error.kind, format!("{error} {error:?} {sink:?}"));
    for secret in ["hvs.", "eyJ", "topsecret"] {
        assert!(!words.contains(secret), "{secret} is in {words}");
    }
    Ok((kind, words))
}

#[tokio::test]
async fn vault_refuses_and_the_remedy_is_named() -> Result<()> {
    let dir = Scratch::new("refusals")?;
    let key = KeyFile::p256(&dir, "key")?;
    let vault = Vault::start_in("team-a").await?;
    let place = |changes: Value| -> Result<Value> {
        let mut place = json!({ "address": vault.url(), "namespace": "team-a", "tokenFile": "token" });
        place.as_object_mut().context("a place")?.extend(changes.as_object().cloned().unwrap_or_default());
        Ok(json!({ "vault": place }))
    };
    let all: [Rule<'_>; 2] = [POLICY[0], ("auth/other/config", &["read", "update"])];
    let needed = r#"path "auth/jwt/config" { capabilities = ["read", "update"] }"#;
    let denied = StoreErrorKind::Denied;
    for (rules, changes, kind, words) in [
        (
            &[("auth/jwt/config", &["read"][..])][..],
            json!({}),
            denied,
            ["cannot write auth/jwt/config", needed],
        ),
        (&[("auth/jwt/config", &["update"])], json!({}), denied, ["cannot read auth/jwt/config", needed]),
        (&[], json!({}), denied, [needed, "renew the token"]),
        (&all, json!({ "namespace": "team-b" }), denied, [needed, "in namespace team-b"]),
        (
            &all,
            json!({ "mount": "other" }),
            StoreErrorKind::NoSuchContainer,
            ["no handler for route", "vault auth enable"],
        ),
        (
            &all,
            json!({ "tokenFile": "nowhere" }),
            StoreErrorKind::Misconfigured,
            ["nowhere", "give the path of a file"],
        ),
        (
            &all,
            json!({ "tokenFile": "empty" }),
            StoreErrorKind::Misconfigured,
            ["empty", "give the path of a file"],
        ),
    ] {
        dir.write("token", vault.token(rules))?;
        dir.write("empty", "\n")?;
        let (came, text) = refusal(open(&dir, place(changes.clone())?)?.as_ref(), &key).await?;
        assert_eq!(came, kind, "{changes}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{changes}: {text}");
    }
    assert_eq!(vault.configuration(), Value::Null);

    // A token that was renewed in its file is good for the next request.
    let sink = open(&dir, place(json!({}))?)?;
    dir.write("token", vault.token(&[]))?;
    assert_eq!(refusal(sink.as_ref(), &key).await?.0, denied);
    dir.write("token", vault.token(&POLICY))?;
    put(sink.as_ref(), &[&key]).await??;
    assert_eq!(vault.kids()?, [key.kid.as_str()]);
    assert!(put(sink.as_ref(), &[&key]).await??.upload.is_none());
    Ok(())
}

#[tokio::test]
async fn a_mount_that_is_not_for_us_is_left_alone() -> Result<()> {
    let dir = Scratch::new("refusals")?;
    let key = KeyFile::p256(&dir, "key")?;
    let vault = Vault::start().await?;
    dir.write("token", vault.token(&POLICY))?;
    let sink = open(&dir, json!({ "vault": { "address": vault.url(), "tokenFile": "token" } }))?;
    let theirs = KeyFile::p256(&dir, "theirs")?.public_pem()?;
    for (configuration, words) in [
        (
            json!({ "oidc_discovery_url": "https://id.example.com" }),
            ["`oidc_discovery_url` is set", "another mount"],
        ),
        (
            json!({ "jwks_url": "https://id.example.com/openid/v1/jwks" }),
            ["`jwks_url` is set", "another mount"],
        ),
        (json!({ "jwks_pairs": [{ "jwks_url": "https://x" }] }), ["`jwks_pairs` is set", "another mount"]),
        (
            json!({ "jwt_validation_pubkeys": [theirs], "bound_issuer": "https://other.example.com" }),
            ["could sign for another issuer", "a mount of its own"],
        ),
    ] {
        vault.configure(&configuration)?;
        let before = vault.configuration();
        let (kind, text) = refusal(sink.as_ref(), &key).await?;
        assert_eq!(kind, StoreErrorKind::Misconfigured, "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(vault.configuration(), before);
    }
    assert!(!vault.requests().contains(&"POST auth/jwt/config".to_owned()), "{:?}", vault.requests());
    Ok(())
}

#[tokio::test]
async fn a_kubernetes_login_is_kept_renewed_and_refused_in_words() -> Result<()> {
    let dir = Scratch::new("refusals")?;
    let (key, cluster) = (KeyFile::p256(&dir, "key")?, KeyFile::new(&dir, "cluster")?);
    let vault = Vault::start().await?;
    let role = KubernetesRole::of(("ns", "chancery"), "vault", &POLICY, 3600);
    vault.add_kubernetes_role("chancery", role, &[cluster.public_pem()?]);
    let claims = |audience: &str| {
        json!({
            "aud": audience, "sub": "system:serviceaccount:ns:chancery", "exp": 4_102_444_800_u64,
        })
    };
    let (signer, stranger) = (TokenSigner::read(&cluster.private)?, TokenSigner::generate()?);
    let sink = |role: &str| {
        let login = json!({ "role": role, "tokenFile": "jwt" });
        open(&dir, json!({ "vault": { "address": vault.url(), "kubernetes": login } }))
    };
    for (jwt, role, kind, words) in [
        (
            stranger.sign_as(signer.kid(), &claims("vault"))?,
            "chancery",
            StoreErrorKind::Denied,
            "bind the role",
        ),
        (signer.sign(&claims("other"))?, "chancery", StoreErrorKind::Denied, "bind the role"),
        (signer.sign(&claims("vault"))?, "nobody", StoreErrorKind::Misconfigured, "invalid role name"),
    ] {
        dir.write("jwt", jwt)?;
        let (came, text) = refusal(sink(role)?.as_ref(), &key).await?;
        assert_eq!(came, kind, "{text}");
        assert!(text.contains(words) && text.contains(&format!("as role {role}")), "{text}");
    }
    dir.write("jwt", signer.sign(&claims("vault"))?)?;
    let sink = sink("chancery")?;
    let logins = || vault.requests().iter().filter(|request| request.ends_with("kubernetes/login")).count();
    let before = logins();
    put(sink.as_ref(), &[&key]).await??;
    put(sink.as_ref(), &[&key]).await??;
    assert_eq!(logins(), before + 1, "one login serves until it is over");
    vault.revoke_tokens();
    put(sink.as_ref(), &[&key]).await??;
    assert_eq!(logins(), before + 2);
    Ok(())
}

#[tokio::test]
async fn an_http_api_refuses_and_nothing_secret_goes_elsewhere() -> Result<()> {
    let dir = Scratch::new("refusals")?;
    let key = KeyFile::p256(&dir, "key")?;
    let api = KeyApi::start("topsecret").await?;
    dir.write("token", "topsecret")?;
    let place = |body: &str, pointer: &str| {
        json!({ "httpPut": {
        "url": api.url(), "body": body, "read": { "pointer": pointer },
        "headers": { "authorization": { "file": "token", "prefix": "Bearer " } },
    } })
    };
    let good = place("{\"set\": {{jwks}}}", "/set");
    for (body, words) in [
        ("{\"what\": {{jwks}}}", ["what is unknown", "correct `method`, `body`"]),
        ("{\"jwks\": {{jwks}}}", ["jwks is unknown or not", "correct `method`, `body`"]),
    ] {
        let (kind, text) = refusal(open(&dir, place(body, "/set"))?.as_ref(), &key).await?;
        assert_eq!(kind, StoreErrorKind::Misconfigured, "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    put(open(&dir, good.clone())?.as_ref(), &[&key]).await??;
    let before = api.value();
    let (_, text) = refusal(open(&dir, place("{\"set\": {{jwks}}}", "/sets"))?.as_ref(), &key).await?;
    assert!(text.contains("nothing at \"/sets\"") && text.contains("correct `read`"), "{text}");
    assert_eq!(api.value(), before, "a wrong pointer changes nothing");

    dir.write("token", "topsecret-of-yesterday")?;
    let (kind, text) = refusal(open(&dir, good.clone())?.as_ref(), &key).await?;
    assert_eq!(kind, StoreErrorKind::Denied);
    assert!(text.contains("not the bearer of [secret]"), "{text}");

    let elsewhere = KeyApi::start("topsecret").await?;
    dir.write("token", "topsecret")?;
    api.redirect_to(&elsewhere.url());
    let (kind, text) = refusal(open(&dir, good)?.as_ref(), &key).await?;
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert!(text.contains(&elsewhere.url()) && text.contains("redirects are not followed"), "{text}");
    assert_eq!(elsewhere.requests(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn without_a_reading_the_set_is_uploaded_once_and_again_when_it_changes() -> Result<()> {
    let dir = Scratch::new("refusals")?;
    let (one, two) = (KeyFile::p256(&dir, "one")?, KeyFile::p256(&dir, "two")?);
    let api = KeyApi::start("topsecret").await?;
    dir.write("token", "topsecret")?;
    let sink = open(
        &dir,
        json!({ "adopt": true, "httpPut": {
        "url": api.url(), "method": "POST", "body": "{\"pems\": {{pems}}}",
        "headers": { "Authorization": { "file": "token", "prefix": "Bearer " } },
    } }),
    )?;
    for (keys, posts) in [(vec![&one], 1), (vec![&one], 1), (vec![&one, &two], 2), (vec![&two, &one], 2)] {
        put(sink.as_ref(), &keys).await??;
        assert_eq!(api.requests(), vec!["POST"; posts]);
    }
    assert_eq!(api.value(), json!({ "pems": [one.public_pem()?, two.public_pem()?] }));
    Ok(())
}

#[tokio::test]
async fn a_server_must_prove_who_it_is() -> Result<()> {
    let dir = Scratch::new("refusals")?;
    let key = KeyFile::p256(&dir, "key")?;
    let authority = Authority::new(dir.path())?;
    let vault = Vault::start().await?;
    dir.write("token", vault.token(&POLICY))?;
    let place = |url: &str, ca: &str| json!({ "vault": { "address": url, "tokenFile": "token", "ca": ca } });
    let other = Scratch::new("other-authority")?;
    let stranger = Authority::new(other.path())?;
    std::fs::copy(stranger.path(), dir.join("stranger.pem"))?;
    for (names, ca) in [(&["127.0.0.1"], "stranger.pem"), (&["vault.example.com"], "ca.pem")] {
        let front = TlsFront::start(vault.url(), &authority.issue(dir.path(), names)?).await?;
        let (kind, text) = refusal(open(&dir, place(front.url(), ca))?.as_ref(), &key).await?;
        assert_eq!(kind, StoreErrorKind::Misconfigured, "{text}");
        assert!(text.contains("certificate"), "{text}");
    }
    assert_eq!(vault.requests(), [""; 0], "no token went to a server that is not proven");
    let front = TlsFront::start(vault.url(), &authority.issue(dir.path(), &["127.0.0.1"])?).await?;
    put(open(&dir, place(front.url(), "ca.pem"))?.as_ref(), &[&key]).await??;
    assert!(open(&dir, place(front.url(), "token")).is_err(), "a CA file without a certificate");
    Ok(())
}
