//! From where a host can be reached, by its address or its name.
//!
//! A name says little: any name may lead to any address. It is judged only where it is known to be local by itself;
//! otherwise the addresses that it leads to are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// From where an address or a name can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostScope {
    /// From everywhere.
    Public,
    /// From a network or cluster of somebody's own: RFC 1918, RFC 6598 (carriers), RFC 4193 and RFC 3879 (IPv6), and
    /// names that no public name service knows.
    Private,
    /// From the same link: RFC 3927 and RFC 4291 section 2.5.6. Clouds serve machines their credentials there.
    LinkLocal,
    /// From the same machine, unspecified addresses included, which lead there as well.
    Loopback,
    /// From nowhere: documentation, benchmarks, multicast and what is not assigned (RFC 6890).
    Reserved,
}

/// Top-level domains that no public resolver answers for (RFC 6761, RFC 6762, RFC 8375, ICANN's `.internal`) and
/// the usual suffixes of a cluster.
const PRIVATE_SUFFIXES: [&str; 7] =
    [".local", ".internal", ".svc", ".lan", ".home.arpa", ".test", ".invalid"];

impl HostScope {
    /// The scope of an address. An IPv6 address that stands for an IPv4 one (mapped, 6to4, NAT64) has the latter's.
    pub fn of_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// The scope of a name that is local by itself; `None` when its addresses decide.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(Self::Loopback);
        }
        let is_private = !name.contains('.') || PRIVATE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        is_private.then_some(Self::Private)
    }
}

fn of_v4(address: Ipv4Addr) -> HostScope {
    match address.octets() {
        [0 | 127, ..] => HostScope::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => HostScope::Private,
        [169, 254, ..] => HostScope::LinkLocal,
        [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => {
            HostScope::Reserved
        }
        _ => HostScope::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> HostScope {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => HostScope::Loopback,
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => HostScope::Private,
        [0xfe80..=0xfebf, ..] => HostScope::LinkLocal,
        // Only 2000::/3 is given out as global unicast, less documentation and Teredo.
        [0x2001, 0 | 0xdb8, ..] | [0x3fff, ..] => HostScope::Reserved,
        [0x2000..=0x3fff, ..] => HostScope::Public,
        _ => HostScope::Reserved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart_by_who_can_reach_them() {
        for (scope, addresses) in [
            (
                HostScope::Loopback,
                &["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"][..],
            ),
            (HostScope::LinkLocal, &["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"]),
            (HostScope::LinkLocal, &["64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]),
            (HostScope::Private, &["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1"]),
            (HostScope::Private, &["fd00::1", "fc00::1", "fec0::1", "::ffff:10.0.0.1"]),
            (
                HostScope::Reserved,
                &["192.0.2.1", "224.0.0.1", "255.255.255.255", "ff02::1", "2001:db8::1", "4000::1"],
            ),
            (
                HostScope::Public,
                &["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2002:808:808::1"],
            ),
        ] {
            for address in addresses {
                assert_eq!(HostScope::of_address(address.parse().unwrap()), scope, "{address}");
            }
        }
    }

    #[test]
    fn a_name_that_only_a_cluster_knows_is_private_by_itself() {
        for name in
            ["kubernetes", "kubernetes.default.svc", "KUBERNETES.default.svc.cluster.local", "db.internal."]
        {
            assert_eq!(HostScope::of_name(name), Some(HostScope::Private), "{name}");
        }
        assert_eq!(HostScope::of_name("localhost"), Some(HostScope::Loopback));
        assert_eq!(HostScope::of_name("a.localhost"), Some(HostScope::Loopback));
        for name in ["id.example.com", "svc.example.com", "local.example"] {
            assert_eq!(HostScope::of_name(name), None, "{name}");
        }
    }
}
