//! Times as a policy file has them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, de};

/// A time such as `90d`, `36h` or `90s`, where a day has 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let days = SpanRelativeTo::days_are_24_hours();
        let read = text.parse::<Span>().ok().and_then(|span| span.to_duration(days).ok()?.try_into().ok());
        read.map(Self).ok_or_else(|| {
            de::Error::custom(format!("{text:?} is not a time; expected one such as 90d, 36h or 90s"))
        })
    }
}
