//! The issuer URL, an opaque string that must equal the `iss` of every token.

use std::fmt;
use std::str::FromStr;

use fluent_uri::Uri;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An issuer URL that kube-apiserver accepts for discovery, kept byte for byte.
///
/// Grammar: an absolute `https` URL with a host, without user information, query or fragment
/// (OpenID Connect Discovery 1.0 section 3, and kube-apiserver's own checks). Port, path, IP host, upper case and
/// a trailing slash are legal here; [`crate::lint`] says which relying parties dislike them. Nothing is ever
/// normalised: relying parties compare the string.
///
/// ```
/// use chancery_core::IssuerUrl;
/// let issuer: IssuerUrl = "https://id.example.com/cluster-a".parse()?;
/// assert_eq!(issuer.jwks_uri(), "https://id.example.com/cluster-a/openid/v1/jwks");
/// assert!("http://id.example.com".parse::<IssuerUrl>().is_err());
/// # Ok::<(), chancery_core::issuer_url::IssuerUrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IssuerUrl(Uri<String>);

impl IssuerUrl {
    /// The string exactly as it was given.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Where relying parties look for the discovery document: the issuer without one trailing slash, plus
    /// `/.well-known/openid-configuration` (OpenID Connect Discovery 1.0 section 4.1).
    pub fn discovery_url(&self) -> String {
        self.url_of(".well-known/openid-configuration")
    }

    /// Where we publish the JWKS: kube-apiserver's own path below the issuer.
    pub fn jwks_uri(&self) -> String {
        self.url_of("openid/v1/jwks")
    }

    /// The URL of a document whose path is relative to the issuer.
    pub fn url_of(&self, relative_path: &str) -> String {
        let base = self.as_str();
        format!("{}/{relative_path}", base.strip_suffix('/').unwrap_or(base))
    }

    /// The host as written, an IPv6 address with its brackets.
    pub fn host(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.host())
    }

    /// Whether the host is an IP address rather than a name.
    pub fn host_is_ip(&self) -> bool {
        use fluent_uri::component::Host;
        self.0.authority().is_some_and(|authority| !matches!(authority.host_parsed(), Host::RegName(_)))
    }

    /// The port, if the URL names one.
    pub fn port(&self) -> Option<u16> {
        let port = self.0.authority()?.port()?.as_str();
        port.parse().ok()
    }

    /// Host and port as written, the way a `Host` header names us.
    pub fn authority(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }

    /// The path as written: empty, or starting with a slash.
    pub fn path(&self) -> &str {
        self.0.path().as_str()
    }
}

impl FromStr for IssuerUrl {
    type Err = IssuerUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match check(text) {
            Ok(uri) => Ok(Self(uri)),
            Err((what, remedy)) => Err(IssuerUrlError { came: text.to_owned(), what, remedy }),
        }
    }
}

/// The grammar, as what is wrong and what to do.
fn check(text: &str) -> Result<Uri<String>, (&'static str, &'static str)> {
    const FORM: &str = "expected https://HOST[:PORT][/PATH]";
    if text.is_empty() {
        return Err(("is empty", "expected an absolute https URL such as https://id.example.com/cluster-a"));
    }
    if text.trim() != text {
        return Err((
            "starts or ends with white space",
            "relying parties compare it byte for byte, so remove it",
        ));
    }
    let Ok(uri) = Uri::parse(text.to_owned()) else {
        return Err((
            "is not an absolute URL (RFC 3986)",
            "expected https://HOST[:PORT][/PATH], other characters percent-encoded",
        ));
    };
    if uri.scheme().as_str() != "https" {
        return Err(("must start with https:// in lower case", "relying parties refuse any other scheme"));
    }
    if uri.query().is_some() {
        return Err(("has a query", "an issuer may not have one, remove everything from the `?` on"));
    }
    if uri.fragment().is_some() {
        return Err(("has a fragment", "an issuer may not have one, remove everything from the `#` on"));
    }
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or(("names no host", FORM))?;
    if authority.has_userinfo() {
        return Err(("carries user information before an `@`", "an issuer URL is public, remove it"));
    }
    if authority.port().is_some_and(|port| port.as_str().parse::<u16>().is_err()) {
        return Err(("has a port that is empty or not a number up to 65535", "write one or drop the colon"));
    }
    Ok(uri)
}

impl fmt::Display for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for IssuerUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for IssuerUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A string that cannot be an issuer URL, with the reason and the remedy in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("issuer URL {came:?} {what}; {remedy}")]
pub struct IssuerUrlError {
    came: String,
    what: &'static str,
    remedy: &'static str,
}

impl IssuerUrlError {
    /// What came and what is wrong with it.
    pub fn what(&self) -> String {
        format!("issuer URL {:?} {}", self.came, self.what)
    }

    /// What is expected instead.
    pub fn remedy(&self) -> &'static str {
        self.remedy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_byte_of_what_kube_apiserver_accepts() {
        for text in [
            "https://id.example.com",
            "https://id.example.com/",
            "https://ID.Example.com:8443/Cluster-A/",
            "https://127.0.0.1:6443/path",
            "https://[::1]:6443",
            "https://kubernetes.default.svc.cluster.local",
            "https://s3.eu-west-1.amazonaws.com/bucket/a%20b",
        ] {
            assert_eq!(text.parse::<IssuerUrl>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn refuses_with_the_reason() {
        for (text, word) in [
            ("", "empty"),
            (" https://id.example.com", "white space"),
            ("id.example.com", "absolute"),
            ("http://id.example.com", "https"),
            ("HTTPS://id.example.com", "lower case"),
            ("https://id.example.com/?a=b", "query"),
            ("https://id.example.com?", "query"),
            ("https://id.example.com#a", "fragment"),
            ("https://", "host"),
            ("https:///path", "host"),
            ("https:id", "host"),
            ("https://me@id.example.com", "user information"),
            ("https://id.example.com:", "port"),
            ("https://id.example.com:99999", "port"),
            ("https://id.example.com/a b", "absolute"),
        ] {
            let error = text.parse::<IssuerUrl>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn derives_urls_without_doubling_the_slash() {
        let issuer: IssuerUrl = "https://id.example.com/a/".parse().unwrap();
        assert_eq!(issuer.discovery_url(), "https://id.example.com/a/.well-known/openid-configuration");
        assert_eq!(issuer.jwks_uri(), "https://id.example.com/a/openid/v1/jwks");
        assert_eq!((issuer.host(), issuer.port(), issuer.path()), ("id.example.com", None, "/a/"));
    }

    #[test]
    fn tells_addresses_from_names() {
        for (text, is_ip) in [
            ("https://127.0.0.1", true),
            ("https://[::1]:1", true),
            ("https://localhost", false),
            ("https://1.2.3.4.example", false),
        ] {
            assert_eq!(text.parse::<IssuerUrl>().unwrap().host_is_ip(), is_ip, "{text}");
        }
    }
}
