use std::{sync::Arc, time::Duration};

use redis::Cmd;

use super::{
    state::{Answer, Reply},
    waiter::Waiter,
};
use crate::{
    redis::{Attempt, LinkError, Redirects},
    store::{
        LockError,
        redis::{
            commands::{
                calls::{self, Asking},
                replies::Acquired,
            },
            scripts::ACQUIRE,
            shard::Shard,
        },
    },
};

/// A wait without limit is entered in the queue for a minute.
const QUEUED_FOR: Duration = Duration::from_secs(60);
/// At the server nothing of an attempt outlives the longer of its wait and its lease by more than this.
const OUTLIVES: Duration = Duration::from_secs(15);

impl Waiter {
    /// Sends the attempt with the place it has.
    pub(super) async fn send(&mut self, redirects: &mut Redirects) -> Answer {
        match self.exchange().await {
            Ok((shard, reply)) => {
                self.note(&shard, &reply);
                Answer::Reply(reply)
            }
            Err(error @ LinkError::NoScript) => Answer::ScriptsLost(self.inner.unavailable(&self.attempt.key, &error)),
            Err(error)
                if redirects.follow(&self.inner.shards, &error).await
                    || redirects.reconnect(&self.inner.shards, self.attempt.key.bucket(), &error).await =>
            {
                Answer::Redirected
            }
            Err(error) => {
                self.inner.shards.suspect(&error);
                match self.inner.explain(&self.attempt.key, &error).await {
                    foreign @ LockError::Foreign { .. } => Answer::Refused(foreign),
                    error => Answer::Unknown(error),
                }
            }
        }
    }

    /// Tells the other parts of the store what a reply says.
    fn note(&mut self, shard: &Shard, Reply { reply, sent, .. }: &Reply) {
        if let Some(now) = reply.now() {
            self.inner.heard(shard, *sent, now);
            self.mailbox.answered(now);
            if reply.lost_its_place() {
                self.inner.throttle.place_lost(&self.attempt.key, self.place.confirmed, now);
            }
        }
        match (reply, &self.attempt.yields) {
            (Acquired::Queued { position, remaining, .. }, Some(readers)) => readers.queued(*position, *remaining),
            (Acquired::Busy { .. } | Acquired::Full { .. } | Acquired::Capacity { .. }, _) => {
                self.sendings.left_nothing();
            }
            _ => {}
        }
    }

    /// How long to queue. `None` is a wait without limit.
    ///
    /// In a cluster no grant would reach the first attempt of this process in a bucket, so that attempt knocks: it asks
    /// without queueing. If the resource is free, the attempt has it at once, and the process subscribes to the inbox
    /// of the bucket in the background. If the resource is held, the attempt subscribes first and then asks again to be
    /// queued. So no lock waits for a subscription that it does not need. The first contention of each bucket costs one
    /// more question, once.
    async fn wait_at(&mut self, shard: &Shard) -> Result<Option<Duration>, LinkError> {
        let bucket = self.attempt.key.bucket();
        if self.attempt.wait.is_zero() {
            return Ok(Some(Duration::ZERO));
        }
        if !shard.hears(bucket) {
            let first = self.place.seq == 0 && self.sendings.is_empty();
            if first && !std::mem::replace(&mut self.server.knocked, true) {
                return Ok(Some(Duration::ZERO));
            }
            self.inner.shards.listen(shard, bucket).await?;
        }
        Ok(self.limit.left())
    }

    async fn exchange(&mut self) -> Result<(Arc<Shard>, Reply), LinkError> {
        let inner = Arc::clone(&self.inner);
        let (shard, bucket) = (inner.shard(&self.attempt.key)?, self.attempt.key.bucket());
        inner.raise_floor(&shard, bucket).await?;
        let wait = self.wait_at(&shard).await?;
        self.turn_to(&shard);
        let Attempt { receipt, reply } = self.post(&shard, wait);
        let reply = reply.await;
        if reply.as_ref().err().is_some_and(LinkError::is_never_executed) {
            // This command counts as never sent. An earlier one may still have been executed.
            self.sendings.was_never_executed();
        }
        self.sendings.note();
        let reply = Acquired::read(&reply?)?;
        self.sendings.was_answered();
        if let Acquired::Free { .. } | Acquired::Granted { .. } = &reply {
            shard.made_token(bucket);
        }
        let sent = receipt.sent_at().ok_or(LinkError::Protocol { op: "acquire" })?;
        let hears = shard.hears(bucket);
        Ok((shard, Reply { reply, sent, hears }))
    }

    /// Records that the next command goes to this server, and that the messages which made it necessary are dealt with.
    fn turn_to(&mut self, shard: &Shard) {
        if self.server.asked.server != shard.id {
            self.mailbox.elsewhere();
        }
        self.mailbox.asking();
        self.server.asked = shard.run();
    }

    fn post(&mut self, shard: &Arc<Shard>, wait: Option<Duration>) -> Attempt {
        let command = self.command(shard, wait);
        let place = match self.attempt.wait.is_zero() {
            true => Duration::ZERO,
            false => self.limit.left().unwrap_or(Duration::MAX),
        };
        // The keys of a cluster are in different slots.
        let joins = (!shard.is_partial()).then(|| calls::acquires(&self.attempt));
        let hears = shard.hears(self.attempt.key.bucket());
        let (carrier, attempt) = shard.carried(|link| link.attempt(&ACQUIRE, command, place, joins));
        self.server.heard_on = carrier.filter(|_| hears);
        let longest = self.attempt.lease.max(wait.unwrap_or(QUEUED_FOR)) + OUTLIVES;
        self.sendings.post(&attempt.receipt, carrier, longest);
        attempt
    }

    /// Makes the command at the time it is sent, because the command says when that is, and what is left of the wait by
    /// then.
    fn command(&self, shard: &Arc<Shard>, wait: Option<Duration>) -> impl FnOnce(&str) -> Cmd + Send + 'static + use<> {
        let (inner, attempt, owner, seq) =
            (Arc::clone(&self.inner), self.attempt.clone(), self.owner.clone(), self.place.seq);
        let (shard, limit, stale_after) = (Arc::clone(shard), self.limit, self.inner.timeout * 2);
        move |sha| {
            let wait = wait.map(|wait| if wait.is_zero() { wait } else { limit.left().unwrap_or(wait) });
            let stamp = shard.state.clock.stamp();
            let handing = shard.handing(&inner.keys, attempt.key.bucket());
            let asking = Asking { attempt: &attempt, owner: &owner, wait, seq, stamp, stale_after };
            asking.command(sha, &inner.keys, &handing)
        }
    }
}
