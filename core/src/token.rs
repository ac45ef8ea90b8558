//! What a token says of itself that may be shown, unverified: everything but what makes it a secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What of a token can be shown. The token itself stays with whoever has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFacts {
    /// `iss`.
    pub issuer: String,
    /// `kid`: the id of the key that signed it.
    pub kid: String,
    /// `alg`.
    pub algorithm: String,
    /// `iat`, in seconds since 1970.
    pub issued: Option<u64>,
    /// `exp`, in seconds since 1970; a token without one does not expire.
    pub expires: Option<u64>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    kid: String,
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    iat: Option<u64>,
    exp: Option<u64>,
}

impl TokenFacts {
    /// Reads a token in JWS compact serialisation (RFC 7515 section 3.1), as Kubernetes makes them: `None` for everything else.
    pub fn read(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let Header { kid, alg } = part(parts.next()?)?;
        let Claims { iss, iat, exp } = part(parts.next()?)?;
        parts.next()?;
        let is_over = parts.next().is_none();
        is_over.then_some(Self { issuer: iss, kid, algorithm: alg, issued: iat, expires: exp })
    }

    /// How long it lives, in seconds, if it says so.
    pub fn lifetime(&self) -> Option<u64> {
        self.expires?.checked_sub(self.issued?)
    }
}

fn part<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        [header, claims, "signature"].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    #[test]
    fn what_a_token_says_of_itself_is_read() {
        let read =
            TokenFacts::read(&token(r#"{"alg":"RS256","kid":"k"}"#, r#"{"iss":"https://a","sub":"x"}"#));
        let expected = TokenFacts {
            issuer: "https://a".to_owned(),
            kid: "k".to_owned(),
            algorithm: "RS256".to_owned(),
            ..TokenFacts::default()
        };
        assert_eq!(read, Some(expected));
        let dated = TokenFacts::read(&token(r#"{"alg":"ES256"}"#, r#"{"iss":"a","iat":10,"exp":70}"#));
        assert_eq!(dated.and_then(|dated| dated.lifetime()), Some(60));
    }

    #[test]
    fn what_is_no_token_is_none() {
        let [header, claims] =
            [r#"{"alg":"RS256"}"#, r#"{"iss":"a"}"#].map(|part| URL_SAFE_NO_PAD.encode(part));
        let unsigned = format!("{header}.{claims}");
        let encrypted = format!("{header}.{claims}.x.x.x");
        for bad in ["", "secret", "c2VjcmV0.c2VjcmV0.x", &token("{}", "{}"), &unsigned, &encrypted] {
            assert_eq!(TokenFacts::read(bad), None, "{bad}");
        }
    }
}
