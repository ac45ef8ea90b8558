//! josekit, over the system's OpenSSL.

use anyhow::{Context as _, Result};
use josekit::jwk::alg::ec::{EcCurve, EcKeyPair};
use josekit::jwk::alg::rsa::RsaKeyPair;
use josekit::jwk::{Jwk, KeyPair};
use josekit::jws::{ES256, ES384, ES512, JwsVerifier, RS256};
use josekit::jwt;
use serde_json::{Value, json};

use super::{claims, import, jwk, new_key, token};
use e2e::scratch::Scratch;

/// The members that are the public key itself.
fn numbers(jwk: &Value) -> Vec<&Value> {
    ["kty", "crv", "n", "e", "x", "y"].into_iter().map(|name| &jwk[name]).collect()
}

fn public_jwk(pair: &dyn KeyPair) -> Result<Value> {
    Ok(serde_json::to_value(pair.to_jwk_public_key().as_ref())?)
}

fn read(pem: &str, curve: Option<EcCurve>) -> Result<Box<dyn KeyPair>> {
    Ok(match curve {
        Some(curve) => Box::new(EcKeyPair::from_pem(pem, Some(curve))?),
        None => Box::new(RsaKeyPair::from_pem(pem)?),
    })
}

fn verifier(jwk: &Jwk) -> Result<Box<dyn JwsVerifier>> {
    Ok(match jwk.algorithm() {
        Some("RS256") => Box::new(RS256.verifier_from_jwk(jwk)?),
        Some("ES256") => Box::new(ES256.verifier_from_jwk(jwk)?),
        Some("ES384") => Box::new(ES384.verifier_from_jwk(jwk)?),
        Some("ES512") => Box::new(ES512.verifier_from_jwk(jwk)?),
        other => anyhow::bail!("an algorithm that we do not sign with: {other:?}"),
    })
}

const KINDS: [(&str, Option<EcCurve>); 4] = [
    ("rsa-2048", None),
    ("p-256", Some(EcCurve::P256)),
    ("p-384", Some(EcCurve::P384)),
    ("p-521", Some(EcCurve::P521)),
];

#[tokio::test]
async fn josekit_reads_what_we_make() -> Result<()> {
    for (algorithm, curve) in KINDS {
        let dir = new_key(algorithm).await?;
        let ours = jwk(&dir.join("sa.pub")).await?;
        let pair = read(&std::fs::read_to_string(dir.join("sa.key"))?, curve).context(algorithm)?;
        assert_eq!(numbers(&public_jwk(pair.as_ref())?), numbers(&ours), "{algorithm}");

        let entry = Jwk::from_bytes(ours.to_string()).context(algorithm)?;
        let (payload, header) =
            jwt::decode_with_verifier(token(&dir.join("sa.key"))?, verifier(&entry)?.as_ref())?;
        assert_eq!(json!(payload.claims_set()), claims(), "{algorithm}");
        assert_eq!(header.key_id(), ours["kid"].as_str(), "{algorithm}");
    }
    Ok(())
}

#[tokio::test]
async fn we_read_what_josekit_makes() -> Result<()> {
    for (algorithm, curve) in KINDS {
        let pair: Box<dyn KeyPair> = match curve {
            Some(curve) => Box::new(EcKeyPair::generate(curve)?),
            None => Box::new(RsaKeyPair::generate(2048)?),
        };
        let dir = Scratch::new("theirs")?;
        let private = dir.write("theirs.key", pair.to_pem_private_key())?;
        let entry = import(&dir, &private, None).await?;
        assert_eq!(numbers(&entry), numbers(&public_jwk(pair.as_ref())?), "{algorithm}");
    }
    Ok(())
}
