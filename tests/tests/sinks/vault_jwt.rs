//! Vault's own code takes what is uploaded, and verifies tokens by it; and our stand-in of Vault judges as it does.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::token::TokenSigner;
use e2e::vault::{Role, Vault};
use e2e::vault_jwt::VaultJwt;
use e2e::{binary, wait};
use serde_json::{Value, json};

const AUDIENCE: &str = "vault";
const SUBJECT: &str = "system:serviceaccount:demo:app";

fn token(key: &KeyFile, changes: &Value) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut claims = json!({
        "iss": "https://id.example.com", "aud": [AUDIENCE], "sub": SUBJECT, "iat": now, "nbf": now, "exp": now + 3600,
    });
    claims.as_object_mut().context("claims")?.extend(changes.as_object().cloned().unwrap_or_default());
    claims.as_object_mut().context("claims")?.retain(|_, value| !value.is_null());
    TokenSigner::read(&key.private)?.sign(&claims)
}

#[tokio::test]
async fn vaults_own_code_follows_a_rotation() -> Result<()> {
    if binary::skipped(&["vault-jwt"]) {
        return Ok(());
    }
    let dir = Scratch::new("vault-jwt-keys")?;
    let (old, new, theirs) =
        (KeyFile::new(&dir, "old")?, KeyFile::new(&dir, "new")?, KeyFile::new(&dir, "theirs")?);
    let watched = dir.join("watched");
    std::fs::create_dir(&watched)?;
    old.put_public_half_into(&watched)?;
    let vault = VaultJwt::start().await?;
    vault.add_role("app", AUDIENCE, SUBJECT).await?;

    let mut site = Site::new()?;
    site.add_issuer_of_files("/cluster-a", &[&watched], json!([]))?;
    site.dir().write("token", vault.token())?;
    site.config["issuers"][0]["retention"] = json!("1s");
    site.config["issuers"][0]["sinks"] =
        json!([{ "name": "one", "vault": { "address": vault.url(), "tokenFile": "token" } }]);
    let issuer = json!({ "iss": site.url("/cluster-a") });
    let logs_in = async |key: &KeyFile| vault.login("app", &token(key, &issuer)?).await;
    // Nobody logs in while the configuration is written: see `VaultJwt::holds`.
    let holds = async |key: &KeyFile| vault.holds(&key.kid).await;

    let mut service = site.start_ready().await?;
    wait::until("the old key in Vault", async || holds(&old).await).await?;
    wait::until("the old key to log in", async || Ok(logs_in(&old).await?.is_ok())).await?;
    assert_eq!(vault.configuration().await?.get("bound_issuer"), issuer.get("iss"));
    assert!(logs_in(&new).await?.is_err());
    new.put_public_half_into(&watched)?;
    wait::until("the new key in Vault", async || holds(&new).await).await?;
    wait::until("the new key to log in", async || Ok(logs_in(&new).await?.is_ok())).await?;
    assert!(logs_in(&old).await?.is_ok());

    // Somebody writes the configuration anew, with a key and settings of their own.
    let configuration = json!({
        "jwt_validation_pubkeys": [theirs.public_pem()?, old.public_pem()?, new.public_pem()?],
        "bound_issuer": issuer.get("iss"), "default_role": "app", "jwt_supported_algs": ["RS256"],
        "namespace_in_state": false,
    });
    ensure!(vault.write("config", &configuration).await?.0 == 204);
    let before = vault.configuration().await?;
    std::fs::remove_file(watched.join("old.pub"))?;
    wait::until("Vault without the old key", async || Ok(!holds(&old).await?)).await?;
    wait::until("the old key to be refused", async || Ok(logs_in(&old).await?.is_err())).await?;
    for accepted in [&new, &theirs] {
        assert!(logs_in(accepted).await?.is_ok(), "{accepted:?}");
    }
    let after = vault.configuration().await?;
    for (field, value) in before.as_object().context("fields")? {
        assert_eq!(after.get(field) == Some(value), field != "jwt_validation_pubkeys", "{field}");
    }
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}

#[tokio::test]
async fn the_stand_in_takes_and_shows_what_vaults_own_code_takes_and_shows() -> Result<()> {
    if binary::skipped(&["vault-jwt"]) {
        return Ok(());
    }
    let dir = Scratch::new("vault-jwt-keys")?;
    let (rsa, ec) = (KeyFile::new(&dir, "rsa")?.public_pem()?, KeyFile::p256(&dir, "ec")?.public_pem()?);
    let (real, stand_in) = (VaultJwt::start().await?, Vault::start().await?);
    assert_eq!((real.configuration().await?, stand_in.configuration()), (Value::Null, Value::Null));
    let keys = |keys: &[&str]| json!({ "jwt_validation_pubkeys": keys });
    let broken = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    for (fields, is_taken) in [
        (keys(&[&rsa]), true),
        (keys(&[&rsa, &ec]), true),
        (keys(&[&format!("\n\n{ec}\n\n")]), true),
        (keys(&[]), false),
        (json!({}), false),
        (keys(&[broken]), false),
        (keys(&[&rsa, broken]), false),
        (keys(&["not PEM"]), false),
        (json!({ "jwt_validation_pubkeys": [rsa], "jwks_url": "https://127.0.0.1:1" }), false),
        (json!({ "jwt_validation_pubkeys": [rsa], "oidc_discovery_url": "https://127.0.0.1:1" }), false),
        (
            json!({ "jwt_validation_pubkeys": [rsa], "jwks_pairs": [{ "jwks_url": "https://127.0.0.1:1" }] }),
            false,
        ),
        (json!({ "jwt_validation_pubkeys": [rsa], "oidc_client_id": "x" }), false),
        (json!({ "jwt_validation_pubkeys": [rsa], "jwt_supported_algs": ["HS256"] }), false),
        (json!({ "jwt_validation_pubkeys": [rsa], "jwt_supported_algs": ["RS256", "ES256"] }), true),
        (
            json!({ "jwt_validation_pubkeys": [ec], "bound_issuer": "https://x", "namespace_in_state": false }),
            true,
        ),
        (json!({ "jwt_validation_pubkeys": [ec], "status": "valid" }), true),
    ] {
        let (status, answer) = real.write("config", &fields).await?;
        assert_eq!(status < 300, is_taken, "the real one: {fields}: {answer}");
        let ours = stand_in.configure(&fields);
        assert_eq!(ours.is_ok(), is_taken, "the stand-in: {fields}: {ours:?}");
        if let Err(error) = ours {
            let start = error.to_string().chars().take(24).collect::<String>();
            assert!(answer.to_string().contains(&start), "{start}: {answer}");
        }
        let (real, stand_in) = (real.configuration().await?, stand_in.configuration());
        for (field, value) in real.as_object().into_iter().flatten() {
            // Vault's latest field; OpenBao has none of it.
            if field != "unsupported_critical_cert_extensions" {
                assert_eq!(stand_in.get(field), Some(value), "{field} after {fields}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_stand_in_refuses_the_tokens_that_vaults_own_code_refuses() -> Result<()> {
    if binary::skipped(&["vault-jwt"]) {
        return Ok(());
    }
    let dir = Scratch::new("vault-jwt-keys")?;
    let (known, unknown) = (KeyFile::new(&dir, "known")?, KeyFile::new(&dir, "unknown")?);
    let (real, stand_in) = (VaultJwt::start().await?, Vault::start().await?);
    let fields =
        json!({ "jwt_validation_pubkeys": [known.public_pem()?], "bound_issuer": "https://id.example.com" });
    stand_in.configure(&fields)?;
    ensure!(real.write("config", &fields).await?.0 == 204);
    real.add_role("app", AUDIENCE, SUBJECT).await?;
    let role = Role { bound_audience: AUDIENCE.to_owned(), bound_subject: SUBJECT.to_owned() };
    stand_in.add_role("app", role);
    let foreign = TokenSigner::read(&unknown.private)?
        .sign_as(&known.kid, &e2e::token::claims(&token(&known, &json!({}))?)?)?;
    for (why, jwt, is_accepted) in [
        ("good", token(&known, &json!({}))?, true),
        ("a text as audience", token(&known, &json!({ "aud": AUDIENCE }))?, true),
        ("an unknown key", token(&unknown, &json!({}))?, false),
        ("an unknown key under a known id", foreign, false),
        ("another issuer", token(&known, &json!({ "iss": "https://id.example.com/" }))?, false),
        ("another audience", token(&known, &json!({ "aud": ["other"] }))?, false),
        ("no audience", token(&known, &json!({ "aud": null }))?, false),
        ("another subject", token(&known, &json!({ "sub": "system:serviceaccount:demo:other" }))?, false),
        ("expired", token(&known, &json!({ "iat": 1, "nbf": 1, "exp": 2 }))?, false),
        (
            "not yet valid",
            token(&known, &json!({ "nbf": 4_102_444_800_u64, "exp": 4_102_448_400_u64 }))?,
            false,
        ),
    ] {
        let (real, ours) = (real.login("app", &jwt).await?, stand_in.login("app", &jwt).await?);
        assert_eq!(real.is_ok(), is_accepted, "the real one: {why}: {real:?}");
        assert_eq!(ours.is_ok(), is_accepted, "the stand-in: {why}: {ours:?}");
    }
    Ok(())
}
