//! A subject token as it says of itself, which nobody has verified here.
//!
//! Chancery's exchange does not verify the token: the other side does. It is read so that what would be refused is found
//! before it is sent, and so that an error can say what was sent.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_wire::Secret;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::error::{Class, ExchangeError, Sent, Stage};
use crate::limits;

/// A token in JWS compact serialisation (RFC 7515 section 3.1) whose signature nobody has checked.
#[derive(Clone, Debug)]
pub struct UnverifiedToken {
    secret: Secret,
    header: Header,
    claims: Claims,
}

/// What the header says (RFC 7515 section 4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Header {
    /// `alg`.
    pub alg: Option<String>,
    /// `kid`.
    pub kid: Option<String>,
    /// `typ`.
    pub typ: Option<String>,
}

/// What the claims say (RFC 7519 section 4.1). Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Claims {
    /// `iss`.
    pub iss: Option<String>,
    /// `sub`.
    pub sub: Option<String>,
    /// `aud`, one or several.
    #[serde(default)]
    pub aud: Audiences,
    /// `exp`.
    pub exp: Option<Seconds>,
    /// `nbf`.
    pub nbf: Option<Seconds>,
    /// `iat`.
    pub iat: Option<Seconds>,
    /// `cnf`: the token is bound to a key, and its bearer would have to prove it (RFC 7800).
    pub cnf: Option<Value>,
    /// What Kubernetes says of the workload.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Option<Value>,
    /// Every other claim.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The ServiceAccount that a token of Kubernetes' is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedServiceAccount<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: Option<&'a str>,
}

impl Claims {
    /// The ServiceAccount that the claim `kubernetes.io` names.
    pub fn service_account(&self) -> Option<ClaimedServiceAccount<'_>> {
        let kubernetes = self.kubernetes.as_ref()?;
        let account = kubernetes.get("serviceaccount")?;
        Some(ClaimedServiceAccount {
            namespace: kubernetes.get("namespace")?.as_str()?,
            name: account.get("name")?.as_str()?,
            uid: account.get("uid").and_then(Value::as_str),
        })
    }
}

/// The audiences of a token: a text or several (RFC 7519 section 4.1.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Audiences(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Audiences {
    fn from(audiences: OneOrMany) -> Self {
        match audiences {
            OneOrMany::One(audience) => Self(vec![audience]),
            OneOrMany::Many(audiences) => Self(audiences),
        }
    }
}

/// A `NumericDate` (RFC 7519 section 2), which may have a fraction that only AWS refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "f64")]
pub struct Seconds(pub i64);

impl TryFrom<f64> for Seconds {
    type Error = &'static str;

    fn try_from(seconds: f64) -> Result<Self, Self::Error> {
        // Beyond these, a `NumericDate` is no date that a calendar has.
        const YEAR_9999: f64 = 253_402_300_799.0;
        if !(0.0..=YEAR_9999).contains(&seconds) {
            return Err("a time outside of the years 1970 to 9999");
        }
        #[expect(clippy::cast_possible_truncation, reason = "it lies within the range just checked")]
        let whole = seconds as i64;
        Ok(Self(whole))
    }
}

impl UnverifiedToken {
    /// Reads a token. White space around it, as files end with, is dropped.
    ///
    /// # Errors
    /// What it is instead of a token, without a part of it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if text.len() > limits::TOKEN {
            return Err(TokenError::TooLong(text.len()));
        }
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !text.bytes().all(legal) {
            return Err(TokenError::OtherCharacters);
        }
        let parts: Vec<&str> = text.split('.').collect();
        let [header, claims, _] = parts.as_slice() else { return Err(TokenError::Parts(parts.len())) };
        let header = decode(header).ok_or(TokenError::Header)?;
        let claims = decode(claims).ok_or(TokenError::Claims)?;
        Ok(Self {
            header: serde_json::from_slice(&header).map_err(|_| TokenError::Header)?,
            claims: serde_json::from_slice(&claims).map_err(|_| TokenError::Claims)?,
            secret: Secret::new(text.to_owned()),
        })
    }

    /// The token itself.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// What its header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What its claims say.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// When it ends, as it says.
    pub fn expires_at(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.claims.exp?.0).ok()
    }

    /// What an error may say of it.
    pub fn sent(&self) -> Sent {
        Sent {
            iss: self.claims.iss.clone(),
            sub: self.claims.sub.clone(),
            aud: self.claims.aud.0.clone(),
            exp: self.claims.exp.map(|exp| exp.0),
            typ: self.header.typ.clone(),
            alg: self.header.alg.clone(),
            kid: self.header.kid.clone(),
        }
    }
}

/// When a token ends that an answer brought, where it is a JWT; others say nothing of themselves.
pub fn expiry_of(token: &str) -> Option<Timestamp> {
    UnverifiedToken::parse(token).ok()?.expires_at()
}

fn decode(part: &str) -> Option<Zeroizing<Vec<u8>>> {
    URL_SAFE_NO_PAD.decode(part).ok().map(Zeroizing::new)
}

/// Text that is no token. Nothing of it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nothing.
    #[error("it is empty")]
    Empty,
    /// Longer than any token.
    #[error("it has {0} bytes, more than any token of a platform")]
    TooLong(usize),
    /// A quoted token, several lines, or something else.
    #[error("it has characters that no JWT has")]
    OtherCharacters,
    /// Not three parts.
    #[error("it has {0} parts between dots, where a signed JWT has 3")]
    Parts(usize),
    /// A header that is not JSON.
    #[error("its header is not base64url of a JSON object")]
    Header,
    /// Claims that are not JSON, or of other types than RFC 7519 gives them.
    #[error("its claims are not base64url of a JSON object with the types of RFC 7519")]
    Claims,
}

impl TokenError {
    /// The same as a failure of the source that `origin` names.
    pub fn at(self, origin: &str) -> ExchangeError {
        ExchangeError::new(Class::Source, Stage::Source, "subject-token-unreadable")
            .came(&format!("what {origin} holds is no JWT: {self}"))
            .expected("a signed JWT in compact form, alone on one line")
            .remedy("check that this is where the platform puts the token")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_says_what_it_holds_and_is_printed_nowhere() {
        let text = token(
            r#"{"alg":"RS256","kid":"k"}"#,
            r#"{"iss":"https://id.example","sub":"system:serviceaccount:a:b","aud":["x"],"exp":2000000000.5,"jti":"1"}"#,
        );
        let token = UnverifiedToken::parse(&format!("{text}\n")).unwrap();
        assert_eq!(token.secret().expose(), text);
        assert_eq!(token.claims().aud.0, ["x"]);
        assert_eq!(token.expires_at().unwrap().as_second(), 2_000_000_000);
        assert!(!format!("{token:?}").contains(&text));
        assert!(token.claims().others.contains_key("jti"));
    }

    #[test]
    fn what_is_no_token_is_named_without_it() {
        for (text, error) in [
            (" \n".to_owned(), TokenError::Empty),
            ("x".repeat(limits::TOKEN + 1), TokenError::TooLong(limits::TOKEN + 1)),
            ("\"a.b.c\"".to_owned(), TokenError::OtherCharacters),
            ("a.b".to_owned(), TokenError::Parts(2)),
            ("a.b.c.d.e".to_owned(), TokenError::Parts(5)),
            ("!.b.c".to_owned(), TokenError::OtherCharacters),
            (token("[]", "{}"), TokenError::Header),
            (token("{}", r#"{"exp":"soon"}"#), TokenError::Claims),
            (token("{}", r#"{"exp":1e300}"#), TokenError::Claims),
        ] {
            assert_eq!(UnverifiedToken::parse(&text).unwrap_err(), error, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in any::<String>(), header in any::<String>(), claims in any::<String>()) {
            _ = UnverifiedToken::parse(&text);
            _ = UnverifiedToken::parse(&token(&header, &claims));
        }
    }
}
