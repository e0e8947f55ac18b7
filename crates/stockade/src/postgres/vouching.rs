use std::time::Duration;

use super::{RelayError, replay::Replay, settled::Writing};
use crate::{
    cache::{OLD_PRIMARY_WRITES, UnsureRun},
    chain::Chain,
    clock::Instant,
};

/// After this time the relay logs which transactions it waits for before it vouches.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The new run of one cache's store, until the relay has vouched for it.
#[derive(Debug)]
pub(super) struct Vouching {
    pub(super) run: UnsureRun,
    /// When the relay heard of the run. The run had taken writes by then.
    since: Instant,
    /// The transactions that the relay waits for, and when it asked Postgres for them.
    pub(super) writing: Option<(Writing, Instant)>,
    /// Applies the invalidations of those transactions, and all earlier ones.
    pub(super) replay: Option<Replay>,
    /// Whether the invalidations of those transactions were applied once.
    applied: bool,
    /// Whether the long wait was logged.
    told: bool,
    /// How often the store refused a row that it has to take.
    refused: u32,
    /// When all rows are tried again after a refusal.
    again: Option<Instant>,
}

impl Vouching {
    /// Goes on with this run, or begins with it.
    pub(super) fn of(known: &mut Option<Self>, run: UnsureRun, since: Instant) -> &mut Self {
        if known.as_ref().is_some_and(|known| known.run != run) {
            *known = None;
        }
        known.get_or_insert_with(|| Self {
            run,
            since,
            writing: None,
            replay: None,
            applied: false,
            told: false,
            refused: 0,
            again: None,
        })
    }

    /// Whether to wait: the rival may still take writes, or the store refused a row a moment ago.
    pub(super) fn rests(&self, now: Instant) -> bool {
        let beside_rival = self.applied && self.run.has_rival && now.since(self.since) < OLD_PRIMARY_WRITES;
        self.again.is_some_and(|again| now < again) || (self.writing.is_none() && beside_rival)
    }

    /// The invalidations of the transactions were applied. Returns whether there can be no others.
    pub(super) fn applied(&mut self) -> bool {
        self.applied = true;
        let Some((_, asked)) = self.writing.take() else { return false };
        !self.run.has_rival || asked.since(self.since) >= OLD_PRIMARY_WRITES
    }

    /// The store refused a row that it has to take, so the relay does not vouch yet. It tries again after a pause,
    /// which grows from 1 s to 16 s.
    pub(super) fn was_refused(&mut self, now: Instant, refusal: &RelayError) {
        self.again = Some(now + Duration::from_secs(1 << self.refused.min(4)));
        self.refused += 1;
        if self.refused == 1 {
            tracing::warn!(
                error = %Chain(refusal),
                "a new run of the store refuses an invalidation, so every read of a strict cache is a load until the \
                 store takes it: mend what the error names"
            );
        }
    }

    pub(super) fn tell_of_long_wait(&mut self, cache: &'static str) {
        if let Some((writing, asked)) = &self.writing
            && !self.told
            && asked.elapsed() >= LONG_WAIT
        {
            self.told = true;
            let (waited, below) = (self.since.elapsed(), &writing.next);
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
    use std::sync::Arc;

    use super::*;

    fn run(connection: u64, has_rival: bool) -> UnsureRun {
        UnsureRun { id: Arc::from("run"), connection, has_rival }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_secs(seconds)
    }

    fn writing(asked: Instant) -> Option<(Writing, Instant)> {
        Some((Writing { next: "1".to_owned() }, asked))
    }

    /// Asks now for the writing transactions, and applies their invalidations. Returns whether there can be no others;
    /// `None` if the next step is to wait.
    fn apply(known: &mut Option<Vouching>, run: &UnsureRun, now: Instant) -> Option<bool> {
        let vouching = Vouching::of(known, run.clone(), now);
        if vouching.rests(now) {
            return None;
        }
        vouching.writing = writing(now);
        assert!(!vouching.rests(now));
        Some(vouching.applied())
    }

    #[test]
    fn a_run_beside_a_rival_is_vouched_for_once_the_rival_takes_no_writes() {
        let (mut known, run) = (None, run(1, true));
        assert_eq!(apply(&mut known, &run, at(100)), Some(false));
        for early in [100, 101, 112] {
            assert_eq!(apply(&mut known, &run, at(early)), None, "after {} s", early - 100);
        }
        assert_eq!(apply(&mut known, &run, at(113)), Some(true));
    }

    #[test]
    fn who_was_writing_is_asked_again_after_the_rival_took_its_last_write() {
        let (mut known, run) = (None, run(1, true));
        let vouching = Vouching::of(&mut known, run.clone(), at(100));
        vouching.writing = writing(at(101));
        // The transactions took so long that the rival has stopped meanwhile.
        assert!(!vouching.rests(at(200)) && !vouching.applied());
        assert_eq!(apply(&mut known, &run, at(200)), Some(true));
    }

    #[test]
    fn a_new_connection_to_the_same_run_begins_the_wait_anew() {
        let (mut known, first, second) = (None, run(1, true), run(2, true));
        assert_eq!(apply(&mut known, &first, at(100)), Some(false));
        assert_eq!(apply(&mut known, &second, at(113)), Some(false));
        assert_eq!(apply(&mut known, &second, at(125)), None);
        assert_eq!(apply(&mut known, &second, at(126)), Some(true));
    }

    #[test]
    fn a_run_without_a_rival_is_vouched_for_at_once() {
        assert_eq!(apply(&mut None, &run(1, false), at(100)), Some(true));
    }
}
