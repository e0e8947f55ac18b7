use std::{sync::Arc, time::Duration};

use super::{
    calls::Asking,
    compensation::Sent,
    inner::unavailable,
    replies::Acquired,
    sample::{believed, believed_until},
    scripts::ACQUIRE,
    shard::Shard,
    waiter::Waiter,
};
use crate::{
    clock::Instant,
    redis::LinkError,
    store::{LockError, Ownership, Unavailable},
};

/// What a question led to.
pub(super) enum Answer {
    Held(Arc<Ownership>),
    Queued,
    Refused(LockError),
    /// Perhaps executed, perhaps not.
    Unknown(LockError),
}

impl Waiter {
    /// Sends the attempt, again or for the first time, with the place it has.
    pub(super) async fn ask(&mut self) -> Answer {
        let (mut scripts_lost, mut stale) = (false, false);
        loop {
            let (shard, sent, reply) = match self.send().await {
                Ok(reply) => reply,
                // Not executed, and loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => {
                    scripts_lost = true;
                    continue;
                }
                Err(error) => {
                    let never_sent = matches!(error, LinkError::Down | LinkError::Open { .. });
                    if never_sent && self.seq == 0 && !stale && !scripts_lost {
                        self.sent = None;
                    }
                    return Answer::Unknown(unavailable(&error));
                }
            };
            return match reply {
                Acquired::Free { token } => self.held(token, believed(sent, self.attempt.lease), None).await,
                Acquired::Granted { token, x, now } => {
                    self.told(&shard, sent, now);
                    self.held(token, believed_until(sent, now, x), None).await
                }
                Acquired::Queued { seq, remaining, now, position } => {
                    self.told(&shard, sent, now);
                    self.seq = seq;
                    self.remaining = remaining;
                    self.position = Some(position);
                    Answer::Queued
                }
                Acquired::Busy { remaining, now } => {
                    self.told(&shard, sent, now);
                    self.sent = None;
                    Answer::Refused(LockError::Busy { remaining })
                }
                Acquired::Full { waiters, remaining, now } => {
                    self.told(&shard, sent, now);
                    self.sent = None;
                    Answer::Refused(LockError::QueueFull { waiters, position: waiters.saturating_add(1), remaining })
                }
                Acquired::Capacity { present, now } => {
                    self.told(&shard, sent, now);
                    self.sent = None;
                    Answer::Refused(LockError::Capacity { asked: self.attempt.permits, present })
                }
                Acquired::Stale { now } => {
                    self.told(&shard, sent, now);
                    if !stale {
                        stale = true;
                        continue;
                    }
                    let retry_after = Duration::from_secs(1);
                    Answer::Unknown(LockError::Unavailable { reason: Unavailable::Stale, retry_after })
                }
            };
        }
    }

    fn told(&self, shard: &Shard, sent: Instant, now: u64) {
        shard.clock.note(sent, now);
        self.cell.answered(now);
    }

    async fn send(&mut self) -> Result<(Arc<Shard>, Instant, Acquired), LinkError> {
        let inner = Arc::clone(&self.inner);
        let shard = inner.shard(&self.attempt.key)?;
        let wait = match self.until {
            None => None,
            Some(_) if self.attempt.wait.is_zero() => Some(Duration::ZERO),
            // One that has begun to wait never becomes one that doesn't.
            Some(until) => Some(until.remaining().max(Duration::from_millis(1))),
        };
        let asking = Asking {
            attempt: &self.attempt,
            owner: &self.owner,
            wait,
            seq: self.seq,
            stamp: shard.clock.stamp(),
            stale_after: inner.timeout * 2,
        };
        self.cell.asking();
        self.run = shard.run();
        let args = asking.args(&shard.handing(&inner.keys));
        let keys = inner.keys.of(&self.attempt.key);
        let sent = Instant::now();
        let (carrier, reply) = shard.carried(|link| link.call(&ACQUIRE, keys, args));
        // A lease, or a place in the queue, which outlives its wait by some seconds.
        let longest = self.attempt.lease.max(wait.unwrap_or(Duration::from_secs(60))) + Duration::from_secs(15);
        let before = self.sent.map(|before| (before, self.answered));
        self.sent = Some(Sent::new(sent, carrier, sent + longest, before));
        self.answered = false;
        let reply = Acquired::read(&reply.await?)?;
        self.answered = true;
        Ok((shard, sent, reply))
    }
}
