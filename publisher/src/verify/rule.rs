//! The names of the rules by which the outside view judges. They are stable, and docs/verify.md explains each.
//!
//! The rules of [`chancery_core::lint`], which need no network, are applied as well and keep their own names.

/// No answer at all.
pub const UNREACHABLE: &str = "unreachable";
/// A certificate that is not to be trusted.
pub const TLS_UNTRUSTED: &str = "tls-untrusted";
/// A certificate that was checked against a CA which others do not have.
pub const TLS_PRIVATE_CA: &str = "tls-private-ca";
/// An answer from an address that the public cannot reach.
pub const PRIVATE_ADDRESS: &str = "private-address";
/// Another status than 200.
pub const STATUS_NOT_200: &str = "status-not-200";
/// An answer that sends the reader elsewhere.
pub const REDIRECTED: &str = "redirected";
/// A body longer than is read.
pub const TOO_LARGE: &str = "too-large";
/// Longer than relying parties wait, or like to.
pub const SLOW: &str = "slow";
/// Another media type than the document's.
pub const MEDIA_TYPE: &str = "media-type";
/// No cache header.
pub const CACHE_MISSING: &str = "cache-missing";
/// A longer `max-age` than rotation counts with.
pub const CACHE_TOO_LONG: &str = "cache-too-long";
/// A cache in front that serves a document past its time.
pub const CACHE_STALE: &str = "cache-stale";
/// Something that is not a discovery document.
pub const DISCOVERY_MALFORMED: &str = "discovery-malformed";
/// A discovery document without a member that its specification requires.
pub const DISCOVERY_INCOMPLETE: &str = "discovery-incomplete";
/// Another issuer than the one that was asked.
pub const ISSUER_MISMATCH: &str = "issuer-mismatch";
/// A JWKS at a place where it is not ours, or not everybody's to read.
pub const JWKS_URI_ELSEWHERE: &str = "jwks-uri-elsewhere";
/// A JWKS in a network where the issuer is not, which was not asked for.
pub const JWKS_NOT_ASKED: &str = "jwks-not-asked";
/// Something that is not a JWKS.
pub const JWKS_MALFORMED: &str = "jwks-malformed";
/// Members beside `keys` at the top of a JWKS. [`chancery_core::lint`] looks into the keys.
pub const MEMBERS: &str = "members";
/// Keys whose algorithm the discovery document does not advertise.
pub const ALGORITHMS_MISSING: &str = "algorithms-missing";
/// An expected key that is not visible.
pub const KEY_MISSING: &str = "key-missing";
/// A key that nobody expected.
pub const KEY_UNEXPECTED: &str = "key-unexpected";
/// Other bytes than expected.
pub const BYTES_DIFFER: &str = "bytes-differ";
/// An address of the host that shows other keys than another.
pub const EDGES_DIFFER: &str = "edges-differ";
/// More addresses than are asked at once.
pub const EDGES_LEFT_OUT: &str = "edges-left-out";
/// A cache that does not show what the origin shows.
pub const CACHE_LAGS: &str = "cache-lags";
/// A cache that still shows what the origin has lost.
pub const ORIGIN_LAGS: &str = "origin-lags";

/// All rules, in the order in which they are applied.
pub const ALL: [&str; 27] = [
    UNREACHABLE,
    TLS_UNTRUSTED,
    TLS_PRIVATE_CA,
    PRIVATE_ADDRESS,
    STATUS_NOT_200,
    REDIRECTED,
    TOO_LARGE,
    SLOW,
    MEDIA_TYPE,
    CACHE_MISSING,
    CACHE_TOO_LONG,
    CACHE_STALE,
    DISCOVERY_MALFORMED,
    DISCOVERY_INCOMPLETE,
    ISSUER_MISMATCH,
    JWKS_URI_ELSEWHERE,
    JWKS_NOT_ASKED,
    JWKS_MALFORMED,
    MEMBERS,
    ALGORITHMS_MISSING,
    KEY_MISSING,
    KEY_UNEXPECTED,
    BYTES_DIFFER,
    EDGES_DIFFER,
    EDGES_LEFT_OUT,
    CACHE_LAGS,
    ORIGIN_LAGS,
];
