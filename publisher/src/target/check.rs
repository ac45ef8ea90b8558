//! What several kinds of targets check alike.

use chancery_wire::EndpointError;
use chancery_wire::endpoint::parse_url;

use super::error::TargetError;

/// A key set is a few kilobytes: whoever needs longer is not well, and trying again beats waiting.
pub(super) fn default_timeout_seconds() -> u32 {
    5
}

/// What lies between the place's root and the documents.
pub(super) fn check_prefix(field: &'static str, prefix: &str) -> Result<(), TargetError> {
    let trimmed = prefix.trim_matches('/');
    if trimmed.is_empty() || !trimmed.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Ok(());
    }
    let remedy = "expected a path without empty parts, `.` and `..`; relying parties could not ask for it";
    Err(TargetError::illegal(field, prefix, remedy))
}

pub(super) fn check_timeout(field: &'static str, seconds: u32) -> Result<(), TargetError> {
    if (1..=300).contains(&seconds) {
        return Ok(());
    }
    Err(TargetError::illegal(field, seconds, "expected seconds from 1 to 300"))
}

/// A server, `https://HOST[:PORT][/PATH]`; `credentials` says where those go instead.
pub(super) fn check_base_url(
    field: &'static str,
    url: &str,
    credentials: &'static str,
) -> Result<(), TargetError> {
    let refuse = |came: &str| TargetError::IllegalValue {
        field,
        came: came.to_owned(),
        remedy: format!("expected https://HOST[:PORT][/PATH]; {credentials}"),
    };
    match parse_url(url) {
        Ok(url) if url.query().is_some() => Err(refuse("a URL with a query")),
        Ok(_) => Ok(()),
        // The value may hold a password or a signature: it is not repeated.
        Err(EndpointError::UserInformation) => Err(refuse("a URL with user information")),
        Err(EndpointError::Fragment) => Err(refuse("a URL with a fragment")),
        Err(EndpointError::AmbiguousHost { canonical }) => Err(TargetError::illegal(
            field,
            url,
            format!("expected the host as everybody reads it, {canonical}"),
        )),
        Err(_) if url.contains('@') => Err(refuse("no URL")),
        Err(_) => Err(TargetError::illegal(field, url, "expected https://HOST[:PORT][/PATH]")),
    }
}
