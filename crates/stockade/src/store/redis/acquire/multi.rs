use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    redis::{self, LinkError, Run, believed, evalsha},
    store::{
        Attempt, LockError, Owner, Ownership, Token, Unavailable,
        redis::{
            commands::{
                calls::{self, GRANT},
                replies::Multi as Reply,
            },
            inner::{Inner, unavailable_as},
            release::Sendings,
            scripts::MULTI,
            shard::Shard,
        },
    },
};

/// An attempt on several resources in one script. Dropping it undoes what was sent, for each resource.
pub(crate) struct MultiAttempt<'a> {
    inner: &'a Arc<Inner>,
    attempts: &'a [Attempt],
    owners: Vec<Owner>,
    sendings: Sendings,
}

impl<'a> MultiAttempt<'a> {
    pub(crate) fn new(inner: &'a Arc<Inner>, attempts: &'a [Attempt]) -> Self {
        let owners = attempts.iter().map(|_| inner.new_owner()).collect();
        Self { inner, attempts, owners, sendings: Sendings::default() }
    }

    /// Returns `None` when the resources have to be asked for one by one.
    pub(crate) async fn acquire(mut self) -> Result<Option<Vec<Arc<Ownership>>>, LockError> {
        if self.inner.is_closing() {
            return Err(LockError::ShuttingDown);
        }
        let buckets = self.attempts.iter().map(|attempt| attempt.key.bucket());
        let Some(shard) = self.inner.shards.of_all(buckets) else { return Ok(None) };
        shard.link.attempted().await;
        if let Some(first) = self.attempts.first()
            && self.inner.raise_floor(&shard, first.key.bucket()).await.is_err()
        {
            // The first bucket is enough: resources of several buckets come this far only where no floor has to be told
            // to a node.
            return Ok(None);
        }
        let (mut scripts_lost, mut stale) = (false, false);
        loop {
            let run = shard.run();
            match self.send(&shard).await {
                Ok((sent, Reply::Held(tokens))) => return Ok(self.held(&shard, run, sent, &tokens)),
                Ok((sent, Reply::Taken { now })) => {
                    self.inner.heard(&shard, sent, now);
                    self.sendings.left_nothing();
                    return Ok(None);
                }
                Ok((sent, Reply::Stale { now })) => {
                    self.inner.heard(&shard, sent, now);
                    self.sendings.left_nothing();
                    if stale {
                        let (reason, retry_after) = (Unavailable::Stale, Duration::from_secs(1));
                        return Err(LockError::Unavailable { reason, retry_after });
                    }
                    stale = true;
                }
                // The command was not executed, and the scripts have been loaded again meanwhile.
                Err(LinkError::NoScript) if !scripts_lost => scripts_lost = true,
                Err(error @ (LinkError::Down | LinkError::Open { .. } | LinkError::Unsent { .. })) => {
                    self.sendings.left_nothing();
                    // Each of the attempts that are made next looks for its node as it is known then.
                    if self.inner.shards.may_move() {
                        return Ok(None);
                    }
                    return Err(unavailable_as(&error, shard.link.unfit()));
                }
                Err(error @ (LinkError::Timeout | LinkError::Lost)) => {
                    return Err(unavailable_as(&error, shard.link.unfit()));
                }
                // The step was refused for a reason that may not apply to each resource by itself. What was sent is
                // undone before they are asked for one by one.
                Err(_) => return Ok(None),
            }
        }
    }

    async fn send(&mut self, shard: &Arc<Shard>) -> Result<(Instant, Reply), LinkError> {
        let (attempts, owners) = (self.attempts.to_vec(), self.owners.clone());
        let (sender, stale_after) = (Arc::clone(shard), self.inner.timeout * 2);
        let keys = self.attempts.iter().flat_map(|attempt| self.inner.keys.of(&attempt.key)).collect();
        let make = move |sha: &str| {
            evalsha(sha, keys, calls::multi(&attempts, &owners, sender.state.clock.stamp(), stale_after))
        };
        let wait = self.attempts.iter().map(|attempt| attempt.wait).max().unwrap_or_default();
        let (carrier, redis::Attempt { receipt, reply }) = shard.carried(|link| link.attempt(&MULTI, make, wait, None));
        let longest = self.attempts.iter().map(|attempt| attempt.lease).max().unwrap_or_default();
        // If a command was sent before this one, it was answered: it was not executed.
        self.sendings.was_answered();
        self.sendings.post(&receipt, carrier, longest + Duration::from_secs(15));
        let reply = reply.await;
        self.sendings.note();
        let sent = receipt.sent_at();
        let reply = Reply::read(&reply?, self.attempts.len())?;
        Ok((sent.ok_or(LinkError::Protocol { op: "multi" })?, reply))
    }

    /// Enters, if enough is left of all the leases. Otherwise the resources are given back and asked for again.
    fn held(&mut self, shard: &Arc<Shard>, run: Run, sent: Instant, tokens: &[Token]) -> Option<Vec<Arc<Ownership>>> {
        let enough = |attempt: &Attempt| believed(sent, attempt.lease).remaining() >= attempt.lease.min(GRANT) / 2;
        if !self.attempts.iter().all(enough) {
            return None;
        }
        // The command has led to ownerships, each of which is released by itself.
        self.sendings.end();
        let ownerships = self.attempts.iter().zip(&self.owners).zip(tokens).map(|((attempt, owner), token)| {
            let Attempt { key, mode, lease, .. } = attempt;
            let until = believed(sent, *lease);
            let ownership = Arc::new(Ownership::new(key.clone(), owner.clone(), *mode, *token, *lease, until, None));
            self.inner.floors.note(key, token.get());
            self.inner.held.insert(&ownership, run, None);
            shard.made_token(key.bucket());
            self.inner.shards.listen_behind(shard, key.bucket());
            ownership
        });
        let ownerships = ownerships.collect();
        if shard.run() != run {
            // The link has met another run of the server since, and asked about all other ownerships then.
            self.inner.verify(shard);
        }
        Some(ownerships)
    }
}

impl Drop for MultiAttempt<'_> {
    fn drop(&mut self) {
        let Some(sent) = self.sendings.take() else { return };
        for (attempt, owner) in self.attempts.iter().zip(&self.owners).rev() {
            self.inner.cancel(attempt.key.clone(), owner.clone(), sent, false);
        }
    }
}
