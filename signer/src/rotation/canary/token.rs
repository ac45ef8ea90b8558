//! The token of a canary: signed by the key that signs next, for one party, for a few minutes.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::IssuerUrl;
use jiff::Timestamp;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::signing::{ActiveKey, SigningError};

/// Of a token's lifetime, this part lies before it is made: clocks of relying parties are behind, and MinIO allows for
/// nothing.
const EARLIER: u32 = 5;

/// What a token says.
#[derive(Debug)]
pub(super) struct Claims<'a> {
    /// `iss`.
    pub issuer: &'a IssuerUrl,
    /// `sub`.
    pub subject: &'a str,
    /// `aud`.
    pub audience: &'a str,
    /// `exp` less `iat`, the longest that the ring allows for.
    pub lifetime: Duration,
    /// The private claims that kube-apiserver demands of tokens of its own issuer.
    pub kubernetes: Option<Value>,
}

impl Claims<'_> {
    /// The claims as JSON. `id` is `jti`.
    fn json(&self, now: Timestamp, id: &str) -> Value {
        let (earlier, lifetime) = (self.lifetime / EARLIER, self.lifetime.as_secs());
        let issued = u64::try_from(now.as_second()).unwrap_or_default().saturating_sub(earlier.as_secs());
        let mut claims = json!({
            "iss": self.issuer, "sub": self.subject, "aud": [self.audience],
            "iat": issued, "nbf": issued, "exp": issued.saturating_add(lifetime), "jti": id,
        });
        if let (Some(claims), Some(kubernetes)) = (claims.as_object_mut(), &self.kubernetes) {
            claims.insert("kubernetes.io".to_owned(), kubernetes.clone());
        }
        claims
    }

    /// A token of these claims, which its key was found to verify.
    ///
    /// # Errors
    /// When the key cannot sign.
    pub fn sign(&self, key: &ActiveKey, now: Timestamp) -> Result<CanaryToken, SigningError> {
        let mut id = [0; 16];
        // It tells two tokens apart and keeps nothing secret: zeros would do as well.
        _ = aws_lc_rs::rand::fill(&mut id);
        let claims = URL_SAFE_NO_PAD.encode(self.json(now, &URL_SAFE_NO_PAD.encode(id)).to_string());
        let signature = Zeroizing::new(key.sign(&claims)?);
        Ok(CanaryToken(Zeroizing::new([key.header(), ".", &claims, ".", &signature].concat())))
    }
}

/// A token. It opens something for minutes, and is printed nowhere.
pub(super) struct CanaryToken(Zeroizing<String>);

impl CanaryToken {
    #[cfg(any(feature = "kube", feature = "canaries", test))]
    /// The token itself, to be shown to whom it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    #[cfg(any(feature = "kube", feature = "canaries", test))]
    /// Somebody else's text between quotation marks, without the token, and without its signature alone.
    pub fn quoted(&self, text: &str) -> String {
        let signature = self.0.rsplit_once('.').map_or("", |(_, signature)| signature);
        let mut text = text.replace(self.0.as_str(), "[token]");
        if !signature.is_empty() {
            text = text.replace(signature, "[signature]");
        }
        chancery_core::quoted::quoted(text.split_whitespace().collect::<Vec<_>>().join(" ")).to_string()
    }

    /// The same with a signature that verifies with no key.
    #[cfg(feature = "canaries")]
    pub fn spoiled(&self) -> Self {
        let (signed, signature) = self.0.rsplit_once('.').unwrap_or((&self.0, ""));
        // The first character: the last one may carry bits that nobody reads.
        let first = if signature.starts_with('A') { "B" } else { "A" };
        let rest = signature.get(1..).unwrap_or_default();
        Self(Zeroizing::new([signed, ".", first, rest].concat()))
    }
}

impl fmt::Debug for CanaryToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CanaryToken([{} bytes])", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;

    fn token(kubernetes: Option<Value>) -> (CanaryToken, ActiveKey) {
        let key = ActiveKey::new(PrivateKey::generate(KeySpec::P256).unwrap().into_signing_key()).unwrap();
        let issuer = "https://id.example.com/a".parse().unwrap();
        let lifetime = Duration::from_secs(300);
        let claims = Claims { issuer: &issuer, subject: "s", audience: "a", lifetime, kubernetes };
        (claims.sign(&key, Timestamp::from_second(10_000).unwrap()).unwrap(), key)
    }

    fn claims(token: &CanaryToken) -> Value {
        let part = token.expose().split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_token_lives_for_minutes_and_says_whose_it_is() {
        let (token, key) = token(None);
        assert!(token.expose().starts_with(key.header()));
        let mut found = claims(&token);
        let id = found.as_object_mut().unwrap().remove("jti").unwrap();
        assert_eq!(id.as_str().unwrap().len(), 22);
        let expected = json!({
            "iss": "https://id.example.com/a", "sub": "s", "aud": ["a"], "iat": 9940, "nbf": 9940, "exp": 10_240,
        });
        assert_eq!(found, expected);
        let account = json!({ "namespace": "n", "serviceaccount": { "name": "c", "uid": "u" } });
        let (of_kubernetes, _) = tests::token(Some(account.clone()));
        assert_eq!(claims(&of_kubernetes)["kubernetes.io"], account);
    }

    #[test]
    fn nothing_that_is_printed_has_the_token_in_it() {
        let (token, _) = token(None);
        let signature = token.expose().rsplit('.').next().unwrap();
        let said = format!("bad {}\n and {signature} ", token.expose());
        assert_eq!(token.quoted(&said), "\"bad [token] and [signature]\"");
        assert!(!format!("{token:?}").contains("eyJ"));
    }

    #[cfg(feature = "canaries")]
    #[test]
    fn a_spoiled_token_is_verified_by_nobody() {
        let (token, key) = token(None);
        let (spoiled, claims) = (token.spoiled(), token.expose().split('.').nth(1).unwrap());
        assert_ne!(spoiled.expose(), token.expose());
        assert_eq!(spoiled.expose().len(), token.expose().len());
        assert!(spoiled.expose().starts_with(&[key.header(), ".", claims].concat()));
    }
}
