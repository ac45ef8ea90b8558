//! The dates that a cron expression names in a time zone.
//!
//! Only evaluated for a time that is given: no clock is read, and the time zone is a value that the caller has looked up
//! in its database. `croner` without chrono links jiff, which every build with a cluster has anyhow, and a
//! few derive macros. A run that falls into the hour that a zone skips in spring takes place after it, and one in the hour that
//! comes twice in autumn takes place once.

use std::time::Duration;

use croner::Cron;
use croner::errors::CronError;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::NextDue;
use crate::ring::WallTime;

/// Recurring maintenance windows.
#[derive(Clone, Debug)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
    window: Duration,
}

/// Why there are no such windows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalendarError {
    /// The expression cannot be read.
    #[error("{expression:?} is no cron expression: {why}; expected five fields, such as `0 3 * * SUN`")]
    Expression {
        /// What was given.
        expression: String,
        /// What is wrong with it.
        why: CronError,
    },
    /// Nothing could be done in the window.
    #[error("a window of {0} s is too short; expected 60 s at least")]
    WindowTooShort(u64),
}

impl Calendar {
    /// Windows of this length, each opened at a date of the expression.
    ///
    /// # Errors
    /// When the expression cannot be read, or the windows are too short.
    pub fn new(expression: &str, zone: TimeZone, window: Duration) -> Result<Self, CalendarError> {
        if window < Duration::from_secs(60) {
            return Err(CalendarError::WindowTooShort(window.as_secs()));
        }
        let cron = expression.parse();
        let cron =
            cron.map_err(|why| CalendarError::Expression { expression: expression.to_owned(), why })?;
        Ok(Self { cron, zone, window })
    }

    /// The window that is open at `now` and was opened after the last activation; otherwise the next one. `None` when
    /// the expression names no more dates.
    pub fn next_due(&self, activated: WallTime, now: WallTime) -> Option<NextDue> {
        let open = self.cron.find_previous_occurrence(&self.zoned(now)?, true).ok();
        let open = open.and_then(|date| self.window(&date));
        if let Some(open) = open.filter(|due| due.at > activated && now < due.until) {
            return Some(open);
        }
        let next = self.cron.find_next_occurrence(&self.zoned(now.max(activated))?, false).ok()?;
        self.window(&next)
    }

    fn zoned(&self, time: WallTime) -> Option<Zoned> {
        let time = Timestamp::from_second(i64::try_from(time.0).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }

    fn window(&self, date: &Zoned) -> Option<NextDue> {
        let at = WallTime(u64::try_from(date.timestamp().as_second()).ok()?);
        Some(NextDue { at, until: at.after(self.window) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every Sunday, 02:30, in Berlin: skipped on 2026-03-29, twice on 2026-10-25.
    fn due(expression: &str, activated: &str, now: &str) -> (String, u64) {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let calendar = Calendar::new(expression, zone.clone(), Duration::from_secs(3600)).unwrap();
        let wall =
            |text: &str| WallTime(u64::try_from(text.parse::<Timestamp>().unwrap().as_second()).unwrap());
        let due = calendar.next_due(wall(activated), wall(now)).unwrap();
        let at = Timestamp::from_second(i64::try_from(due.at.0).unwrap()).unwrap();
        (at.to_zoned(zone).datetime().to_string(), due.until.0 - due.at.0)
    }

    #[test]
    fn an_open_window_is_due_until_a_key_was_activated_in_it() {
        let sundays = |activated, now| due("30 2 * * SUN", activated, now).0;
        let (before, inside, after) =
            ("2026-06-06T00:00:00Z", "2026-06-07T01:00:00Z", "2026-06-07T01:30:00Z");
        assert_eq!(sundays("2026-06-01T00:00:00Z", before), "2026-06-07T02:30:00");
        assert_eq!(sundays("2026-06-01T00:00:00Z", inside), "2026-06-07T02:30:00", "open for an hour");
        assert_eq!(sundays("2026-06-01T00:00:00Z", after), "2026-06-14T02:30:00", "closed");
        assert_eq!(sundays("2026-06-07T00:40:00Z", inside), "2026-06-14T02:30:00", "used");
    }

    #[test]
    fn a_zone_that_skips_or_repeats_an_hour_skips_and_repeats_no_rotation() {
        let (spring, _) = due("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-28T12:00:00Z");
        assert_eq!(spring, "2026-03-29T03:00:00", "02:30 does not exist");
        let (first, _) = due("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-24T12:00:00Z");
        assert_eq!(first, "2026-10-25T02:30:00");
        let (second, _) = due("30 2 * * *", "2026-10-25T00:35:00Z", "2026-10-25T01:35:00Z");
        assert_eq!(second, "2026-10-26T02:30:00", "the second 02:30 of that night is none");
    }

    #[test]
    fn what_names_no_date_is_refused_in_words() {
        let refused = Calendar::new("61 2 * * *", TimeZone::UTC, Duration::from_secs(3600)).unwrap_err();
        assert!(refused.to_string().starts_with("\"61 2 * * *\" is no cron expression"), "{refused}");
        assert!(Calendar::new("0 3 * * *", TimeZone::UTC, Duration::from_secs(1)).is_err());
    }
}
