//! The one clock that leases are judged by.
//!
//! On Linux it is `CLOCK_BOOTTIME`, which counts the time a machine was suspended, so that a guard whose machine slept
//! past its lease is found expired on wake-up; elsewhere it is `CLOCK_MONOTONIC`. Timers stay tokio's: a timer may be
//! late, a validity check may not.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

#[cfg(target_os = "linux")]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// How far the zero of an [`Instant`] lies before the boot, in nanoseconds: 146 years. A value may have been loaded
/// long before the machine that reads it was booted.
const BEFORE_BOOT: u64 = 1 << 62;

/// An instant of the lease clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
        Self(BEFORE_BOOT + seconds * 1_000_000_000 + nanos)
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero when `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// The time left until this instant; zero once it has passed.
    pub(crate) fn remaining(self) -> Duration {
        self.since(Self::now())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_the_boot_is_as_long_ago_as_it_was() {
        let century = Duration::from_secs(100 * 365 * 86_400);
        assert!((Instant::now() - century).elapsed() >= century);
        assert!((Instant::now() + century).remaining() > century / 2);
    }
}
