//! Where a Workload API listens
//! (<https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Workload_Endpoint.md>, section 4).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::ExchangeError;

/// A place of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadSocket {
    /// A unix socket.
    Unix(PathBuf),
    /// A port of the loopback. The standard allows any address; a token does not leave this machine unencrypted.
    Loopback(SocketAddr),
}

impl fmt::Display for WorkloadSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Loopback(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl FromStr for WorkloadSocket {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let socket = match text.split_once(':') {
            Some(("unix", rest)) => path(rest).map(Self::Unix),
            Some(("tcp", rest)) => {
                let address = rest.strip_prefix("//").and_then(|rest| rest.parse::<SocketAddr>().ok());
                address
                    .filter(|address| address.ip().is_loopback() && address.port() != 0)
                    .map(Self::Loopback)
            }
            _ => None,
        };
        socket.ok_or_else(|| {
            ExchangeError::configuration("workload-api-socket")
                .came(&format!("{text:?}"))
                .expected("unix:///PATH, or tcp://127.0.0.1:PORT on this machine")
                .remedy("correct SPIFFE_ENDPOINT_SOCKET, or SPIFFE_BROKER_SOCKET")
        })
    }
}

/// `///PATH` or `/PATH`: no host, and nothing that a URL would take for a query or a fragment.
fn path(rest: &str) -> Option<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(path) => path,
        None => rest,
    };
    let fits =
        path.starts_with('/') && !path.starts_with("//") && path.len() > 1 && !path.contains(['?', '#', '%']);
    fits.then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_16_an_agent_listens_on_this_machine() {
        for (text, socket) in [
            ("unix:///run/agent.sock", WorkloadSocket::Unix("/run/agent.sock".into())),
            ("unix:/run/agent.sock", WorkloadSocket::Unix("/run/agent.sock".into())),
            ("tcp://127.0.0.1:8000", WorkloadSocket::Loopback(([127, 0, 0, 1], 8000).into())),
        ] {
            assert_eq!(text.parse(), Ok(socket));
        }
        for bad in [
            "",
            "/run/agent.sock",
            "unix://",
            "unix:///",
            "unix://host/run/agent.sock",
            "unix:////run/agent.sock",
            "unix:run/agent.sock",
            "unix:///run/agent.sock?x",
            "unix:///run/agent.sock#x",
            "tcp://10.0.0.1:8000",
            "tcp://localhost:8000",
            "tcp://127.0.0.1",
            "tcp://127.0.0.1:0",
            "tcp://127.0.0.1:8000/x",
            "https://127.0.0.1:8000",
        ] {
            assert_eq!(bad.parse::<WorkloadSocket>().unwrap_err().code(), "workload-api-socket", "{bad}");
        }
    }
}
