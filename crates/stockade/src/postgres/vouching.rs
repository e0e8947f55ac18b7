use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::settled::Writing;
use crate::{cache::UnsureRun, clock::Instant};

/// For so long the server that a new run replaced may go on taking announcements and invalidations: until its replicas have
/// not been heard of for `min-replicas-max-lag`, 10 s at most, which Redis counts in whole seconds and once a second. One
/// more for a server that is busy.
const LINGER: Duration = Duration::from_secs(13);
/// From when on it says what it waits for before it vouches.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The new run of one cache's store, if there is one that is to be vouched for.
#[derive(Debug, Default)]
pub(super) struct Vouching(Mutex<Option<Wait>>);

#[derive(Debug)]
struct Wait {
    run: UnsureRun,
    /// When the relay heard of it, which has taken writes by then.
    since: Instant,
    /// The transactions that are waited for, and when it was asked which those are.
    writing: Option<(Arc<Writing>, Instant)>,
    /// Whether what they wrote was applied once.
    applied: bool,
    told: bool,
}

/// What is to be done next about a new run.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask which transactions are writing.
    Ask,
    /// See whether these have ended.
    Look(Arc<Writing>),
    /// Nothing yet: what is applied now may not be the last that its rival took.
    Rest,
}

impl Wait {
    fn next(&self) -> Step {
        match &self.writing {
            Some((writing, _)) => Step::Look(Arc::clone(writing)),
            None if self.applied && self.run.has_rival && self.since.elapsed() < LINGER => Step::Rest,
            None => Step::Ask,
        }
    }
}

impl Vouching {
    /// Everything was applied that an earlier run, or a rival, can have taken.
    pub(super) fn is_over(&self) {
        *self.lock() = None;
    }

    pub(super) fn next(&self, run: &UnsureRun) -> Step {
        let mut wait = self.lock();
        match &*wait {
            Some(known) if known.run == *run => known.next(),
            _ => {
                let (run, since) = (run.clone(), Instant::now());
                *wait = Some(Wait { run, since, writing: None, applied: false, told: false });
                Step::Ask
            }
        }
    }

    /// These are waited for, who were writing at some moment after `asked`; `None` when that must be asked again.
    pub(super) fn waits_for(&self, run: &UnsureRun, writing: Option<(Arc<Writing>, Instant)>) {
        if let Some(wait) = self.lock().as_mut().filter(|wait| wait.run == *run) {
            wait.writing = writing;
        }
    }

    /// What they wrote was applied. Whether that is all there can be.
    pub(super) fn applied(&self, run: &UnsureRun) -> bool {
        let mut wait = self.lock();
        let Some(wait) = wait.as_mut().filter(|wait| wait.run == *run) else { return false };
        wait.applied = true;
        let Some((_, asked)) = wait.writing.take() else { return false };
        !run.has_rival || asked.since(wait.since) >= LINGER
    }

    pub(super) fn tell_of_long_wait(&self, cache: &'static str) {
        if let Some(Wait { since, writing: Some((writing, asked)), told, .. }) = &mut *self.lock()
            && !*told
            && asked.elapsed() >= LONG_WAIT
        {
            *told = true;
            let (waited, below) = (since.elapsed(), writing.below());
            tracing::warn!(
                cache,
                ?waited,
                "a new run of the store is not vouched for, and a strict cache loads every read, until each transaction below \
                 {below} has ended: see backend_xid in pg_stat_activity and transaction in pg_prepared_xacts"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
