use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use rand::Rng;
use tokio::time::sleep;

use super::{
    inner::Inner,
    round::{Failure, Round},
};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, Mode, Ownership},
};

/// How many rounds in a row may be too slow: won too late, or without answers in time. A single slow round can be a
/// process or a server that was stopped for a moment.
const MOST_SLOW: u32 = 3;

/// What the rounds of an attempt have shown so far.
#[derive(Default)]
struct Seen {
    /// How many of the last rounds, without one between them that was not, were too slow.
    slow: u32,
    /// Whether others held the lock in one of the rounds.
    busy: bool,
}

impl Seen {
    fn note(&mut self, failure: &Failure) {
        let is_slow = matches!(failure, Failure::Silent | Failure::Late);
        self.slow = if is_slow { self.slow + 1 } else { 0 };
        self.busy |= matches!(failure, Failure::Busy { .. });
    }

    /// Whether further rounds are of no use after this failure. Waiting brings no servers back, and makes no round trip
    /// shorter. If others held the lock, the attempt goes on waiting for them while servers are away.
    fn is_hopeless(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Busy { .. } => false,
            Failure::Unavailable(_) => !self.busy,
            Failure::Silent => !self.busy && self.slow >= MOST_SLOW,
            Failure::Late => self.slow >= MOST_SLOW,
        }
    }
}

impl Inner {
    /// Runs rounds, with pauses between them, until the lock is granted or the wait is over.
    ///
    /// Redlock has no queue and no notification, so a waiter learns of a release only in its next round.
    pub(super) async fn acquire(self: &Arc<Self>, attempt: &Attempt) -> Result<Arc<Ownership>, LockError> {
        let operation = match attempt.mode {
            Mode::Write => None,
            Mode::Read => Some("shared mode"),
            Mode::Permit => Some("semaphore"),
        };
        if let Some(operation) = operation {
            let instead = "take it exclusively, or use locks on one Redis";
            return Err(LockError::Unsupported { store: "redlock", operation, instead });
        }
        let since = Instant::now();
        let until = (attempt.wait != Duration::MAX).then(|| since + attempt.wait);
        // A shutdown waits for this attempt and for what it leaves to be undone.
        let _running = self.tasks.token();
        join_all(self.nodes.iter().map(|node| node.link.attempted())).await;
        let (mut pauses, mut seen) = (Pauses::new(self), Seen::default());
        loop {
            if self.closing.is_cancelled() {
                return Err(LockError::ShuttingDown);
            }
            let failure = match Round::start(self, attempt)?.run().await {
                Ok(ownership) if self.closing.is_cancelled() => {
                    self.give_back_detached(&ownership);
                    return Err(LockError::ShuttingDown);
                }
                Ok(ownership) => return Ok(ownership),
                Err(failure) => failure,
            };
            seen.note(&failure);
            let (at_once, is_hopeless) = (attempt.wait.is_zero(), seen.is_hopeless(&failure));
            let pause = match &failure {
                Failure::Busy { left } if at_once => return Err(LockError::Busy { remaining: *left }),
                Failure::Unavailable(error) if is_hopeless => return Err(error.clone()),
                Failure::Silent | Failure::Late if at_once || is_hopeless => return Err(self.no_quorum()),
                Failure::Busy { left } => pauses.next(*left),
                Failure::Unavailable(_) | Failure::Silent | Failure::Late => pauses.next(Duration::MAX),
            };
            let left = until.map_or(Duration::MAX, Instant::remaining);
            tokio::select! {
                () = sleep(pause.min(left)) => {}
                () = self.closing.cancelled() => return Err(LockError::ShuttingDown),
            }
            if until.is_some_and(|until| until.remaining().is_zero()) {
                return Err(match failure {
                    Failure::Busy { left } => {
                        let (key, waited) = (attempt.key.clone(), since.elapsed());
                        LockError::Timeout { key, waited, remaining: left.saturating_sub(pause), position: None }
                    }
                    Failure::Unavailable(error) => error,
                    Failure::Silent | Failure::Late => self.no_quorum(),
                });
            }
        }
    }
}

/// Pauses with decorrelated jitter: waiters that collided in one round are unlikely to collide in the next.
struct Pauses {
    shortest: Duration,
    longest: Duration,
    last: Duration,
}

impl Pauses {
    fn new(inner: &Inner) -> Self {
        let (shortest, longest) = (*inner.settings.retry.start(), *inner.settings.retry.end());
        Self { shortest, longest, last: shortest }
    }

    /// The next pause: at most `left`, the time until a quorum is free, plus a random part of the shortest pause.
    fn next(&mut self, left: Duration) -> Duration {
        let mut random = rand::rng();
        let most = (self.last * 3).clamp(self.shortest, self.longest);
        self.last = random.random_range(self.shortest..=most);
        self.last.min(left.saturating_add(random.random_range(Duration::ZERO..=self.shortest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_ends_after_three_slow_rounds_in_a_row_and_waits_for_those_in_its_way() {
        const BUSY: Failure = Failure::Busy { left: Duration::ZERO };
        const AWAY: Failure = Failure::Unavailable(LockError::ShuttingDown);
        use Failure::{Late, Silent};
        for (rounds, ends) in [
            (&[Silent, Late][..], false),
            (&[Silent, Silent, Silent], true),
            (&[Late, Silent, Late], true),
            (&[Late, Late, BUSY, Late, Late], false),
            (&[BUSY, Late, Late, Late], true),
            (&[BUSY, Silent, Silent, Silent, Silent], false),
            (&[AWAY], true),
            (&[BUSY, AWAY], false),
        ] {
            let mut seen = Seen::default();
            let ended: Vec<_> = rounds
                .iter()
                .map(|failure| {
                    seen.note(failure);
                    seen.is_hopeless(failure)
                })
                .collect();
            let at_the_last = rounds.len() - 1;
            assert_eq!(ended.iter().position(|ended| *ended), ends.then_some(at_the_last), "{rounds:?}");
        }
    }
}
