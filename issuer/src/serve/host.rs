//! Names under which clients reach us, compared as HTTP compares them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A host besides those of the issuer URLs, such as a Service's name or what a proxy in front sends.
///
/// Grammar: `HOST` or `HOST:PORT`, an IPv6 address in brackets. Kept in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraHost {
    normalized: String,
    has_port: bool,
}

impl ExtraHost {
    /// The host in lower case, without a trailing dot and without port 443.
    pub fn as_str(&self) -> &str {
        &self.normalized
    }

    /// Whether it is bound to one port.
    pub fn has_port(&self) -> bool {
        self.has_port
    }
}

impl FromStr for ExtraHost {
    type Err = ExtraHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ExtraHostError(text.to_owned());
        let authority: http::uri::Authority = text.parse().map_err(|_| refused())?;
        let port = text.strip_prefix(without_port(text)).unwrap_or_default();
        let port_is_legal = port.is_empty() || port.trim_start_matches(':').parse::<u16>().is_ok();
        if !port_is_legal || authority.host().is_empty() || text.contains('@') {
            return Err(refused());
        }
        Ok(Self { normalized: normalized(text), has_port: !port.is_empty() })
    }
}

impl fmt::Display for ExtraHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.normalized)
    }
}

impl<'de> Deserialize<'de> for ExtraHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A text that is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "extra host {0:?} cannot be used; expected HOST or HOST:PORT without a scheme and a path, such as chancery.chancery.svc:8443"
)]
pub struct ExtraHostError(String);

/// `authority` in the form in which hosts are compared: lower case, no trailing dot, no default port.
pub(super) fn normalized(authority: &str) -> String {
    let host = without_port(authority);
    let port = authority.strip_prefix(host).unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if matches!(port, "" | ":" | ":443") { host } else { host + port }
}

/// `authority` without its port, if it has one.
pub(super) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// The name or the address alone, as a certificate names it.
pub(super) fn host_alone(authority: &str) -> String {
    let normalized = normalized(authority);
    without_port(&normalized).trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_compare_without_case_trailing_dot_and_default_port() {
        for (sent, compared) in [
            ("id.example.com", "id.example.com"),
            ("ID.Example.com", "id.example.com"),
            ("id.example.com:443", "id.example.com"),
            ("id.example.com:", "id.example.com"),
            ("id.example.com.", "id.example.com"),
            ("id.example.com.:8443", "id.example.com:8443"),
            ("id.example.com:80", "id.example.com:80"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("[2001:db8::443]:443", "[2001:db8::443]"),
            ("", ""),
        ] {
            assert_eq!(normalized(sent), compared, "{sent}");
        }
    }

    #[test]
    fn an_extra_host_is_a_host_and_nothing_more() {
        for (text, port) in [
            ("chancery.svc", false),
            ("chancery.svc:8443", true),
            ("chancery.svc:443", true),
            ("[::1]:1", true),
            ("[::1]", false),
        ] {
            assert_eq!(text.parse::<ExtraHost>().unwrap().has_port(), port, "{text}");
        }
        for text in ["", "https://a.example", "a/b", "me@a.example", "a.example:", "a.example:99999", "a b"] {
            let error = text.parse::<ExtraHost>().unwrap_err().to_string();
            assert!(error.contains("expected HOST"), "{text}: {error}");
        }
    }
}
