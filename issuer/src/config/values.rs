//! Values that YAML has no type for: times, markers, URLs that relying parties read.

use std::net::IpAddr;
use std::time::Duration;

use chancery_core::{IssuerUrl, Owner};
use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, de};

/// Anything shorter would do nothing else than look.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// A time such as `7d`, `36h` or `90s`, where a day has 24 hours.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let days = SpanRelativeTo::days_are_24_hours();
    let read = text.parse::<Span>().ok().and_then(|span| span.to_duration(days).ok()?.try_into().ok());
    read.ok_or_else(|| {
        de::Error::custom(format!("{text:?} is not a time; expected one such as 7d, 36h or 90s"))
    })
}

pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

/// How long a key stays after its last source dropped it. None at all would withdraw a key while its tokens live.
pub(super) fn retention<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let time = duration(deserializer)?;
    if time.is_zero() {
        let problem = "a retention of 0s would withdraw a key while its tokens live; expected the lifetime of the \
                       longest token, such as 7d";
        return Err(de::Error::custom(problem));
    }
    Ok(time)
}

/// The time between two looks.
pub(super) fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let time = duration(deserializer)?;
    if time < SHORTEST_PERIOD {
        let problem =
            format!("a period of {time:?} does nothing else than look; expected 1s or more, such as 60s");
        return Err(de::Error::custom(problem));
    }
    Ok(time)
}

pub(super) fn owner<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Owner>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// Whether relying parties read below this URL. Not a part of parsing, whose errors show the line: it may hold a password.
///
/// # Errors
/// What is wrong with it, without what may be a password.
pub(super) fn check_public_url(text: &str) -> Result<(), String> {
    if is_public_url(text) {
        return Ok(());
    }
    // What comes before `@` is a password as a rule.
    let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    Err(format!(
        "`publicUrl` {shown:?} is nothing that relying parties read; expected https://HOST[:PORT][/PATH] without user, \
         query and fragment (http:// on this machine alone, for a trial)"
    ))
}

fn is_public_url(text: &str) -> bool {
    match text.strip_prefix("http://") {
        Some(rest) => format!("https://{rest}").parse().is_ok_and(|url| is_on_this_machine(&url)),
        None => text.parse::<IssuerUrl>().is_ok(),
    }
}

fn is_on_this_machine(url: &IssuerUrl) -> bool {
    let host = url.host().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_one_that_relying_parties_can_read() {
        for text in
            ["https://cdn.example.com/a", "https://10.0.0.1:8443", "http://127.0.0.1:9000/b", "http://[::1]/"]
        {
            assert!(is_public_url(text), "{text}");
        }
        for text in [
            "",
            "http://cdn.example.com",
            "file:///etc/passwd",
            "https://me:secret@cdn.example.com",
            "http://me@127.0.0.1",
            "https://cdn.example.com/?a=b",
            "https://",
            "cdn.example.com",
            "http://127.0.0.1.example.com",
        ] {
            assert!(!is_public_url(text), "{text}");
        }
    }
}
