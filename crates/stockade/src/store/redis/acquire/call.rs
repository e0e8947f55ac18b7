use std::{sync::Arc, time::Duration};

use redis::Cmd;
use tokio::time::timeout;

use super::{
    confirm::{Entry, unreplicated},
    waiter::Waiter,
};
use crate::{
    clock::Instant,
    redis::{Attempt, LinkError, Redirects, Run},
    store::{
        LockError, Ownership, Unavailable,
        redis::{
            commands::{
                calls::Asking,
                replies::{Acquired, Place},
            },
            release::Posted,
            scripts::ACQUIRE,
            server_clock::{believed, believed_until},
            shard::Shard,
        },
    },
};

/// What is left of a wait that is as good as over: one that has begun to wait never becomes one that doesn't.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// What a question led to.
pub(crate) enum AcquireOutcome {
    Held(Arc<Ownership>),
    Queued,
    Refused(LockError),
    /// Perhaps executed, perhaps not.
    Unknown(LockError),
}

/// Whether replicas have a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// As many as are wanted, which may be none.
    Enough,
    TooFew,
    /// They were not asked.
    Unknown,
}

impl Waiter {
    /// Sends the attempt, again or for the first time, with the place it has.
    pub(crate) async fn ask(&mut self) -> AcquireOutcome {
        let (mut scripts_lost, mut stale) = (false, false);
        self.put_off();
        let mut redirects = Redirects::new(&self.inner.shards, self.until);
        loop {
            self.cleared = match self.quarantined().await {
                Ok(run) => run,
                Err(error) => return AcquireOutcome::Refused(error),
            };
            let (shard, sent, reply, copies) = match self.send().await {
                Ok(reply) => reply,
                // Not executed, and loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => {
                    scripts_lost = true;
                    continue;
                }
                Err(error)
                    if redirects.follow(&self.inner.shards, &error).await
                        || redirects.reconnect(&self.inner.shards, &error).await =>
                {
                    continue;
                }
                Err(error) => {
                    self.inner.shards.suspect(&error);
                    return match self.inner.explain(&self.attempt.key, &error).await {
                        foreign @ LockError::Foreign { .. } => AcquireOutcome::Refused(foreign),
                        error => AcquireOutcome::Unknown(error),
                    };
                }
            };
            return match reply {
                // Dropping the attempt gives it back.
                Acquired::Free { .. } | Acquired::Granted { .. } if copies == Copies::TooFew => {
                    AcquireOutcome::Refused(unreplicated())
                }
                Acquired::Free { token } => {
                    let (until, replicated) = (believed(sent, self.attempt.lease), copies == Copies::Enough);
                    self.held(token, Entry { until, handed_off: None, replicated, wanted: false }).await
                }
                Acquired::Granted { token, x, now, place, wanted } => {
                    self.told(&shard, sent, now);
                    self.found(place, now);
                    let (until, replicated) = (believed_until(sent, now, x), copies == Copies::Enough);
                    self.held(token, Entry { until, handed_off: None, replicated, wanted }).await
                }
                Acquired::Queued { seq, remaining, now, position, place } => {
                    self.told(&shard, sent, now);
                    self.found(place, now);
                    self.confirmed = Some(sent);
                    self.seq = seq;
                    self.remaining = remaining;
                    self.position = Some(position);
                    if let Some(readers) = &self.attempt.yields {
                        readers.queued(position, remaining);
                    }
                    if !shard.hears(self.attempt.key.bucket()) {
                        // The connection changed in between.
                        continue;
                    }
                    AcquireOutcome::Queued
                }
                Acquired::Busy { remaining, now, yields } => {
                    self.told(&shard, sent, now);
                    self.left_nothing();
                    self.yields = yields;
                    if !self.attempt.wait.is_zero() {
                        // It has only knocked.
                        continue;
                    }
                    AcquireOutcome::Refused(LockError::Busy { remaining })
                }
                Acquired::Full { waiters, remaining, now } => {
                    self.told(&shard, sent, now);
                    self.left_nothing();
                    AcquireOutcome::Refused(LockError::QueueFull {
                        waiters,
                        position: waiters.saturating_add(1),
                        remaining,
                    })
                }
                Acquired::Capacity { present, now } => {
                    self.told(&shard, sent, now);
                    self.left_nothing();
                    AcquireOutcome::Refused(LockError::Capacity { asked: self.attempt.permits, present })
                }
                Acquired::Stale { now } => {
                    self.told(&shard, sent, now);
                    if !stale {
                        stale = true;
                        continue;
                    }
                    let retry_after = Duration::from_secs(1);
                    AcquireOutcome::Unknown(LockError::Unavailable { reason: Unavailable::Stale, retry_after })
                }
            };
        }
    }

    /// The last sending has left nothing at the server. An earlier one, on a connection that is gone, may still arrive.
    fn left_nothing(&mut self) {
        self.sent = self.sent.take().filter(|sent| sent.stray.is_some());
    }

    fn told(&self, shard: &Shard, sent: Instant, now: u64) {
        self.inner.heard(shard, sent, now);
        self.mailbox.answered(now);
    }

    fn found(&self, place: Place, now: u64) {
        if let (Place::Gone, Some(poker)) = (place, &self.poker) {
            poker.displaced(self.confirmed, now);
        }
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
            self.inner.shards.listen(shard, bucket).await?;
        }
        // One that has begun to wait never becomes one that doesn't.
        Ok(self.until.map(|until| until.remaining().max(LEAST_WAIT)))
    }

    /// Waits until the run of the server has served for as long as the quarantine is. Which run that is; `None` while the
    /// server is away.
    async fn quarantined(&self) -> Result<Option<Run>, LockError> {
        let quarantine = self.inner.options.quarantine;
        loop {
            let shard = self.inner.shard(&self.attempt.key).ok().filter(|shard| shard.link.is_up());
            // The run first: had another begun in between, it would not be the one that is asked.
            let run = shard.as_ref().map(|shard| shard.run());
            let left = shard.map_or(Duration::ZERO, |shard| quarantine.saturating_sub(shard.state.has_served()));
            if left.is_zero() {
                return Ok(run);
            }
            if self.attempt.wait.is_zero() {
                return Err(LockError::Busy { remaining: left });
            }
            if self.inner.is_closing() {
                return Err(LockError::ShuttingDown);
            }
            let limit = self.until.map_or(left, |until| until.remaining().min(left));
            if limit.is_zero() {
                let (key, waited, position) = (self.attempt.key.clone(), self.since.elapsed(), self.position);
                return Err(LockError::Timeout { key, waited, remaining: left, position });
            }
            // Whatever wakes it stays in the mailbox.
            let _ = timeout(limit, self.mailbox.wait()).await;
        }
    }

    async fn send(&mut self) -> Result<(Arc<Shard>, Instant, Acquired, Copies), LinkError> {
        let inner = Arc::clone(&self.inner);
        let shard = inner.shard(&self.attempt.key)?;
        shard.raise_floor(&inner, self.attempt.key.bucket()).await?;
        let wait = self.wait_at(&shard).await?;
        if self.run.server != shard.id {
            self.mailbox.elsewhere();
        }
        self.mailbox.asking();
        self.run = shard.run();
        if !inner.options.quarantine.is_zero() && shard.link.is_up() && self.cleared != Some(self.run) {
            // Another run than the one that has served for long enough: to be looked at, too.
            return Err(LinkError::Moving);
        }
        let command = self.command(&shard, wait);
        let place = match self.attempt.wait.is_zero() {
            true => Duration::ZERO,
            false => self.until.map_or(Duration::MAX, |until| until.remaining().max(LEAST_WAIT)),
        };
        // What an earlier sending led to was perhaps written by somebody else: that is confirmed by a renewal.
        let replicas = inner.options.replicas.filter(|_| self.sent.is_none());
        let hears = shard.hears(self.attempt.key.bucket());
        let (carrier, Attempt { receipt, reply, copies }) =
            shard.carried(|link| link.attempt(&ACQUIRE, command, place, replicas));
        self.heard = carrier.filter(|_| hears);
        // A lease, or a place in the queue, which outlives its wait by some seconds.
        let longest = self.attempt.lease.max(wait.unwrap_or(Duration::from_secs(60))) + Duration::from_secs(15);
        self.posted = Some(Posted::new(&receipt, carrier, longest));
        let reply = reply.await;
        if reply.as_ref().err().is_some_and(LinkError::is_never_executed) {
            // As if this one had never been sent; an earlier one may have been executed all the same.
            self.posted = None;
        }
        self.note_sending();
        let reply = Acquired::read(&reply?)?;
        self.answered = true;
        let mut enough = Copies::Unknown;
        if let Acquired::Free { .. } | Acquired::Granted { .. } = reply {
            shard.made_token(self.attempt.key.bucket());
            enough = match copies {
                Some(copies) => match copies.await {
                    Ok(true) => Copies::Enough,
                    Ok(false) | Err(_) => Copies::TooFew,
                },
                None if inner.options.replicas.is_none() => Copies::Enough,
                None => Copies::Unknown,
            };
        }
        let sent = receipt.sent_at().ok_or(LinkError::Protocol { op: "acquire" })?;
        Ok((shard, sent, reply, enough))
    }

    /// What is sent, made at its sending: it says when that is, and what is left of the wait by then.
    fn command(&self, shard: &Arc<Shard>, wait: Option<Duration>) -> impl FnOnce(&str) -> Cmd + Send + 'static + use<> {
        let (inner, attempt, owner, seq) =
            (Arc::clone(&self.inner), self.attempt.clone(), self.owner.clone(), self.seq);
        let handing = shard.handing(&self.inner.keys, attempt.key.bucket());
        let (shard, until, stale_after) = (Arc::clone(shard), self.until, self.inner.timeout * 2);
        move |sha| {
            let left = |wait: Duration| until.map_or(wait, |until| until.remaining().max(LEAST_WAIT));
            let wait = wait.map(|wait| if wait.is_zero() { wait } else { left(wait) });
            let stamp = shard.state.clock.stamp();
            let asking = Asking { attempt: &attempt, owner: &owner, wait, seq, stamp, stale_after };
            asking.command(sha, &inner.keys, &handing)
        }
    }
}
