//! Places that may be given a secret.
//!
//! There is one parser, and it is strict: a URL that two parsers could read differently is refused, since the one that
//! checks and the one that connects would then speak of two hosts. `https://0x7f.1` is 127.0.0.1 to the WHATWG parser
//! and a name to RFC 3986's; `https://good.example\@evil.example` has another host in each.
//!
//! A secret goes to `https` hosts that the rule names, or stays on this machine: `http` is for the loopback, and for
//! addresses that a rule lists, such as the credential endpoints of a cloud on its link-local network. User information
//! and fragments are never taken: the first would be a secret in a URL, the second is not sent.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::host_pattern::HostPattern;

/// Which URLs may be given a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRule {
    /// Empty where the operator has named the host itself.
    hosts: Vec<HostPattern>,
    loopback: bool,
    plain: Vec<IpAddr>,
    origin_only: bool,
}

impl EndpointRule {
    /// `https` to any host: whoever runs this process has named it. Or this machine.
    pub fn any_host() -> Self {
        Self { hosts: Vec::new(), loopback: true, plain: Vec::new(), origin_only: false }
    }

    /// `https` to hosts of these patterns, for a URL that somebody else wrote. Or this machine, where a stand-in of
    /// that host may run.
    pub fn hosts(patterns: impl IntoIterator<Item = HostPattern>) -> Self {
        Self { hosts: patterns.into_iter().collect(), ..Self::any_host() }
    }

    /// The same without this machine, for a URL of somebody who must not reach what listens here.
    #[must_use]
    pub fn without_loopback(self) -> Self {
        Self { loopback: false, ..self }
    }

    /// The same, and these addresses also by plain `http`, as a cloud gives credentials out on its link-local network.
    #[must_use]
    pub fn with_plain(self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { plain: addresses.into_iter().collect(), ..self }
    }

    /// The same for `https://HOST` alone: no path, no query, and no port but the usual one.
    #[must_use]
    pub fn origin_only(self) -> Self {
        Self { origin_only: true, ..self }
    }

    fn check(&self, url: &Url) -> Result<(), EndpointError> {
        let host = url.host_str().unwrap_or_default();
        let address = address_of(url);
        let is_plain = address.is_some_and(|address| self.plain.contains(&address));
        let is_here = self.loopback && is_loopback(url);
        match url.scheme() {
            _ if is_here || is_plain => {}
            "https" if !self.loopback && is_loopback(url) => return Err(self.other_host(host)),
            "https" if self.hosts.is_empty() => {}
            "https" if self.hosts.iter().any(|pattern| pattern.matches(host)) => {}
            "https" => return Err(self.other_host(host)),
            _ => return Err(EndpointError::InTheClear { host: host.to_owned() }),
        }
        let is_origin = url.path() == "/" && url.query().is_none() && url.port().is_none();
        if self.origin_only && !is_origin { Err(EndpointError::MoreThanAnOrigin) } else { Ok(()) }
    }

    fn other_host(&self, host: &str) -> EndpointError {
        let patterns = self.hosts.iter().map(|pattern| format!("`{pattern}`"));
        EndpointError::OtherHost {
            host: host.to_owned(),
            expected: patterns.collect::<Vec<_>>().join(" or "),
        }
    }
}

/// A URL that may be given a secret, by the rule it was parsed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// Parses a URL and holds it against a rule.
    ///
    /// ```
    /// use chancery_wire::{Endpoint, EndpointRule};
    /// let rule = EndpointRule::hosts(["sts.*.amazonaws.com".parse().unwrap()]);
    /// assert!(Endpoint::parse("https://sts.eu-west-1.amazonaws.com/", &rule).is_ok());
    /// assert!(Endpoint::parse("https://evil.example/sts.eu-west-1.amazonaws.com", &rule).is_err());
    /// ```
    ///
    /// # Errors
    /// Why it may not be given a secret. The error repeats nothing that could be one.
    pub fn parse(text: &str, rule: &EndpointRule) -> Result<Self, EndpointError> {
        let url = parse_url(text)?;
        rule.check(&url)?;
        Ok(Self(url))
    }

    /// The URL on the same server, for a link that the server gave or a path that a plan spelled out.
    ///
    /// # Errors
    /// When it is on another server, by scheme, host or port.
    pub fn admit(&self, text: &str) -> Result<Self, EndpointError> {
        let url = parse_url(text)?;
        if url.origin() == self.0.origin() { Ok(Self(url)) } else { Err(EndpointError::Elsewhere) }
    }

    /// What lies below it at `path`, which is encoded where it has to be. The query is dropped.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_query(None);
        url.set_path(&format!("{}/{}", self.0.path().trim_end_matches('/'), path.trim_start_matches('/')));
        Self(url)
    }

    /// The parsed URL.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// The host as it was parsed, in lower case; an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The URL without slashes at its end, so that a path can follow.
    pub fn base(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a URL may not be given a secret. Follows the name of a setting: "the endpoint carries user information".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL with a host, or with characters that no URL has.
    #[error("is no URL; expected https://HOST[:PORT][/PATH]")]
    NotAUrl,
    /// A password, or the name of somebody whose password would be asked for. Nothing of it is repeated.
    #[error("is a URL with user information; give credentials by a file or the environment")]
    UserInformation,
    /// A host that another parser reads as another one.
    #[error("spells its host in a way that not everybody reads alike; write {canonical:?}")]
    AmbiguousHost {
        /// How everybody reads it.
        canonical: String,
    },
    /// `#...`
    #[error("has a fragment, which is never sent; leave it out")]
    Fragment,
    /// Without TLS, to another machine.
    #[error(
        "would have the secret sent to {host:?} in the clear; expected https://, or http:// to this machine's own 127.0.0.1"
    )]
    InTheClear {
        /// The host.
        host: String,
    },
    /// A host that the rule does not name.
    #[error("would have the secret sent to {host:?}; expected https:// and a host of {expected}")]
    OtherHost {
        /// The host.
        host: String,
        /// The patterns of the rule.
        expected: String,
    },
    /// A path, query or port where none may be.
    #[error("has a path, a query or a port; expected https://HOST alone")]
    MoreThanAnOrigin,
    /// Another server than the one that was named.
    #[error("is on another server, which is not given the secret")]
    Elsewhere,
}

/// Whether what is sent to the host of a URL stays on this machine.
fn is_loopback(url: &Url) -> bool {
    url.host() == Some(Host::Domain("localhost"))
        || address_of(url).is_some_and(|address| address.is_loopback())
}

/// The address that a URL spells out; an IPv4 address in IPv6's clothes is one of IPv4.
fn address_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(IpAddr::V6(address).to_canonical()),
        Host::Domain(_) => None,
    }
}

/// Parses an `http` or `https` URL that every parser reads alike.
///
/// # Errors
/// What is wrong with it. The error repeats nothing that could be a secret.
pub fn parse_url(text: &str) -> Result<Url, EndpointError> {
    // WHATWG's parser drops some of the others, takes a backslash for a slash, and encodes the rest.
    let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    let (_, rest) =
        text.split_once("://").filter(|_| text.bytes().all(legal)).ok_or(EndpointError::NotAUrl)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(EndpointError::UserInformation);
    }
    let url = Url::parse(text).map_err(|_| EndpointError::NotAUrl)?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(EndpointError::NotAUrl)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointError::NotAUrl);
    }
    let port = authority.get(host.len()..).unwrap_or_default();
    let same_host = authority.get(..host.len()).is_some_and(|written| written.eq_ignore_ascii_case(host));
    let same_port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok() == url.port_or_known_default() && !port.starts_with('+'),
        None => port.is_empty(),
    };
    if !same_host || !same_port || host.ends_with('.') {
        return Err(EndpointError::AmbiguousHost { canonical: host.trim_end_matches('.').to_owned() });
    }
    if url.fragment().is_some() { Err(EndpointError::Fragment) } else { Ok(url) }
}

#[cfg(test)]
mod tests;
