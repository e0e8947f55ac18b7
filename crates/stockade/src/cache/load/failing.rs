use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use crate::{clock::Instant, resource::Key};

/// For how long a failure is remembered: longer than the breaker of a database stays open.
const MEMORY: Duration = Duration::from_secs(60);

/// How many keys are remembered. If the database is down, only a few loads fail before the breaker opens.
const MOST: usize = 4096;

/// After this many failures in a row, the key is held off also for callers that have no expired value. A single failure
/// may be an accident.
const IN_A_ROW: u32 = 2;

/// The keys whose last load in this process failed. It tells a row that can't be loaded from a database that is down.
/// While no store does it for all processes, it also holds such a row off.
#[derive(Debug, Default)]
pub(crate) struct Failing(Mutex<HashMap<Key, Failed>>);

/// What a failure says about the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A key failed that had not failed before.
    New,
    /// The last load of each of the keys had failed too, and no load of any key has succeeded since.
    Nothing,
    /// The same, and other keys were loaded meanwhile: the rows are at fault.
    OfTheRows,
}

#[derive(Debug)]
struct Failed {
    last: Instant,
    /// Whether a load of this key alone has failed. If a load of several keys fails, it is unknown which is at fault.
    alone: bool,
    /// How many loads of this key alone failed in a row since the last write.
    times: u32,
    /// How many loads of any cache on the database had succeeded when it first failed.
    loads: u64,
}

impl Failing {
    /// Notes that the load of these keys failed. Returns what the failure says about the database. The first failure of
    /// a key alone always says something new. `loads` is how many loads on this database have succeeded so far.
    pub(crate) fn failed(&self, keys: &[&Key], loads: u64) -> News {
        let (now, by_itself) = (Instant::now(), keys.len() == 1);
        let mut failing = self.0.lock();
        if failing.len() + keys.len() > MOST {
            failing.retain(|_, failed| failed.is_remembered(now));
        }
        let (mut is_new, mut is_first) = (false, true);
        for key in keys {
            let before = failing.get(*key).filter(|failed| failed.is_remembered(now));
            let known = before.is_some();
            let (alone, times, since) =
                before.map_or((false, 0, loads), |failed| (failed.alone, failed.times, failed.loads));
            is_new |= !known || by_itself && !alone;
            is_first &= since == loads;
            // A key for which there is no room is new at each failure.
            if known || failing.len() < MOST {
                let times = times.saturating_add(u32::from(by_itself));
                let failed = Failed { last: now, alone: alone || by_itself, times, loads: since };
                failing.insert((*key).clone(), failed);
            }
        }
        match is_new {
            true => News::New,
            false if is_first => News::Nothing,
            false => News::OfTheRows,
        }
    }

    /// Notes that these keys were loaded.
    pub(crate) fn loaded(&self, keys: &[&Key]) {
        let mut failing = self.0.lock();
        if !failing.is_empty() {
            for key in keys {
                failing.remove(*key);
            }
        }
    }

    /// Ends the hold-off of a key after a write, which may have mended the row. If the next load fails too, that says
    /// nothing new about the database.
    pub(crate) fn release(&self, key: &Key) {
        if let Some(failed) = self.0.lock().get_mut(key) {
            failed.times = 0;
        }
    }

    /// Whether the last load of this key failed, alone or together with other keys.
    pub(crate) fn has(&self, key: &Key) -> bool {
        let now = Instant::now();
        self.0.lock().get(key).is_some_and(|failed| failed.is_remembered(now))
    }

    /// How much longer this key is held off, if its loads keep failing.
    pub(crate) fn held(&self, key: &Key, window: Duration) -> Option<Duration> {
        let failing = self.0.lock();
        let failed = failing.get(key).filter(|failed| failed.times >= IN_A_ROW)?;
        let left = (failed.last + window).since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

impl Failed {
    fn is_remembered(&self, now: Instant) -> bool {
        now < self.last + MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn keys() -> [Key; 3] {
        ["a", "b", "c"].map(|id| Key::new("stock", id).unwrap())
    }

    /// Whether a failure is news, while no load succeeds.
    fn is_news(failing: &Failing, keys: &[&Key]) -> bool {
        failing.failed(keys, 0) == News::New
    }

    #[test]
    fn the_second_failure_of_a_key_is_no_news_and_holds_it_off() {
        let (failing, [a, b, _]) = (Failing::default(), keys());
        assert!(is_news(&failing, &[&a]) && failing.has(&a));
        assert_eq!(failing.held(&a, LONG), None, "one may be an accident");
        assert!(!is_news(&failing, &[&a]));
        assert!(failing.held(&a, LONG).is_some_and(|left| left > LONG / 2));
        assert_eq!(failing.held(&a, Duration::ZERO), None);
        assert!(is_news(&failing, &[&b]), "each key for itself");
        failing.release(&a);
        assert!(failing.has(&a) && failing.held(&a, LONG).is_none() && !is_news(&failing, &[&a]));
        failing.loaded(&[&a, &b]);
        assert!(!failing.has(&a) && is_news(&failing, &[&a]));
    }

    #[test]
    fn keys_that_failed_together_are_remembered_and_held_by_none_of_it() {
        let (failing, [a, b, c]) = (Failing::default(), keys());
        assert!(is_news(&failing, &[&a, &b]));
        assert!(!is_news(&failing, &[&a, &b]));
        assert!(failing.has(&a) && failing.held(&a, LONG).is_none());
        assert!(is_news(&failing, &[&b, &c]), "one of them had not failed");
        assert!(is_news(&failing, &[&c]) && !is_news(&failing, &[&c]), "the first by itself is news");
        failing.loaded(&[&a]);
        assert!(!failing.has(&a) && failing.has(&b));
    }

    #[test]
    fn a_load_that_succeeds_beside_a_failing_key_shows_that_the_row_is_at_fault() {
        let (failing, [a, b, _]) = (Failing::default(), keys());
        assert_eq!(failing.failed(&[&a], 7), News::New);
        assert_eq!(failing.failed(&[&a], 7), News::Nothing);
        assert_eq!(failing.failed(&[&a], 8), News::OfTheRows);
        assert_eq!(failing.failed(&[&b], 8), News::New);
        assert_eq!(failing.failed(&[&a, &b], 8), News::OfTheRows, "one of them is");
    }

    #[test]
    fn what_does_not_fit_counts_each_time() {
        let failing = Failing::default();
        for number in 0..MOST {
            assert!(is_news(&failing, &[&Key::new("stock", &number.to_string()).unwrap()]));
        }
        let [a, ..] = keys();
        assert!(is_news(&failing, &[&a]) && is_news(&failing, &[&a]));
        assert_eq!(failing.0.lock().len(), MOST);
    }
}
