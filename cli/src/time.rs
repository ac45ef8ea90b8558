//! Times on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use jiff::{Span, SpanRelativeTo};

/// A time such as `1h`, `90s` or `365d`, where a day has 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let days = SpanRelativeTo::days_are_24_hours();
        let read = text.parse::<Span>().ok().and_then(|span| span.to_duration(days).ok()?.try_into().ok());
        read.map(Self)
            .with_context(|| format!("{text:?} is not a time; expected one such as 1h, 90s or 365d"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds if seconds % 3600 == 0 => write!(f, "{}h", seconds / 3600),
            seconds => write!(f, "{seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_shown() {
        for (text, seconds) in [("24h", 86_400), ("60s", 60), ("365d", 31_536_000), ("1h 30m", 5400)] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.0.as_secs(), seconds);
            assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        }
        assert!("soon".parse::<Time>().is_err() && "-1h".parse::<Time>().is_err());
    }
}
