use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{clock::Instant, resource::Key};

/// For how long a failure is remembered: longer than the breaker of a database stays open.
const MEMORY: Duration = Duration::from_secs(60);

/// How many keys are remembered. A database that is down fails few before its breaker opens.
const MOST: usize = 4096;

/// So many failures in a row hold a key off from callers that have nothing to serve: one alone may be an accident.
const IN_A_ROW: u32 = 2;

/// The keys whose last load failed in this process. It tells one row that can't be loaded from a database that can't be
/// asked, and holds such a row off where no store does that for all processes.
#[derive(Debug, Default)]
pub(crate) struct Failing(Mutex<HashMap<Key, Failed>>);

#[derive(Debug)]
struct Failed {
    last: Instant,
    /// Whether it has failed by itself. Of several that failed together nobody knows which was at fault.
    alone: bool,
    /// How often it did so in a row since the last write of it.
    times: u32,
}

impl Failing {
    /// The load of these keys failed. Returns whether that is news of the source: not when the last load of each of
    /// them had failed too, as long as it is not the first that is of one key alone.
    pub(crate) fn failed(&self, keys: &[&Key]) -> bool {
        let (now, by_itself) = (Instant::now(), keys.len() == 1);
        let mut failing = self.lock();
        if failing.len() + keys.len() > MOST {
            failing.retain(|_, failed| failed.is_remembered(now));
        }
        let mut is_news = false;
        for key in keys {
            let before = failing.get(*key).filter(|failed| failed.is_remembered(now));
            let (known, alone, times) = before.map_or((false, false, 0), |failed| (true, failed.alone, failed.times));
            is_news |= !known || by_itself && !alone;
            // What does not fit is news each time.
            if known || failing.len() < MOST {
                let times = times.saturating_add(u32::from(by_itself));
                failing.insert((*key).clone(), Failed { last: now, alone: alone || by_itself, times });
            }
        }
        is_news
    }

    /// These were loaded.
    pub(crate) fn loaded(&self, keys: &[&Key]) {
        let mut failing = self.lock();
        if !failing.is_empty() {
            for key in keys {
                failing.remove(*key);
            }
        }
    }

    /// A write came, which may have mended the row: the next load may be tried. Should it fail, it is no news.
    pub(crate) fn release(&self, key: &Key) {
        if let Some(failed) = self.lock().get_mut(key) {
            failed.times = 0;
        }
    }

    /// Whether the last load of this key failed, by itself or with others.
    pub(crate) fn has(&self, key: &Key) -> bool {
        let now = Instant::now();
        self.lock().get(key).is_some_and(|failed| failed.is_remembered(now))
    }

    /// How long a key is still held off that keeps failing.
    pub(crate) fn held(&self, key: &Key, window: Duration) -> Option<Duration> {
        let failing = self.lock();
        let failed = failing.get(key).filter(|failed| failed.times >= IN_A_ROW)?;
        let left = (failed.last + window).since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Failed>> {
        // No code that can panic runs under this lock, so that the map of a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn the_second_failure_of_a_key_is_no_news_and_holds_it_off() {
        let (failing, [a, b, _]) = (Failing::default(), keys());
        assert!(failing.failed(&[&a]) && failing.has(&a));
        assert_eq!(failing.held(&a, LONG), None, "one may be an accident");
        assert!(!failing.failed(&[&a]));
        assert!(failing.held(&a, LONG).is_some_and(|left| left > LONG / 2));
        assert_eq!(failing.held(&a, Duration::ZERO), None);
        assert!(failing.failed(&[&b]), "each key for itself");
        failing.release(&a);
        assert!(failing.has(&a) && failing.held(&a, LONG).is_none() && !failing.failed(&[&a]));
        failing.loaded(&[&a, &b]);
        assert!(!failing.has(&a) && failing.failed(&[&a]));
    }

    #[test]
    fn keys_that_failed_together_are_remembered_and_held_by_none_of_it() {
        let (failing, [a, b, c]) = (Failing::default(), keys());
        assert!(failing.failed(&[&a, &b]));
        assert!(!failing.failed(&[&a, &b]));
        assert!(failing.has(&a) && failing.held(&a, LONG).is_none());
        assert!(failing.failed(&[&b, &c]), "one of them had not failed");
        assert!(failing.failed(&[&c]) && !failing.failed(&[&c]), "the first by itself is news");
        failing.loaded(&[&a]);
        assert!(!failing.has(&a) && failing.has(&b));
    }

    #[test]
    fn what_does_not_fit_counts_each_time() {
        let failing = Failing::default();
        for number in 0..MOST {
            assert!(failing.failed(&[&Key::new("stock", &number.to_string()).unwrap()]));
        }
        let [a, ..] = keys();
        assert!(failing.failed(&[&a]) && failing.failed(&[&a]));
        assert_eq!(failing.lock().len(), MOST);
    }
}
