//! When to rotate, as a policy file has it.

use std::time::Duration;

use chancery_core::ring::WallTime;
use chancery_core::rotation::Schedule;
use chancery_core::rotation::calendar::{Calendar, CalendarError};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::times::Time;

/// AKS rotates every three months.
const USUAL_PERIOD: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long a maintenance window is when nothing is said.
const USUAL_WINDOW: Duration = Duration::from_secs(2 * 3600);

/// So many dates of a calendar are looked at for the two that are nearest to each other: a year of weeks.
const DATES: usize = 53;

/// One of three: a period, a calendar, or nothing but requests. Every 90 days when none is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ScheduleConfig {
    /// When the key has signed for so long.
    every: Option<Time>,
    /// In the windows that this expression opens.
    cron: Option<String>,
    /// In this time zone; UTC when missing.
    zone: Option<String>,
    /// For so long each.
    window: Option<Time>,
    /// When a person asks, and never otherwise.
    #[serde(default)]
    by_hand: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Dates {
    pub schedule: Schedule,
    pub calendar: Option<Calendar>,
}

impl ScheduleConfig {
    /// Reads no clock but for the dates that lie ahead of `now`.
    pub fn dates(&self, now: Timestamp) -> Result<Dates, ScheduleError> {
        match (&self.cron, self.every, self.by_hand) {
            (Some(expression), None, false) => self.calendar(expression, now),
            (None, every, false) => {
                self.no_windows()?;
                let every = every.map_or(USUAL_PERIOD, |every| every.0);
                Ok(Dates { schedule: Schedule::Every(every), calendar: None })
            }
            (None, None, true) => {
                self.no_windows()?;
                Ok(Dates { schedule: Schedule::ByHand, calendar: None })
            }
            _ => Err(ScheduleError::Several),
        }
    }

    fn no_windows(&self) -> Result<(), ScheduleError> {
        let has_windows = self.zone.is_some() || self.window.is_some();
        if has_windows { Err(ScheduleError::NoCalendar) } else { Ok(()) }
    }

    fn calendar(&self, expression: &str, now: Timestamp) -> Result<Dates, ScheduleError> {
        let zone = match self.zone.as_deref() {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned()))?,
        };
        let window = self.window.map_or(USUAL_WINDOW, |window| window.0);
        let calendar = Calendar::new(expression, zone, window)?;
        let from = WallTime(u64::try_from(now.as_second()).unwrap_or_default());
        let shortest_use =
            shortest_use(&calendar, from).ok_or_else(|| ScheduleError::NoDates(expression.to_owned()))?;
        Ok(Dates { schedule: Schedule::Calendar { shortest_use }, calendar: Some(calendar) })
    }
}

/// Nine tenths of the shortest time between two dates: a clock that leaps forward rotates nothing twice, and one that
/// runs a little late misses no window.
fn shortest_use(calendar: &Calendar, from: WallTime) -> Option<Duration> {
    let following = |at: WallTime| calendar.next_due(at, at).map(|due| due.at);
    let dates: Vec<u64> =
        std::iter::successors(following(from), |at| following(*at)).map(|at| at.0).take(DATES).collect();
    let between = dates.iter().zip(dates.iter().skip(1)).map(|(one, next)| next.saturating_sub(*one));
    between.min().map(|seconds| Duration::from_secs(seconds.saturating_mul(9) / 10))
}

/// Why there is no schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// More than one.
    #[error("`schedule` says several things; expected one of `every`, `cron` and `byHand: true`")]
    Several,
    /// Part of a calendar, without one.
    #[error(
        "`schedule` has a `zone` or a `window` and no `cron` that would open one; give `cron` or remove them"
    )]
    NoCalendar,
    /// A zone that the system does not know.
    #[error(
        "no time zone is called {0:?} here; expected a name such as Europe/Berlin, of a system with zone data"
    )]
    Zone(String),
    /// An expression that comes true once at most.
    #[error("{0:?} names fewer than two dates; expected one that comes again, such as `0 3 * * SUN`")]
    NoDates(String),
    /// An expression that is none, or a window that is too short.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dates(yaml: &str) -> Result<Dates, ScheduleError> {
        let config: ScheduleConfig = serde_saphyr::from_str(yaml).unwrap();
        config.dates("2026-06-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn one_of_three_and_ninety_days_if_nothing_is_said() {
        let schedule = |yaml: &str| dates(yaml).unwrap().schedule;
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        assert_eq!(schedule("{}"), Schedule::Every(days(90)));
        assert_eq!(schedule("every: 30d"), Schedule::Every(days(30)));
        assert_eq!(schedule("byHand: true"), Schedule::ByHand);
        let sundays = Schedule::Calendar { shortest_use: days(7) * 9 / 10 };
        assert_eq!(schedule("{cron: 0 3 * * SUN, zone: UTC, window: 1h}"), sundays);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        assert!(matches!(dates("{every: 1d, byHand: true}"), Err(ScheduleError::Several)));
        assert!(matches!(dates("{every: 1d, cron: 0 3 * * *}"), Err(ScheduleError::Several)));
        assert!(matches!(dates("{every: 1d, window: 1h}"), Err(ScheduleError::NoCalendar)));
        assert!(matches!(dates("{cron: 0 3 * * *, zone: Mars/North}"), Err(ScheduleError::Zone(_))));
        assert!(matches!(dates("{cron: often}"), Err(ScheduleError::Calendar(_))));
    }
}
