use std::{sync::Arc, time::Duration};

use crate::{
    lock::{LockError, Mode},
    resource::Key,
    store::Attempt,
};

/// The leases that a request may ask for.
const LEASES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
/// The longest wait with an end. The place of a process that died stays in the queue for that long. A wait without an
/// end is renewed a minute at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The most permits of a semaphore.
const MOST_PERMITS: u32 = 65_535;
/// The longest tag, in bytes.
const MAX_TAG: usize = 64;

/// The terms of a request, for one resource as well as for several.
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
    pub(super) fn new(lease: Duration) -> Self {
        Self { wait: None, lease, max_hold: None, permits: 0, tag: Arc::default() }
    }

    /// Finds every mistake in the terms.
    pub(super) fn check(&self, mode: Mode) -> Result<(), LockError> {
        if self.tag.len() > MAX_TAG || self.tag.chars().any(char::is_control) {
            return Err(LockError::Tag);
        }
        check_lease("lease", self.lease)?;
        if let Some(max_hold) = self.max_hold {
            within("max_hold", max_hold, Duration::from_millis(1), Duration::MAX)?;
        }
        if mode == Mode::Permit { check_permits(self.permits) } else { Ok(()) }
    }

    /// The attempt on a resource, if the terms have no mistake.
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

/// Writes the setters that both kinds of request share.
macro_rules! request_setters {
    ($request:ident) => {
        impl $request {
            /// How long to wait in the queue, for all resources of the request together. Zero tries once. At most 24
            /// hours: a longer wait is cut to that, because a process that dies leaves its place for the rest of its
            /// wait. Default, and with [`Duration::MAX`]: without limit, by a place that is renewed every 20 s.
            ///
            /// The wait is for others to release the lock, not for a server: an attempt whose first question finds no
            /// connection, or loses it, fails at once as
            /// [`LockError::Unavailable`](crate::lock::LockError::Unavailable). An attempt that has its place waits
            /// through an outage.
            pub fn wait(mut self, wait: Duration) -> Self {
                self.terms.wait = Some(wait);
                self
            }

            /// The lease of each lock, 100 ms to 5 min. It is renewed at a third of that from the moment the lock is
            /// held, for as long as the guard lives. Default 10 s, or what
            /// [`LocksBuilder::lease`](crate::lock::LocksBuilder::lease) said.
            ///
            /// The lease bounds how long a process that died keeps others waiting, not how long the lock can be held.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.terms.lease = lease;
                self
            }

            /// The longest hold, 1 ms or more, counted from when everything that was asked for is held. A guard that
            /// reaches it loses the lock with [`LossReason::Expired`](crate::lock::LossReason::Expired), and the lock
            /// goes to the next in the queue. Default: none.
            pub fn max_hold(mut self, max: Duration) -> Self {
                self.terms.max_hold = Some(max);
                self
            }

            /// The name of the caller, which [`Locks::inspect`](crate::Locks::inspect) shows for each lock. At most 64
            /// bytes, no control characters. Default empty.
            pub fn tag(mut self, tag: impl Into<String>) -> Self {
                self.terms.tag = tag.into().into();
                self
            }
        }
    };
}
pub(in crate::lock) use request_setters;

fn check_lease(what: &'static str, given: Duration) -> Result<(), LockError> {
    within(what, given, LEASES.0, LEASES.1)
}

fn check_permits(given: u32) -> Result<(), LockError> {
    let max = MOST_PERMITS;
    if (1..=max).contains(&given) { Ok(()) } else { Err(LockError::Permits { given, max }) }
}

/// Panics for a lease that every request would be refused for: the mistake shows at the start of the program.
#[track_caller]
pub(crate) fn lease_at_start(what: &'static str, given: Duration) {
    at_start(check_lease(what, given));
}

/// Panics for permits as [`lease_at_start`] does for a lease.
#[cfg(feature = "axum")]
#[track_caller]
pub(crate) fn permits_at_start(given: u32) {
    at_start(check_permits(given));
}

#[track_caller]
fn at_start(checked: Result<(), LockError>) {
    if let Err(error) = checked {
        panic!("{error}");
    }
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

    #[test]
    fn a_refused_duration_names_only_limits_that_there_are() {
        let refused = |terms: Terms| terms.check(Mode::Write).unwrap_err().to_string();
        let terms = || Terms::new(Duration::from_secs(10));
        let short = Terms { lease: Duration::from_millis(5), ..terms() };
        assert_eq!(refused(short), "the lease is 5ms: it must be within 100ms and 300s");
        let none = Terms { max_hold: Some(Duration::ZERO), ..terms() };
        assert_eq!(refused(none), "the max_hold is 0ns: it must be 1ms or more");
    }

    #[test]
    fn a_wait_is_bounded_or_has_no_end() {
        let wait = |wait| {
            let terms = Terms { wait, ..Terms::new(Duration::from_secs(10)) };
            terms.attempt(Key::new("test", "1").unwrap(), Mode::Write, 1).unwrap().wait
        };
        assert_eq!(wait(Some(Duration::from_secs(u64::MAX))), LONGEST_WAIT);
        assert_eq!(wait(Some(LONGEST_WAIT)), LONGEST_WAIT);
        assert_eq!(wait(Some(Duration::ZERO)), Duration::ZERO);
        assert_eq!([wait(None), wait(Some(Duration::MAX))], [Duration::MAX; 2]);
    }
}
