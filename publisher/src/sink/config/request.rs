//! What the places that are asked over HTTP have in common: a URL that may be given secrets, and a limit of time.

use chancery_wire::{Endpoint, EndpointError, EndpointRule};

use super::error::SinkConfigError;

/// A key set is a few kilobytes: whoever needs longer is not well, and trying again beats waiting.
pub(super) fn default_timeout_seconds() -> u32 {
    5
}

pub(super) fn check_timeout(field: &'static str, seconds: u32) -> Result<(), SinkConfigError> {
    match seconds {
        1..=300 => Ok(()),
        _ => Err(SinkConfigError::illegal(field, seconds, "expected seconds from 1 to 300")),
    }
}

/// The URL of a server that may be sent secrets: `https`, or this very machine, without user information.
pub(crate) fn server_url(field: &'static str, text: &str) -> Result<Endpoint, SinkConfigError> {
    Endpoint::parse(text, &EndpointRule::any_host()).map_err(|error| match error {
        // The value may hold a password: it is not repeated.
        EndpointError::UserInformation => SinkConfigError::IllegalValue {
            field,
            came: "a URL with user information".to_owned(),
            remedy: "give credentials by a file".to_owned(),
        },
        error => {
            let remedy = format!(
                "it {error}. Give https://HOST[:PORT][/PATH], or http:// to this machine's own 127.0.0.1"
            );
            SinkConfigError::illegal(field, text, remedy)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_to_verified_servers_or_stay_on_this_machine() {
        for good in [
            "https://vault.example.com:8200/x?y=z",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(server_url("url", good).is_ok(), "{good}");
        }
        for bad in [
            "http://vault.example.com",
            "http://localhost.example.com",
            "https://0x7f.1",
            "ftp://h",
            "vault",
            "https://h/#x",
            "https://",
        ] {
            let error = server_url("url", bad).unwrap_err().to_string();
            assert!(error.contains("https://HOST") && error.contains(bad), "{error}");
        }
        let error = server_url("url", "https://me:hunter2@h").unwrap_err().to_string();
        assert!(error.contains("by a file") && !error.contains("hunter2"), "{error}");
    }
}
