//! Every time limit of this crate.

use std::time::Duration;

/// How long a connection to an API server may take, its TLS handshake included. One on the same network answers in
/// milliseconds; a host that is gone does not answer at all.
pub const CONNECT: Duration = Duration::from_secs(5);

/// How long an API server may be silent within an answer.
pub const SILENCE: Duration = Duration::from_secs(10);

/// How long an API server may be silent on a watch, and before the first byte of the list that precedes it. Longer than
/// the 290 seconds after which a watch that we ask for ends by itself.
pub const WATCH_SILENCE: Duration = Duration::from_secs(300);

/// How long one request to an API server may take from its first byte to its last.
pub const CALL: Duration = Duration::from_secs(15);

/// How long one operation on a file of a state directory may take, fsync included. A disk that needs longer is broken
/// or full of other work; nobody waits for it.
pub const FILE: Duration = Duration::from_secs(5);

/// How long a connection may go without a request; it is noticed between one and two periods.
pub const IDLE: Duration = Duration::from_secs(30);

/// How old a connection may become, give or take [`IDLE`]. Clients connect again by themselves, and to another replica if
/// there is one.
pub const AGE: Duration = Duration::from_secs(600);

/// How long a TLS handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection that is asked to end may take for it.
pub const FAREWELL: Duration = Duration::from_secs(10);

/// How long a connection that was accepted before the signal to stop may take for its first request. Clients retry
/// by themselves when a connection they had used before is closed, but not when it is a new one.
pub const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// How long connections may take to end once their listener was told to stop: [`FIRST_REQUEST`], [`FAREWELL`], and one
/// to spare.
pub const DRAIN: Duration = Duration::from_secs(12);

/// The wait after a failed accept, which fails again at once while the process is out of files.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long giving a Lease back may take before the process ends anyway. Others then wait for the lease duration.
pub const RELEASE: Duration = Duration::from_secs(3);
