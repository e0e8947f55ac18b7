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
        let (mut pauses, mut slow, mut busy) = (Pauses::new(self), 0, false);
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
            slow = if matches!(failure, Failure::Silent | Failure::Late) { slow + 1 } else { 0 };
            busy |= matches!(failure, Failure::Busy { .. });
            let pause = match &failure {
                Failure::Busy { left } if attempt.wait.is_zero() => return Err(LockError::Busy { remaining: *left }),
                // Waiting does not bring servers back: a caller that nobody is in the way of gets the error at once.
                Failure::Unavailable(error) if !busy => return Err(error.clone()),
                Failure::Silent if !busy && slow >= MOST_SLOW => return Err(self.no_quorum()),
                // The round trips are too long for this lease.
                Failure::Late if slow >= MOST_SLOW => return Err(self.no_quorum()),
                Failure::Silent | Failure::Late if attempt.wait.is_zero() => return Err(self.no_quorum()),
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
        Self { shortest, longest: longest.max(shortest), last: shortest }
    }

    /// The next pause: at most `left`, the time until a quorum is free, plus a random part of the shortest pause.
    fn next(&mut self, left: Duration) -> Duration {
        let mut random = rand::rng();
        let most = (self.last * 3).clamp(self.shortest, self.longest);
        self.last = random.random_range(self.shortest..=most);
        self.last.min(left.saturating_add(random.random_range(Duration::ZERO..=self.shortest)))
    }
}
