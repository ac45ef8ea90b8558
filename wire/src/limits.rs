//! Every limit of this crate that is not a caller's to choose.

use std::time::Duration;

/// The longest time for one connection: the name, TCP and TLS. A caller whose whole request has less gets that.
pub const CONNECT: Duration = Duration::from_secs(10);

/// The longest time for one look-up of a name. The name service of a healthy machine takes milliseconds; `resolv.conf`
/// may have it try three servers twice, for 5 seconds each.
pub const LOOK_UP: Duration = Duration::from_secs(5);

/// How many characters of somebody else's text one part of an error repeats.
pub const EXCERPT: usize = 300;

/// How many names of a certificate are told.
pub const CERTIFICATE_NAMES: usize = 20;

/// How deep the elements of an XML answer may be nested. AWS's have eight levels at most.
#[cfg(feature = "aws")]
pub(crate) const XML_DEPTH: usize = 32;
