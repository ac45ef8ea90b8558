//! The crate `rsa`, with RustCrypto's PKCS#1, PKCS#5 and PKCS#8.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::pkcs1::DecodeRsaPrivateKey as _;
use rsa::pkcs1v15::{Signature, VerifyingKey};
use rsa::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, LineEnding};
use rsa::sha2::Sha256;
use rsa::signature::Verifier as _;
use rsa::traits::PublicKeyParts as _;
use rsa::{BigUint, RsaPrivateKey, RsaPublicKey};
use serde_json::Value;

use super::{import, jwk, keygen, new_key, token};
use e2e::scratch::Scratch;

/// The key that a JWK describes.
fn of_jwk(jwk: &Value) -> Result<RsaPublicKey> {
    let number = |name: &str| -> Result<BigUint> {
        let text = jwk[name].as_str().with_context(|| format!("a JWK without {name}"))?;
        Ok(BigUint::from_bytes_be(&URL_SAFE_NO_PAD.decode(text)?))
    };
    Ok(RsaPublicKey::new(number("n")?, number("e")?)?)
}

#[tokio::test]
async fn rsa_reads_both_halves_the_jwk_and_a_token_of_a_key_that_we_made() -> Result<()> {
    for (algorithm, bits) in [("rsa-2048", 2048), ("rsa-3072", 3072)] {
        let dir = new_key(algorithm).await?;
        let private = RsaPrivateKey::from_pkcs1_pem(&std::fs::read_to_string(dir.join("sa.key"))?)?;
        private.validate()?;
        assert_eq!(private.n().bits(), bits);
        let public = RsaPublicKey::from_public_key_pem(&std::fs::read_to_string(dir.join("sa.pub"))?)?;
        assert_eq!(public, private.to_public_key());
        assert_eq!(of_jwk(&jwk(&dir.join("sa.pub")).await?)?, public);

        let token = token(&dir.join("sa.key"))?;
        let (signed, signature) = token.rsplit_once('.').context("not a JWT")?;
        let signature = Signature::try_from(URL_SAFE_NO_PAD.decode(signature)?.as_slice())?;
        VerifyingKey::<Sha256>::new(public).verify(signed.as_bytes(), &signature)?;
    }
    Ok(())
}

#[tokio::test]
async fn rsa_opens_a_file_that_we_sealed() -> Result<()> {
    let dir = Scratch::new("sealed")?;
    let passphrase = dir.write("passphrase", "correct horse battery staple\n")?;
    keygen(&[&"new", &"--out-dir", &dir.path(), &"--passphrase-file", &passphrase]).await?;
    let sealed = std::fs::read_to_string(dir.join("sa.key"))?;
    let opened = RsaPrivateKey::from_pkcs8_encrypted_pem(&sealed, "correct horse battery staple")?;
    assert_eq!(of_jwk(&jwk(&dir.join("sa.pub")).await?)?, opened.to_public_key());
    assert!(RsaPrivateKey::from_pkcs8_encrypted_pem(&sealed, "another").is_err());
    Ok(())
}

#[tokio::test]
async fn we_read_a_key_that_rsa_made_and_a_file_that_it_sealed() -> Result<()> {
    let private = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048)?;
    let dir = Scratch::new("theirs")?;
    let plain = dir.write("plain.key", private.to_pkcs8_pem(LineEnding::LF)?.as_bytes())?;
    assert_eq!(of_jwk(&import(&dir, &plain, None).await?)?, private.to_public_key());

    let dir = Scratch::new("theirs-sealed")?;
    let passphrase = dir.write("passphrase", "opensesame-opensesame\n")?;
    let pem = private.to_pkcs8_encrypted_pem(
        &mut rsa::rand_core::OsRng,
        "opensesame-opensesame",
        LineEnding::LF,
    )?;
    let sealed = dir.write("sealed.key", pem.as_bytes())?;
    assert_eq!(of_jwk(&import(&dir, &sealed, Some(&passphrase)).await?)?, private.to_public_key());
    Ok(())
}
