use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The unit of the time in the key. All clients of a lock must use the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Seconds since 1970, as in the documentation of `SETNX`. A lease is rounded up to whole seconds.
    #[default]
    Seconds,
    /// Milliseconds since 1970, as Java clients often use.
    Millis,
}

impl Unit {
    pub(super) fn length(self) -> Duration {
        match self {
            Self::Seconds => Duration::from_secs(1),
            Self::Millis => Duration::from_millis(1),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Millis => "milliseconds",
        }
    }

    /// The wall clock, in whole units.
    pub(super) fn now(self) -> u64 {
        self.whole(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    fn whole(self, duration: Duration) -> u64 {
        u64::try_from(duration.as_nanos() / self.length().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A lease in whole units, rounded up.
    pub(super) fn lease(self, lease: Duration) -> u64 {
        self.whole(lease + self.length() - Duration::from_nanos(1))
    }

    /// The time to write for a lease that begins now. One unit is added, since [`Unit::now`] is rounded down.
    pub(super) fn end_of(self, lease: Duration) -> u64 {
        self.now() + self.lease(lease) + 1
    }

    /// Parses the time that a client wrote. `None` if the text can't be a time in this unit.
    pub(super) fn read(self, text: &str) -> Option<u64> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) {
            return None;
        }
        let time: u64 = whole.parse().ok()?;
        // The units differ by a factor of 1000. Read in the wrong unit, a held lock would look expired, or an expired
        // one held for ever.
        let now = self.now();
        (time > now / 30 && time / 30 < now).then_some(time)
    }

    /// How long until the time that a client wrote is over for every client. `None` if it is over.
    pub(super) fn left(self, time: u64) -> Option<Duration> {
        let units = (time + 1).checked_sub(self.now()).filter(|units| *units > 0)?;
        Some(self.length().saturating_mul(u32::try_from(units).unwrap_or(u32::MAX)))
    }

    /// How long until the wall clock reaches `time`.
    pub(super) fn until(self, time: u64) -> Duration {
        let end = Duration::from_millis(time.saturating_mul(u64::try_from(self.length().as_millis()).unwrap_or(1)));
        end.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_own_unit_only() {
        for unit in [Unit::Seconds, Unit::Millis] {
            let now = unit.now();
            assert_eq!(unit.read(&now.to_string()), Some(now));
            assert_eq!(unit.read(&format!("{now}.734")), Some(now));
            for odd in ["", ".", ".5", "x", "-1", "+1", "1e9", " 1", "0", "1", "18446744073709551616"] {
                assert_eq!(unit.read(odd), None, "{odd}");
            }
            assert_eq!(unit.read(&format!("{now}x")), None);
            assert_eq!(unit.read(&format!("{now}.5x")), None);
        }
        assert_eq!(Unit::Seconds.read(&Unit::Millis.now().to_string()), None);
        assert_eq!(Unit::Millis.read(&Unit::Seconds.now().to_string()), None);
    }

    #[test]
    fn a_lease_is_rounded_up_and_never_ends_early_for_others() {
        assert_eq!(Unit::Seconds.lease(Duration::from_millis(1001)), 2);
        assert_eq!(Unit::Seconds.lease(Duration::from_secs(2)), 2);
        assert_eq!(Unit::Millis.lease(Duration::from_micros(1500)), 2);
        for unit in [Unit::Seconds, Unit::Millis] {
            for lease in [1000, 1200].map(Duration::from_millis) {
                let (before, end) = (SystemTime::now(), unit.end_of(lease));
                assert!(unit.until(end) + before.elapsed().unwrap() >= lease - Duration::from_millis(1), "{end}");
                assert!(unit.left(end).is_some_and(|left| left >= lease));
            }
            assert_eq!(unit.left(unit.now() - 1), None);
            assert!(unit.left(unit.now() + 1).is_some());
        }
    }
}
