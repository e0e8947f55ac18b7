use std::{sync::Arc, time::Duration};

use super::{
    calls::Asking,
    compensation::Sent,
    inner::unavailable,
    redirects::Redirects,
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
        let mut redirects = Redirects::new(&self.inner, self.until);
        loop {
            let (shard, sent, reply) = match self.send().await {
                Ok(reply) => reply,
                // Not executed, and loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => {
                    scripts_lost = true;
                    continue;
                }
                Err(error)
                    if redirects.follow(&self.inner, &error).await
                        || redirects.reconnect(&self.inner, &error).await =>
                {
                    continue;
                }
                Err(error) => {
                    self.inner.shards.suspect(&error);
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
                    if !shard.hears(self.attempt.key.bucket()) {
                        // The connection changed in between.
                        continue;
                    }
                    Answer::Queued
                }
                Acquired::Busy { remaining, now } => {
                    self.told(&shard, sent, now);
                    self.sent = None;
                    if !self.attempt.wait.is_zero() {
                        // It has only knocked.
                        continue;
                    }
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

    /// How long to queue; `None` without limit.
    ///
    /// In a cluster no grant would reach the first attempt of this process in a bucket. It knocks: it asks without
    /// queueing, and has a free resource at once, whose holder subscribes to the inbox of the bucket in the background.
    /// Only when the resource is held it subscribes first and then asks again to be queued. So no lock waits for a
    /// subscription that it does not need, and the first contention of each bucket costs one question more, once.
    async fn wait_at(&mut self, shard: &Shard) -> Result<Option<Duration>, LinkError> {
        let bucket = self.attempt.key.bucket();
        if self.attempt.wait.is_zero() {
            return Ok(Some(Duration::ZERO));
        }
        if !shard.hears(bucket) {
            let first = self.seq == 0 && self.sent.is_none();
            if first && !std::mem::replace(&mut self.knocked, true) {
                return Ok(Some(Duration::ZERO));
            }
            shard.listen(&self.inner, bucket).await?;
        }
        // One that has begun to wait never becomes one that doesn't.
        Ok(self.until.map(|until| until.remaining().max(Duration::from_millis(1))))
    }

    async fn send(&mut self) -> Result<(Arc<Shard>, Instant, Acquired), LinkError> {
        let inner = Arc::clone(&self.inner);
        let shard = inner.shard(&self.attempt.key)?;
        shard.raise_floor(&inner, self.attempt.key.bucket()).await?;
        let wait = self.wait_at(&shard).await?;
        let asking = Asking {
            attempt: &self.attempt,
            owner: &self.owner,
            wait,
            seq: self.seq,
            stamp: shard.clock.stamp(),
            stale_after: inner.timeout * 2,
        };
        if self.run.shard != shard.id {
            self.cell.elsewhere();
        }
        self.cell.asking();
        self.run = shard.run();
        let args = asking.args(&shard.handing(&inner.keys, self.attempt.key.bucket()));
        let keys = inner.keys.of(&self.attempt.key);
        let sent = Instant::now();
        let (carrier, reply) = shard.carried(|link| link.call(&ACQUIRE, keys, args));
        // A lease, or a place in the queue, which outlives its wait by some seconds.
        let longest = self.attempt.lease.max(wait.unwrap_or(Duration::from_secs(60))) + Duration::from_secs(15);
        let before = (self.sent, self.answered);
        let earlier = self.sent.map(|sent| (sent, self.answered));
        self.sent = Some(Sent::new(sent, carrier, sent + longest, earlier));
        self.answered = false;
        let reply = reply.await;
        if let Err(LinkError::Moved | LinkError::Moving) = reply {
            // As if it had never been sent.
            (self.sent, self.answered) = before;
        }
        let reply = Acquired::read(&reply?)?;
        self.answered = true;
        if let Acquired::Free { .. } | Acquired::Granted { .. } = reply {
            shard.made_token(self.attempt.key.bucket());
        }
        Ok((shard, sent, reply))
    }
}
