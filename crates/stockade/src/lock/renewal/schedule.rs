use std::time::Duration;

use crate::{clock::Instant, resource::Bucket};

/// When leases are renewed.
///
/// Renewals lie on a grid with the period as its step. Each group of buckets has the grid at another offset. Renewals
/// of one group fall together, and can share a script. In a cluster only those of one bucket can. Renewals of different
/// groups are spread over the whole period, however many locks were taken at once. A random offset for each process
/// keeps processes apart.
#[derive(Debug)]
pub(super) struct Schedule {
    shift: u64,
}

/// How many buckets are in a group. Larger groups need fewer scripts for the same renewals, but send more renewals at
/// once.
const TOGETHER: u8 = 8;

impl Schedule {
    pub(super) fn new() -> Self {
        Self { shift: rand::random() }
    }

    /// The time of the renewal that follows one at `last`, or a grant at `last`: between two fifths of the period and a
    /// whole period later.
    pub(super) fn next(&self, last: Instant, period: Duration, bucket: Bucket) -> Instant {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).clamp(1, u64::MAX / 1024);
        let group = bucket.index() / TOGETHER;
        let phase = (period * u64::from(group) / (256 / u64::from(TOGETHER)) + self.shift % period) % period;
        let into = (last.as_nanos() % period + period - phase) % period;
        let left = period - into;
        // A renewal that would come too soon comes half a period later. The one after it is on the grid again.
        let left = if left < period * 2 / 5 { left + period / 2 } else { left };
        last + Duration::from_nanos(left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(3300);

    #[test]
    fn renewals_of_a_group_fall_together_and_never_come_late() {
        let schedule = Schedule::new();
        let mut times = BTreeSet::new();
        for grant in 0..1000 {
            let mut last = Instant::from_nanos(7_777_777_777 + grant * 3_300_000);
            let bucket = Bucket::from_index(8 + u8::try_from(grant % 8).unwrap());
            for _ in 0..3 {
                let next = schedule.next(last, PERIOD, bucket);
                let pause = next.since(last);
                assert!(pause >= PERIOD * 2 / 5 && pause <= PERIOD, "{pause:?}");
                last = next;
            }
            times.insert(last.as_nanos() % 3_300_000_000);
        }
        assert_eq!(times.len(), 1, "all are on the grid of their group");
    }

    #[test]
    fn renewals_of_many_buckets_are_spread_over_the_period() {
        let schedule = Schedule::new();
        let last = Instant::from_nanos(7_777_777_777);
        let at = |bucket| schedule.next(schedule.next(last, PERIOD, bucket), PERIOD, bucket).as_nanos() % 3_300_000_000;
        let mut tenths = [0; 10];
        for bucket in 0..=u8::MAX {
            tenths[usize::try_from(at(Bucket::from_index(bucket)) / 330_000_000).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (20..=32).contains(count)), "{tenths:?}");
    }
}
