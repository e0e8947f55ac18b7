use std::{sync::Arc, time::Duration};

use super::shared::Shared;
use crate::{
    lock::{LockError, Mode},
    resource::Key,
    store::Attempt,
};

/// The leases that may be asked for.
const LEASES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
/// The longest wait with an end: so long a waiter's place outlives a process that died. One without an end is entered for a
/// minute at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The most permits of a semaphore.
const MOST_PERMITS: u32 = 65_535;
/// The longest tag, in bytes.
const MAX_TAG: usize = 64;

/// On what terms a lock is asked for: what requests for one and for several resources have in common.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Without limit when `None`.
    pub(super) wait: Option<Duration>,
    pub(super) lease: Duration,
    pub(super) max_hold: Option<Duration>,
    /// How many may hold it together, for [`Mode::Permit`].
    pub(super) permits: u32,
    pub(super) tag: Arc<str>,
}

impl Terms {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { wait: None, lease: shared.lease, max_hold: None, permits: 0, tag: Arc::default() }
    }

    /// Looks at everything that can be wrong with the terms.
    pub(super) fn check(&self, mode: Mode) -> Result<(), LockError> {
        if self.tag.len() > MAX_TAG || self.tag.chars().any(char::is_control) {
            return Err(LockError::Tag);
        }
        let (min, max) = LEASES;
        within("lease", self.lease, min, max)?;
        if let Some(max_hold) = self.max_hold {
            within("max_hold", max_hold, Duration::from_millis(1), Duration::MAX)?;
        }
        if mode == Mode::Permit && !(1..=MOST_PERMITS).contains(&self.permits) {
            return Err(LockError::Permits { given: self.permits, max: MOST_PERMITS });
        }
        Ok(())
    }

    /// The attempt on a resource, if nothing is wrong with the terms.
    pub(super) fn attempt(&self, key: Key, mode: Mode, max_waiters: u32) -> Result<Attempt, LockError> {
        self.check(mode)?;
        let permits = self.permits;
        let wait = match self.wait {
            None | Some(Duration::MAX) => Duration::MAX,
            Some(wait) => wait.min(LONGEST_WAIT),
        };
        let (lease, tag) = (self.lease, Arc::clone(&self.tag));
        Ok(Attempt { key, mode, permits, lease, wait, max_waiters, tag, yields: None })
    }
}

/// Looks at a lease that is no request's own.
pub(super) fn check_lease(what: &'static str, given: Duration) -> Result<(), LockError> {
    within(what, given, LEASES.0, LEASES.1)
}

pub(super) fn is_lease(given: &Duration) -> bool {
    (LEASES.0..=LEASES.1).contains(given)
}

fn within(what: &'static str, given: Duration, min: Duration, max: Duration) -> Result<(), LockError> {
    if (min..=max).contains(&given) { Ok(()) } else { Err(LockError::Duration { what, given, min, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    #[test]
    fn a_wait_is_bounded_or_has_no_end() {
        let shared = Shared::new(Arc::new(MemoryStore::new()), Duration::from_secs(10), 1, None);
        let wait = |wait| {
            let terms = Terms { wait, ..Terms::new(&shared) };
            terms.attempt(Key::new("test", "1").unwrap(), Mode::Write, 1).unwrap().wait
        };
        assert_eq!(wait(Some(Duration::from_secs(u64::MAX))), LONGEST_WAIT);
        assert_eq!(wait(Some(LONGEST_WAIT)), LONGEST_WAIT);
        assert_eq!(wait(Some(Duration::ZERO)), Duration::ZERO);
        assert_eq!([wait(None), wait(Some(Duration::MAX))], [Duration::MAX; 2]);
    }
}
