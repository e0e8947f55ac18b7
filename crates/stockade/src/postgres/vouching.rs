use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{
    RelayError,
    replay::{Batch, Replay},
    settled::Writing,
};
use crate::{
    cache::{OLD_PRIMARY_WRITES, UnsureRun},
    clock::Instant,
};

/// After this time the relay logs which transactions it waits for before it vouches.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The new run of one cache's store, until the relay has vouched for it.
#[derive(Debug, Default)]
pub(super) struct Vouching(Mutex<Option<Wait>>);

#[derive(Debug)]
struct Wait {
    run: UnsureRun,
    /// When the relay heard of the run. The run had taken writes by then.
    since: Instant,
    /// The transactions that the relay waits for, and when it asked Postgres for them.
    writing: Option<(Arc<Writing>, Instant)>,
    /// Applies the invalidations of those transactions, and all earlier ones.
    replay: Option<Replay>,
    /// Whether the invalidations of those transactions were applied once.
    applied: bool,
    /// Whether the long wait was logged.
    told: bool,
    /// How often the store refused a row that it has to take.
    refused: u32,
    /// When all rows are tried again after a refusal.
    again: Option<Instant>,
}

/// The next step towards vouching for a new run.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask Postgres which transactions are writing.
    Ask,
    /// Ask Postgres whether these transactions have ended.
    Look(Arc<Writing>),
    /// Wait: the rival may still take writes, or the store refused a row a moment ago.
    Rest,
}

impl Wait {
    fn next(&self, now: Instant) -> Step {
        if self.again.is_some_and(|again| now < again) {
            return Step::Rest;
        }
        match &self.writing {
            Some((writing, _)) => Step::Look(Arc::clone(writing)),
            None if self.applied && self.run.has_rival && now.since(self.since) < OLD_PRIMARY_WRITES => Step::Rest,
            None => Step::Ask,
        }
    }
}

impl Vouching {
    /// Every invalidation that an earlier run or a rival can have taken was applied.
    pub(super) fn is_over(&self) {
        *self.0.lock() = None;
    }

    pub(super) fn next(&self, run: &UnsureRun, now: Instant) -> Step {
        let mut wait = self.0.lock();
        match &*wait {
            Some(known) if known.run == *run => known.next(now),
            _ => {
                *wait = Some(Wait {
                    run: run.clone(),
                    since: now,
                    writing: None,
                    replay: None,
                    applied: false,
                    told: false,
                    refused: 0,
                    again: None,
                });
                Step::Ask
            }
        }
    }

    /// Notes the transactions that the relay waits for, with the time just before it asked for them. `None` if it must
    /// ask again.
    pub(super) fn waits_for(&self, run: &UnsureRun, writing: Option<(Arc<Writing>, Instant)>) {
        if let Some(wait) = self.0.lock().as_mut().filter(|wait| wait.run == *run) {
            (wait.writing, wait.replay) = (writing, None);
        }
    }

    /// Goes on with the replay of an earlier round. False if none has begun.
    pub(super) fn resume(&self, run: &UnsureRun) -> bool {
        self.of(run, |wait| wait.replay.as_mut().map(Replay::resume)).is_some()
    }

    pub(super) fn begin(&self, run: &UnsureRun, replay: Replay) {
        self.of(run, |wait| wait.replay.replace(replay));
    }

    /// The row that the replay has come to.
    pub(super) fn position(&self, run: &UnsureRun) -> Option<i64> {
        self.of(run, |wait| wait.replay.as_ref().map(|replay| replay.last))
    }

    pub(super) fn note(&self, run: &UnsureRun, batch: Batch) {
        self.of(run, |wait| wait.replay.as_mut().map(|replay| replay.note(batch)));
    }

    /// Up to which id no row may wait when the replay ends.
    pub(super) fn settles(&self, run: &UnsureRun) -> Option<i64> {
        self.of(run, |wait| wait.replay.as_ref().and_then(Replay::settles))
    }

    /// Ends the replay.
    pub(super) fn replayed(&self, run: &UnsureRun) -> Option<Replay> {
        self.of(run, |wait| wait.replay.take())
    }

    /// The next replay begins from the lowest id.
    pub(super) fn replay_anew(&self, run: &UnsureRun) {
        self.replayed(run);
    }

    fn of<T>(&self, run: &UnsureRun, act: impl FnOnce(&mut Wait) -> Option<T>) -> Option<T> {
        self.0.lock().as_mut().filter(|wait| wait.run == *run).and_then(act)
    }

    /// The invalidations of the transactions were applied. Returns whether there can be no others.
    pub(super) fn applied(&self, run: &UnsureRun) -> bool {
        let mut wait = self.0.lock();
        let Some(wait) = wait.as_mut().filter(|wait| wait.run == *run) else { return false };
        wait.applied = true;
        let Some((_, asked)) = wait.writing.take() else { return false };
        !run.has_rival || asked.since(wait.since) >= OLD_PRIMARY_WRITES
    }

    /// The store refused a row that it has to take, so the relay does not vouch yet. It tries again after a pause,
    /// which grows from 1 s to 16 s.
    pub(super) fn was_refused(&self, run: &UnsureRun, now: Instant, refusal: &RelayError) {
        if let Some(wait) = self.0.lock().as_mut().filter(|wait| wait.run == *run) {
            wait.again = Some(now + Duration::from_secs(1 << wait.refused.min(4)));
            wait.refused += 1;
            if wait.refused == 1 {
                tracing::warn!(
                    error = refusal as &dyn std::error::Error,
                    "a new run of the store refuses an invalidation, so every read of a strict cache is a load until the \
                     store takes it: mend what the error names"
                );
            }
        }
    }

    pub(super) fn tell_of_long_wait(&self, cache: &'static str) {
        if let Some(Wait { since, writing: Some((writing, asked)), told, .. }) = &mut *self.0.lock()
            && !*told
            && asked.elapsed() >= LONG_WAIT
        {
            *told = true;
            let (waited, below) = (since.elapsed(), writing.below());
            tracing::warn!(
                cache,
                ?waited,
                "every read of a strict cache is a load until each transaction of this database below {below} has \
                 ended, because its store began a new run: see backend_xid in pg_stat_activity and transaction in \
                 pg_prepared_xacts"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(connection: u64, has_rival: bool) -> UnsureRun {
        UnsureRun { id: Arc::from("run"), connection, has_rival }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_secs(seconds)
    }

    /// Asks now for the writing transactions, and applies their invalidations. Returns whether there can be no others;
    /// `None` if the next step is to wait.
    fn apply(vouching: &Vouching, run: &UnsureRun, now: Instant) -> Option<bool> {
        if matches!(vouching.next(run, now), Step::Rest) {
            return None;
        }
        vouching.waits_for(run, Some((Arc::new(Writing { next: "1".to_owned() }), now)));
        assert!(matches!(vouching.next(run, now), Step::Look(_)));
        Some(vouching.applied(run))
    }

    #[test]
    fn a_run_beside_a_rival_is_vouched_for_once_the_rival_takes_no_writes() {
        let (vouching, run) = (Vouching::default(), run(1, true));
        assert_eq!(apply(&vouching, &run, at(100)), Some(false));
        for early in [100, 101, 112] {
            assert_eq!(apply(&vouching, &run, at(early)), None, "after {} s", early - 100);
        }
        assert_eq!(apply(&vouching, &run, at(113)), Some(true));
    }

    #[test]
    fn who_was_writing_is_asked_again_after_the_rival_took_its_last_write() {
        let (vouching, run) = (Vouching::default(), run(1, true));
        vouching.next(&run, at(100));
        vouching.waits_for(&run, Some((Arc::new(Writing { next: "1".to_owned() }), at(101))));
        // The transactions took so long that the rival has stopped meanwhile.
        assert!(matches!(vouching.next(&run, at(200)), Step::Look(_)));
        assert!(!vouching.applied(&run));
        assert_eq!(apply(&vouching, &run, at(200)), Some(true));
    }

    #[test]
    fn a_new_connection_to_the_same_run_begins_the_wait_anew() {
        let (vouching, first, second) = (Vouching::default(), run(1, true), run(2, true));
        assert_eq!(apply(&vouching, &first, at(100)), Some(false));
        assert_eq!(apply(&vouching, &second, at(113)), Some(false));
        assert_eq!(apply(&vouching, &second, at(125)), None);
        assert_eq!(apply(&vouching, &second, at(126)), Some(true));
    }

    #[test]
    fn a_run_without_a_rival_is_vouched_for_at_once() {
        assert_eq!(apply(&Vouching::default(), &run(1, false), at(100)), Some(true));
    }
}
