//! Bundles of keys that were made where there is no network: signed by a bundle key, which is enrolled where they are
//! imported.
//!
//! | file | holds |
//! |---|---|
//! | `bundle.json` | the public halves in the order in which they are to sign: [`KeyBundle`] |
//! | `bundle.jws` | its signature, a JWS with detached content (RFC 7515 appendix F) over the bytes of the file |
//! | `001.sealed.pem` and so on | the private half of each, sealed, in the same order |
//!
//! The type in the JWS header sets it apart from a JWT: whatever a key was made to sign as a token is no bundle, and
//! no bundle is a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::key_bundle::{KeyBundle, KeyBundleError};
use chancery_core::{KeyId, PublicKey, listed};

use crate::verifying_key::VerifyingKey;
use crate::{KeyError, SigningKey};

/// The public halves.
pub const DOCUMENT: &str = "bundle.json";
/// The signature over them.
pub const SIGNATURE: &str = "bundle.jws";

/// The file with the private half of the key that comes after `index` others.
pub fn private_half(index: usize) -> String {
    format!("{:03}.sealed.pem", index.saturating_add(1))
}

/// Signs the bytes of a bundle's document.
///
/// # Errors
/// Only if the cryptographic library fails.
pub fn sign(document: &[u8], bundle_key: &SigningKey) -> Result<String, KeyError> {
    let header = header(bundle_key.public_key());
    let signature = bundle_key.sign(signing_input(&header, document).as_bytes())?;
    Ok(format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Reads a bundle that one of the `enrolled` keys has signed.
///
/// # Errors
/// When none of them has, or what was signed is no bundle.
pub fn open(document: &[u8], signature: &str, enrolled: &[PublicKey]) -> Result<KeyBundle, BundleError> {
    let parts: Vec<&str> = signature.trim_ascii().split('.').collect();
    let &[signed_header, "", signature] = parts.as_slice() else { return Err(BundleError::NoSignature) };
    // Compared and not parsed: nothing in it is decided by whoever wrote it.
    let Some(key) = enrolled.iter().find(|key| header(key) == signed_header) else {
        let enrolled = enrolled.iter().map(|key| key.key_id().as_str());
        return Err(BundleError::NotEnrolled(listed(enrolled.collect::<Vec<_>>())));
    };
    let altered = || BundleError::Altered(key.key_id().clone());
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| altered())?;
    let verifying = VerifyingKey::new(key).ok_or_else(altered)?;
    if !verifying.verifies(signing_input(signed_header, document).as_bytes(), &signature) {
        return Err(altered());
    }
    Ok(KeyBundle::from_json(document)?)
}

fn header(key: &PublicKey) -> String {
    let (algorithm, kid) = (key.algorithm(), key.key_id());
    URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{algorithm}","kid":"{kid}","typ":"chancery-key-bundle"}}"#))
}

fn signing_input(header: &str, document: &[u8]) -> String {
    format!("{header}.{}", URL_SAFE_NO_PAD.encode(document))
}

/// Why a bundle is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The signature has another form.
    #[error(
        "its signature is no JWS with detached content; expected `{SIGNATURE}` as `chancery keygen bundle` writes it"
    )]
    NoSignature,
    /// Somebody else has signed it.
    #[error(
        "none of the enrolled bundle keys has signed it; expected {0}. Enrol the key that did only if you know whose it is"
    )]
    NotEnrolled(String),
    /// The key is named, and the signature is not by it.
    #[error(
        "it is not what bundle key {0} has signed: somebody has changed it, or the medium is damaged; bring it again"
    )]
    Altered(KeyId),
    /// It is signed, and of no use.
    #[error(transparent)]
    Bundle(#[from] KeyBundleError),
}

#[cfg(test)]
mod tests {
    use chancery_core::key_bundle::BundledKey;

    use super::*;
    use crate::{KeySpec, PrivateKey};

    #[test]
    fn every_kind_of_bundle_key_vouches_for_these_bytes_alone() {
        let key = || PrivateKey::generate(KeySpec::P256).unwrap();
        let keys = vec![BundledKey::new(key().public_key().clone(), None)];
        let bundle = KeyBundle::new("https://id.example.com/a".parse().unwrap(), keys).unwrap();
        let document = bundle.to_json();
        for spec in [KeySpec::Rsa2048, KeySpec::P256, KeySpec::P384, KeySpec::P521] {
            let by = PrivateKey::generate(spec).unwrap();
            let enrolled = [key().public_key().clone(), by.public_key().clone()];
            let signature = sign(&document, by.signing_key()).unwrap();
            assert_eq!(open(&document, &format!("{signature}\n"), &enrolled), Ok(bundle.clone()));
            let mut changed = document.clone();
            changed.push(b' ');
            let altered = Err(BundleError::Altered(by.public_key().key_id().clone()));
            assert_eq!(open(&changed, &signature, &enrolled), altered);
            let (rest, last) = signature.split_at(signature.len() - 4);
            let turned = format!("{rest}{}", if last == "AAAA" { "BBBB" } else { "AAAA" });
            assert_eq!(open(&document, &turned, &enrolled), altered);
            let others = [key().public_key().clone()];
            assert!(matches!(open(&document, &signature, &others), Err(BundleError::NotEnrolled(_))));
        }
    }

    #[test]
    fn a_token_is_no_bundle_whatever_it_says() {
        let by = PrivateKey::generate(KeySpec::P256).unwrap();
        let keys = vec![BundledKey::new(by.public_key().clone(), None)];
        let document = KeyBundle::new("https://id.example.com/a".parse().unwrap(), keys).unwrap().to_json();
        let jwt = by.signing_key().jwt(&document).unwrap();
        let parts: Vec<&str> = jwt.split('.').collect();
        let detached = format!("{}..{}", parts[0], parts[2]);
        let enrolled = [by.public_key().clone()];
        assert!(matches!(open(&document, &detached, &enrolled), Err(BundleError::NotEnrolled(_))));
        assert_eq!(open(&document, &jwt, &enrolled), Err(BundleError::NoSignature));
    }
}
