//! Relying parties: what they are told of an issuer, and what they say of a token.

use std::fmt;

/// The outer `Result` of a relying party's method is about reaching it; this one is its answer: the name under
/// which it knows the bearer, or the refusal.
pub type Verdict<Accepted = String> = Result<Accepted, Refusal>;

/// What a relying party is told of an issuer; everything else it must find out through the URL.
#[derive(Clone, Debug)]
pub struct TrustedIssuer {
    /// Equal to `iss`, and where discovery is read.
    pub url: String,
    /// A token must name one of them.
    pub audiences: Vec<String>,
    /// The CA of the issuer's own server, PEM.
    pub ca_pem: String,
}

/// A token, or a credential, was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status; none where the relying party is a library.
    pub status: Option<u16>,
    /// The relying party's own words.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for Refusal {}
