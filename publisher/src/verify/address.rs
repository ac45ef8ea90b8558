//! `HOST:PORT:ADDRESS`, servers that are asked instead of those that the name service knows.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use chancery_core::IssuerUrl;
pub use chancery_wire::GivenAddresses as Addresses;

/// An address given for a host, in the grammar of curl's `--resolve`: `HOST:PORT:ADDRESS`, where `PORT` is the one
/// of the URL. `ADDRESS` may bring a port of its own, for a server that listens elsewhere than the URL will say.
///
/// ```
/// use chancery_publisher::verify::address::GivenAddress;
/// let given: GivenAddress = "id.example.com:443:127.0.0.1:8443".parse()?;
/// assert_eq!(given.address, "127.0.0.1:8443".parse().unwrap());
/// # Ok::<(), chancery_publisher::verify::address::GivenAddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenAddress {
    /// The host in lower case.
    pub host: String,
    /// The port of the URL.
    pub port: u16,
    /// Where the connection goes.
    pub address: SocketAddr,
}

impl GivenAddress {
    /// Refuses an address that would be passed over without a word when `issuer` is read.
    ///
    /// # Errors
    /// When it is for another port of the issuer's host, or sends a URL that names its port to another one,
    /// which HTTP clients do not do.
    pub fn suits(&self, issuer: &IssuerUrl) -> Result<(), GivenAddressError> {
        if !self.host.eq_ignore_ascii_case(issuer.host()) {
            return Ok(());
        }
        let port = issuer.port().unwrap_or(443);
        if self.port != port {
            return Err(GivenAddressError::OtherPort { given: self.port, port });
        }
        if issuer.port().is_some() && self.address.port() != port {
            return Err(GivenAddressError::Moved { port, address: self.address });
        }
        Ok(())
    }
}

impl FromStr for GivenAddress {
    type Err = GivenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| GivenAddressError::Malformed(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<GivenAddress> {
    let (host, rest) = text.split_once(':')?;
    let (port, address) = rest.split_once(':')?;
    let port = port.parse().ok()?;
    let address = match address.parse() {
        Ok(with_port) => with_port,
        Err(_) => SocketAddr::new(without_brackets(address).parse::<IpAddr>().ok()?, port),
    };
    (!host.is_empty()).then(|| GivenAddress { host: host.to_ascii_lowercase(), port, address })
}

fn without_brackets(address: &str) -> &str {
    address.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(address)
}

/// Why an address cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GivenAddressError {
    /// Another grammar.
    #[error(
        "{0:?} is no address for a host; expected HOST:PORT:ADDRESS such as id.example.com:443:192.0.2.7, or HOST:PORT:ADDRESS:PORT"
    )]
    Malformed(String),
    /// For a port that is not asked.
    #[error("the address is for port {given}, but the issuer URL is read at port {port}; write {port}")]
    OtherPort {
        /// The port it was given for.
        given: u16,
        /// The port of the issuer URL.
        port: u16,
    },
    /// To another port than the URL names.
    #[error(
        "the issuer URL names port {port}, so that {address} cannot be asked instead; leave the port out of one of the two"
    )]
    Moved {
        /// The port of the issuer URL.
        port: u16,
        /// The address.
        address: SocketAddr,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_curl_reads_and_a_port() {
        for (text, host, port, address) in [
            ("id.example.com:443:192.0.2.7", "id.example.com", 443, "192.0.2.7:443"),
            ("ID.example.com:8443:192.0.2.7", "id.example.com", 8443, "192.0.2.7:8443"),
            ("id.example.com:443:127.0.0.1:9000", "id.example.com", 443, "127.0.0.1:9000"),
            ("id.example.com:443:[::1]", "id.example.com", 443, "[::1]:443"),
            ("id.example.com:443:::1", "id.example.com", 443, "[::1]:443"),
            ("id.example.com:443:[::1]:9000", "id.example.com", 443, "[::1]:9000"),
        ] {
            let expected = GivenAddress { host: host.to_owned(), port, address: address.parse().unwrap() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "id.example.com", "id.example.com:443", ":443:192.0.2.7", "a:b:192.0.2.7", "a:443:b"]
        {
            let error = text.parse::<GivenAddress>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT:ADDRESS"), "{text}: {error}");
        }
    }

    #[test]
    fn refuses_what_would_be_passed_over() {
        for (text, issuer, good) in [
            ("id.example.com:443:192.0.2.7", "https://id.example.com", true),
            ("id.example.com:443:192.0.2.7:1", "https://id.example.com", true),
            ("id.example.com:8443:192.0.2.7", "https://id.example.com:8443", true),
            ("other.example.com:1:192.0.2.7", "https://id.example.com", true),
            ("id.example.com:8443:192.0.2.7", "https://ID.example.com", false),
            ("id.example.com:8443:192.0.2.7:1", "https://id.example.com:8443", false),
        ] {
            let given: GivenAddress = text.parse().unwrap();
            assert_eq!(given.suits(&issuer.parse().unwrap()).is_ok(), good, "{text} {issuer}");
        }
    }
}
