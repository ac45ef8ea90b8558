//! Where a key set may be read that the discovery document places at another host.
//!
//! Whoever serves the discovery document chooses the `jwks_uri`, and whoever reads it makes a request there from within
//! a network of its own: to a cloud's metadata, a neighbour's API, a service of the cluster. Rules:
//!
//! 1. The issuer's own host is read like the discovery document itself, at whatever port.
//! 2. A host for which an address was given, or that is allowed by name, is read.
//! 3. A name that is local by itself (`kubernetes.default.svc`, `localhost`) is read only if the issuer's is as well.
//! 4. Of any other, every address that the name leads to must be public, or reachable from where the issuer is: as
//!    private, as loopback. One that is not spoils all of them. The connection then goes to the address that was judged,
//!    not to whatever the name leads to by then.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use chancery_core::host_scope::HostScope;

/// Hosts at which a key set may be read although they are not public, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedJwksHosts(BTreeSet<String>);

impl AllowedJwksHosts {
    /// These hosts, names or addresses without brackets.
    pub fn new<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>) -> Self {
        Self(hosts.into_iter().map(|host| host.as_ref().to_ascii_lowercase()).collect())
    }

    fn contains(&self, host: &str) -> bool {
        self.0.contains(&host.to_ascii_lowercase())
    }
}

/// Where an issuer was found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IssuerReach {
    pub name: Option<HostScope>,
    pub addresses: BTreeSet<HostScope>,
}

impl IssuerReach {
    /// Of the issuer's host, which answered from `peers`.
    pub fn new(host: &str, peers: impl IntoIterator<Item = IpAddr>) -> Self {
        let name = match host_address(host) {
            Some(_) => None,
            None => HostScope::of_name(host),
        };
        Self { name, addresses: peers.into_iter().map(HostScope::of_address).collect() }
    }
}

/// Whether a key set may be read at `host`, by rules 2 to 4.
///
/// # Errors
/// Why not, for a person.
pub(super) fn judge(
    host: &str,
    addresses: &[SocketAddr],
    issuer: &IssuerReach,
    allowed: &AllowedJwksHosts,
) -> Result<(), String> {
    let host = unbracketed(host);
    if allowed.contains(host) {
        return Ok(());
    }
    if host_address(host).is_none()
        && let Some(scope) = HostScope::of_name(host).filter(|scope| issuer.name != Some(*scope))
    {
        return Err(format!("its jwks_uri names a host that is {}", described(scope)));
    }
    let may = |scope: &HostScope| *scope == HostScope::Public || issuer.addresses.contains(scope);
    let bad = addresses.iter().map(|address| (address.ip(), HostScope::of_address(address.ip())));
    match bad.into_iter().find(|(_, scope)| !may(scope)) {
        None => Ok(()),
        Some((address, scope)) => {
            Err(format!("its jwks_uri leads to {address}, which is {}", described(scope)))
        }
    }
}

/// The address that a URL names as its host.
pub(super) fn host_address(host: &str) -> Option<IpAddr> {
    unbracketed(host).parse().ok()
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn described(scope: HostScope) -> &'static str {
    match scope {
        HostScope::Public => "public",
        HostScope::Private => "known only inside a network or cluster, where the issuer is not",
        HostScope::LinkLocal => "link-local, where machines get their credentials",
        HostScope::Loopback => "this machine, where the issuer is not",
        HostScope::Reserved => "nobody's address",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_set_is_read_where_the_public_or_the_issuer_is() {
        let public = IssuerReach::new("id.example.com", ["198.41.0.4".parse().unwrap()]);
        let private = IssuerReach::new("id.corp.example", ["10.0.0.7".parse().unwrap()]);
        let local = IssuerReach::new("localhost", ["127.0.0.1".parse().unwrap()]);
        let nobody = IssuerReach::default();
        for (host, addresses, issuer, allowed, good) in [
            ("keys.example.com", &["8.8.8.8"][..], &public, &[][..], true),
            ("keys.example.com", &["169.254.169.254"], &public, &[], false),
            ("keys.example.com", &["8.8.8.8", "127.0.0.1"], &public, &[], false),
            ("keys.example.com", &["10.0.0.1"], &public, &[], false),
            ("keys.example.com", &["10.0.0.1"], &public, &["KEYS.example.com"], true),
            ("keys.example.com", &["10.0.0.1"], &private, &[], true),
            ("keys.example.com", &["127.0.0.1"], &private, &[], false),
            ("keys.example.com", &["169.254.169.254"], &private, &[], false),
            ("169.254.169.254", &["169.254.169.254"], &public, &[], false),
            ("[::1]", &["::1"], &public, &[], false),
            ("[::1]", &["::1"], &local, &[], true),
            ("[fd00::1]", &["fd00::1"], &public, &["fd00::1"], true),
            ("kubernetes.default.svc", &["10.96.0.1"], &private, &[], false),
            ("kubernetes.default.svc", &["8.8.8.8"], &public, &[], false),
            ("localhost", &["127.0.0.1"], &local, &[], true),
            ("keys.example.com", &["10.0.0.1"], &nobody, &[], false),
        ] {
            let addresses: Vec<SocketAddr> =
                addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
            let judged = judge(host, &addresses, issuer, &AllowedJwksHosts::new(allowed));
            assert_eq!(judged.is_ok(), good, "{host} {addresses:?} {judged:?}");
        }
    }
}
