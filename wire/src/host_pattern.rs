//! Host names matched label by label.

use std::fmt;
use std::str::FromStr;

/// Which hosts: `sts.*.amazonaws.com`, `**.googleapis.com`, `login.microsoftonline.com`.
///
/// `*` stands for exactly one label, `**` at the front for one or more; every other label for itself, in upper or lower
/// case (RFC 4343). The last two labels are always spelled out, so that no pattern stands for a whole top-level domain.
///
/// ```
/// use chancery_wire::HostPattern;
/// let google: HostPattern = "**.googleapis.com".parse()?;
/// assert!(google.matches("sts.googleapis.com") && google.matches("sts.eu.rep.googleapis.com"));
/// assert!(!google.matches("googleapis.com") && !google.matches("sts.googleapis.com.example.com"));
/// # Ok::<(), chancery_wire::host_pattern::HostPatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    any_depth: bool,
    labels: Vec<Label>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Label {
    Any,
    Is(String),
}

impl HostPattern {
    /// Every host below `domain`, and not `domain` itself.
    ///
    /// # Errors
    /// When `domain` is not a name of two labels or more.
    pub fn below(domain: &str) -> Result<Self, HostPatternError> {
        format!("**.{domain}").parse()
    }

    /// Whether `host` is one of them. `host` comes from a parsed URL; what is no host name matches nothing.
    pub fn matches(&self, host: &str) -> bool {
        let labels: Vec<&str> = host.split('.').collect();
        if labels.contains(&"") {
            return false;
        }
        let more = labels.len().checked_sub(self.labels.len());
        let Some(tail) = more.and_then(|more| labels.get(more..)) else { return false };
        let fits = |(label, came): (&Label, &&str)| match label {
            Label::Any => true,
            Label::Is(label) => label.eq_ignore_ascii_case(came),
        };
        (more == Some(0)) != self.any_depth && self.labels.iter().zip(tail).all(fits)
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || HostPatternError(text.to_owned());
        let (any_depth, rest) = match text.strip_prefix("**.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let label = |label: &str| match label {
            "*" => Some(Label::Any),
            _ if is_label(label) => Some(Label::Is(label.to_ascii_lowercase())),
            _ => None,
        };
        let labels: Option<Vec<Label>> = rest.split('.').map(label).collect();
        let labels = labels.ok_or_else(malformed)?;
        let spelled_out = labels.iter().rev().take_while(|label| **label != Label::Any).count();
        if spelled_out < 2 { Err(malformed()) } else { Ok(Self { any_depth, labels }) }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.any_depth { "**." } else { "" })?;
        let label = |label: &Label| match label {
            Label::Any => "*".to_owned(),
            Label::Is(label) => label.clone(),
        };
        f.write_str(&self.labels.iter().map(label).collect::<Vec<_>>().join("."))
    }
}

/// A label of a host name (RFC 1123 section 2.1), and the underscore that some internal names have.
fn is_label(label: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=63).contains(&label.len()) && label.bytes().all(legal)
}

/// Text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no pattern for hosts; expected labels with `*` for one of them or `**` for several at the front, and the last two spelled out, as in `sts.*.amazonaws.com`"
)]
pub struct HostPatternError(String);

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn every_label_must_fit_and_none_may_be_left_over() {
        for (text, host, fits) in [
            ("sts.amazonaws.com", "sts.amazonaws.com", true),
            ("sts.amazonaws.com", "STS.AmazonAWS.com", true),
            ("sts.amazonaws.com", "a.sts.amazonaws.com", false),
            ("sts.amazonaws.com", "sts.amazonaws.com.", false),
            ("sts.amazonaws.com", "sts.amazonaws.com.evil.example", false),
            ("sts.amazonaws.com", "stsxamazonaws.com", false),
            ("sts.*.amazonaws.com", "sts.eu-west-1.amazonaws.com", true),
            ("sts.*.amazonaws.com", "sts.amazonaws.com", false),
            ("sts.*.amazonaws.com", "sts.a.b.amazonaws.com", false),
            ("sts.*.amazonaws.com", "sts..amazonaws.com", false),
            ("**.googleapis.com", "sts.googleapis.com", true),
            ("**.googleapis.com", "a.b.googleapis.com", true),
            ("**.googleapis.com", "googleapis.com", false),
            ("**.googleapis.com", "evilgoogleapis.com", false),
            ("**.googleapis.com", "sts.googleapis.com.evil.example", false),
            ("**.googleapis.com", "127.0.0.1", false),
            ("**.googleapis.com", "", false),
        ] {
            assert_eq!(pattern(text).matches(host), fits, "{text} {host}");
        }
    }

    #[test]
    fn no_pattern_is_wider_than_a_domain() {
        for text in
            ["", "*", "**", "com", "*.com", "**.com", "a.*", "a..com", "a.**.com", "a*.b.com", "ä.b.com"]
        {
            let error = text.parse::<HostPattern>().unwrap_err().to_string();
            assert!(error.contains("spelled out"), "{text}: {error}");
        }
        assert!(HostPattern::below("com").is_err());
        for text in ["**.a.b", "*.a.b", "a.*.b.c"] {
            assert_eq!(pattern(text).to_string(), text);
        }
    }
}
