//! Tells systemd that the socket is there (sd_notify(3)), so that what is ordered after the signer starts then.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Names the socket of whoever wants to know.
const ADDRESS: &str = "NOTIFY_SOCKET";

/// Says so to the service manager, if there is one.
pub fn tell_service_manager() {
    let Some(address) = std::env::var_os(ADDRESS).filter(|address| !address.is_empty()) else { return };
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&address),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address));
    if let Err(error) = told {
        warn!(%error, "the service manager cannot be told that the signer is ready");
    }
}
