//! A clock that nobody sets.

use std::path::Path;
use std::time::Duration;

use chancery_core::migration::Moment;
use chancery_files::Bounds;
use rustix::time::{ClockId, clock_gettime};

/// Another text with each start of the machine (proc_sys_kernel(5)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A UUID.
const BOUNDS: Bounds = Bounds::regular(64, Duration::from_secs(5));

/// Now, as seconds since the machine was started, its sleep included (clock_gettime(2)); nothing where that start has no
/// name.
pub(super) fn now() -> Option<Moment> {
    let boot = String::from_utf8(chancery_files::read(Path::new(BOOT_ID), BOUNDS).ok()?).ok()?;
    let seconds = u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).ok()?;
    Some(Moment { boot: boot.trim().to_owned(), seconds }).filter(|now| !now.boot.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_are_of_one_start() {
        let (one, other) = (now().unwrap(), now().unwrap());
        assert_eq!(one.boot, other.boot);
        assert!(one.seconds <= other.seconds && one.boot.len() == 36, "{one:?}");
    }
}
