//! The media type, and how long caches may keep a document.

use std::time::Duration;

use chancery_core::DocumentKind;
use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use chancery_core::quoted::quoted;

use super::Standard;
use crate::verify::fetch::FetchedDocument;
use crate::verify::rule;

pub(super) fn judge(standard: Standard<'_>, kind: DocumentKind, fetched: &FetchedDocument) -> Vec<Finding> {
    let findings = [media_type(kind, fetched), cache(standard, kind, fetched), stale(kind, fetched)];
    findings.into_iter().flatten().collect()
}

/// The greatest number of seconds that a header can say (RFC 9111 section 1.2.2).
const LONGEST_SECONDS: u64 = 1 << 31;

/// How long an answer with this `Cache-Control` may be served from a cache (RFC 9111 section 5.2.2), also one that is
/// asking again or whose origin is in trouble (RFC 5861 sections 3 and 4). `None` when it does not say.
pub(super) fn longest_cached(cache_control: &str) -> Option<Duration> {
    let directives = || {
        cache_control.split(',').map(|directive| {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned())
        })
    };
    if directives().any(|(name, _)| name == "no-store" || name == "no-cache") {
        return Some(Duration::ZERO);
    }
    let seconds = |wanted: &str| {
        let values = directives().filter(|(name, _)| name == wanted);
        let numbers = values.filter(|(_, value)| is_number(value));
        let numbers = numbers.map(|(_, v)| v.parse().unwrap_or(LONGEST_SECONDS).min(LONGEST_SECONDS));
        numbers.max().map(Duration::from_secs)
    };
    let fresh = seconds("max-age").max(seconds("s-maxage"))?;
    let stale = seconds("stale-while-revalidate").max(seconds("stale-if-error"));
    Some(fresh.saturating_add(stale.unwrap_or_default()))
}

fn is_number(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

fn media_type(kind: DocumentKind, fetched: &FetchedDocument) -> Option<Finding> {
    let came = fetched.headers.content_type.as_deref();
    let essence = came.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    // Half the world serves a JWKS as plain JSON, and nobody is known to mind.
    if [kind.media_type(), "application/json"].iter().any(|good| essence.eq_ignore_ascii_case(good)) {
        return None;
    }
    Some(Finding {
        rule: rule::MEDIA_TYPE,
        severity: Severity::Warning,
        breaks: vec![RelyingParty::Common],
        message: format!(
            "the {kind} came as {}; expected {}",
            came.map_or_else(|| "no media type".to_owned(), |came| quoted(came).to_string()),
            kind.media_type()
        ),
        remedy: "set `Content-Type` on the object or in the server".to_owned(),
    })
}

fn cache(standard: Standard<'_>, kind: DocumentKind, fetched: &FetchedDocument) -> Option<Finding> {
    let limit = standard.expected.cache.max_age();
    let came = fetched.headers.cache_control.as_deref();
    let Some(longest) = came.and_then(longest_cached) else {
        return Some(Finding {
            rule: rule::CACHE_MISSING,
            severity: Severity::Warning,
            breaks: vec![RelyingParty::Common],
            message: format!(
                "the {kind} came with {}, so every cache decides by itself how long to keep it, some for a day; expected {:?}",
                came.map_or_else(
                    || "no cache header".to_owned(),
                    |value| format!("the cache header {}", quoted(value))
                ),
                standard.expected.cache.header()
            ),
            remedy: "set `Cache-Control` on the object or in the server".to_owned(),
        });
    };
    (longest > limit).then(|| Finding {
        rule: rule::CACHE_TOO_LONG,
        severity: Severity::Warning,
        breaks: vec![RelyingParty::Kubernetes, RelyingParty::Common],
        message: format!(
            "the {kind} may be kept for {} s; expected at most {} s. Whoever obeys it, as kube-apiserver does, sees a new key that much later{}",
            longest.as_secs(),
            limit.as_secs(),
            if longest.as_secs() == 3600 { " (3600 is what Google Cloud Storage sends for an object without a header of its own)" } else { "" }
        ),
        remedy: format!(
            "set `Cache-Control: {}` on the object or in the server; until then, let no new key sign earlier than {} s after it was published",
            standard.expected.cache.header(),
            longest.as_secs()
        ),
    })
}

fn stale(kind: DocumentKind, fetched: &FetchedDocument) -> Option<Finding> {
    let age: u64 = fetched.headers.age.as_deref()?.trim().parse().ok()?;
    let longest = longest_cached(fetched.headers.cache_control.as_deref()?)?;
    (Duration::from_secs(age) > longest).then(|| Finding {
        rule: rule::CACHE_STALE,
        severity: Severity::Warning,
        breaks: vec![RelyingParty::Common],
        message: format!(
            "a cache in front served a {kind} that is {age} s old; expected at most the {} s of its own header",
            longest.as_secs()
        ),
        remedy: "let the cache or CDN obey the origin's `Cache-Control`, and purge it once".to_owned(),
    })
}
