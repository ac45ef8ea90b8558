//! The claims that a signature is asked for: read strictly, held against what this signer may sign, and never written anew.
//!
//! Relying parties read claims with parsers that differ: Go's matches names in any case and keeps the last of two, others
//! keep the first. What two of them could read differently is refused, by these rules, in this order:
//!
//! 1. base64url without padding and without spare bits (RFC 7515 section 2), of a bounded length;
//! 2. UTF-8, one JSON object and nothing after it, in which no object has two members that differ in case at most;
//! 3. `iss` is the issuer URL, byte for byte;
//! 4. `aud` is a text or a list of texts, at least one (RFC 7519 section 4.1.3);
//! 5. `exp`, `iat` and, if it is there, `nbf` are whole seconds from 0, and `exp` is not before `iat`;
//! 6. `exp - iat` is no longer than what was advertised.
//!
//! No clock is read: a signer whose own clock is wrong signs on.
//!
//! What is wrong goes to a log, so no refusal repeats a claim.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::IssuerUrl;

use self::json::Json;

mod json;

/// The longest claims that are read, in characters of base64url. kube-apiserver takes no header above 1 MiB, other servers
/// none above 8 to 64 KiB: nobody could use a longer token.
pub const LONGEST_CLAIMS: usize = 64 * 1024;

/// What this signer may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuancePolicy {
    /// What `iss` must be.
    pub issuer: IssuerUrl,
    /// The longest lifetime of a token, as `Metadata` advertises it.
    pub longest_lifetime: Duration,
    /// The audiences of kube-apiserver itself (`--api-audiences`). A token for any other is one for the outside.
    pub api_audiences: Vec<String>,
}

/// What of acceptable claims matters afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedClaims {
    /// `exp - iat`, in seconds.
    pub lifetime_seconds: u64,
    /// Whether an audience is one of kube-apiserver itself.
    pub is_for_api_server: bool,
    /// Whether an audience is one of the outside.
    pub is_for_outside: bool,
}

impl IssuancePolicy {
    /// Whether a signature over these encoded claims may be given.
    ///
    /// # Errors
    /// Which rule they break, without a word of what they say.
    pub fn check(&self, encoded: &str) -> Result<AcceptedClaims, ClaimsError> {
        if encoded.len() > LONGEST_CLAIMS {
            return Err(ClaimsError::TooLong(encoded.len()));
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| ClaimsError::Encoding)?;
        let unverified = Json::object(&bytes).map_err(ClaimsError::Json)?;
        match unverified.text("iss") {
            Some(issuer) if issuer == self.issuer.as_str() => {}
            Some(issuer) => return Err(ClaimsError::Issuer(issuer.len())),
            None => return Err(ClaimsError::NoIssuer),
        }
        let audiences = unverified.texts("aud").ok_or(ClaimsError::Audience)?;
        let is_api = |audience: &&str| self.api_audiences.iter().any(|own| own == audience);
        let seconds = |name| unverified.seconds(name).ok_or(ClaimsError::Time(name));
        let (expires, issued) = (seconds("exp")?, seconds("iat")?);
        if unverified.has("nbf") {
            seconds("nbf")?;
        }
        let lifetime_seconds = expires.checked_sub(issued).ok_or(ClaimsError::Backwards)?;
        let longest = self.longest_lifetime.as_secs();
        if lifetime_seconds > longest {
            return Err(ClaimsError::Lifetime { asked: lifetime_seconds, longest });
        }
        Ok(AcceptedClaims {
            lifetime_seconds,
            is_for_api_server: audiences.iter().any(is_api),
            is_for_outside: audiences.iter().any(|audience| !is_api(audience)),
        })
    }
}

/// Why claims are not signed. Nothing of the claims themselves is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimsError {
    /// Longer than anybody's header; the characters.
    #[error("claims of {0} characters; expected at most {LONGEST_CLAIMS}. Ask for fewer audiences")]
    TooLong(usize),
    /// Not base64url.
    #[error("claims that are not base64url without padding (RFC 7515); expected the second segment of a JWT")]
    Encoding,
    /// Not one unambiguous JSON object.
    #[error("claims that are not one JSON object with members that differ by more than case: {0}")]
    Json(#[source] serde_json::Error),
    /// Another issuer; the bytes of what came.
    #[error(
        "claims whose `iss`, of {0} bytes, is not this signer's issuer URL; start kube-apiserver with the same --service-account-issuer first as --issuer here, byte for byte"
    )]
    Issuer(usize),
    /// No issuer.
    #[error("claims without an `iss` that is a text; expected this signer's issuer URL")]
    NoIssuer,
    /// No audience.
    #[error("claims without an `aud` that is a text or a list of texts, at least one")]
    Audience,
    /// A time that is none.
    #[error("claims whose `{0}` is missing or no whole number of seconds from 0")]
    Time(&'static str),
    /// Expired when it was issued.
    #[error("claims whose `exp` is before their `iat`")]
    Backwards,
    /// Longer than advertised.
    #[error(
        "claims that ask for a lifetime of {asked} s; expected at most {longest} s, as advertised. kube-apiserver reads that once: restart it after --max-token-expiration was lowered"
    )]
    Lifetime {
        /// What was asked for, in seconds.
        asked: u64,
        /// The most, in seconds.
        longest: u64,
    },
}

#[cfg(test)]
mod tests;
