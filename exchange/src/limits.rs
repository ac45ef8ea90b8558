//! Every limit of this crate, with where it comes from.

use std::time::Duration;

/// The longest time for one request to a token endpoint, from the name to the last byte.
pub const REQUEST: Duration = Duration::from_secs(5);

/// The longest time for one whole exchange, every attempt and every leg of it. Whoever waits for a credential waits no
/// longer, whatever the other side does.
pub const EXCHANGE: Duration = Duration::from_secs(30);

/// The longest time for one request to an API server.
pub const CLUSTER: Duration = Duration::from_secs(10);

/// The longest time for one call of SPIFFE's Workload API, which is on this machine.
pub const WORKLOAD_API: Duration = Duration::from_secs(5);

/// The largest answer of a token endpoint, in bytes.
pub const ANSWER: usize = 1 << 20;

/// How often one leg is tried at most: the set that `google-github-actions/auth` settled on.
pub const ATTEMPTS: u32 = 4;

/// The first pause between attempts; each further one is twice as long, all with jitter.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between attempts, also where an answer asks for a longer one.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The largest token that is read, in bytes. AWS STS takes 20 000; Kubernetes' are below 4 KiB.
pub const TOKEN: usize = 64 * 1024;

/// How long a file system may take over a token file.
pub const FILE: Duration = Duration::from_secs(2);

/// How far in the future `nbf` or `iat` may lie so that it is waited for; what lies further is a wrong clock.
pub const CLOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a ServiceAccount's token lives that is asked for, in seconds: the shortest that Kubernetes gives.
pub const SUBJECT_LIFETIME_SECONDS: u64 = 600;

/// How long a credential is taken to live whose answer names no end.
pub const UNKNOWN_LIFETIME: Duration = Duration::from_secs(300);

/// How many identities are remembered as having worked before.
pub const KNOWN_IDENTITIES: usize = 10_000;
