//! SPIFFE ids (<https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md>).

use std::fmt;
use std::str::FromStr;

use crate::error::ExchangeError;

/// The longest id, and the longest trust domain in it, in bytes (section 2.3, section 2.1).
const LONGEST: usize = 2048;
const LONGEST_DOMAIN: usize = 255;

/// The identity of a workload: `spiffe://TRUST-DOMAIN/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiffeId(String);

impl SpiffeId {
    /// The id as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SpiffeId {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_workload = text.strip_prefix("spiffe://").and_then(|rest| rest.split_once('/'));
        let fits = text.len() <= LONGEST
            && is_workload.is_some_and(|(domain, path)| is_domain(domain) && path.split('/').all(is_segment));
        if fits {
            return Ok(Self(text.to_owned()));
        }
        Err(ExchangeError::configuration("spiffe-id")
            .came(&format!("{text:?}"))
            .expected("spiffe://TRUST-DOMAIN/PATH, the domain in lower case, nothing escaped, no empty part")
            .remedy("write the id as the SPIFFE server has it"))
    }
}

fn is_domain(domain: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    (1..=LONGEST_DOMAIN).contains(&domain.len()) && domain.bytes().all(legal)
}

fn is_segment(segment: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !matches!(segment, "" | "." | "..") && segment.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_16_ids_are_read_by_their_grammar() {
        for good in ["spiffe://example.org/ns/team-a/sa/app", "spiffe://1.2_3-x/A.b", "spiffe://a/..."] {
            assert_eq!(good.parse::<SpiffeId>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "spiffe://",
            "spiffe://example.org",
            "spiffe://example.org/",
            "spiffe:///a",
            "SPIFFE://example.org/a",
            "spiffe://Example.org/a",
            "spiffe://example.org:443/a",
            "spiffe://user@example.org/a",
            "spiffe://example.org/a/",
            "spiffe://example.org//a",
            "spiffe://example.org/a/../b",
            "spiffe://example.org/a%2fb",
            "spiffe://example.org/a?b",
            "spiffe://example.org/a#b",
            "https://example.org/a",
        ] {
            assert_eq!(bad.parse::<SpiffeId>().unwrap_err().code(), "spiffe-id", "{bad}");
        }
        assert!(format!("spiffe://a/{}", "x".repeat(2048)).parse::<SpiffeId>().is_err());
        assert!(format!("spiffe://{}/x", "a".repeat(256)).parse::<SpiffeId>().is_err());
    }
}
