//! Changes that do not end an ownership: a writer goes on as a reader, or another process takes the ownership over.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::sleep;

use crate::{
    clock::Instant,
    redis::{self, LinkError, Run, believed, believed_until, evalsha},
    resource::Key,
    store::{
        Handed, LockError, Mode, Owner, Ownership, Unavailable,
        redis::{
            commands::{
                calls,
                replies::{Adopted, Renewed},
            },
            inner::Inner,
            release::Sendings,
            scripts::{ADOPT, DOWNGRADE},
            shard::Shard,
        },
    },
};

/// The pause before a command whose reply was lost is repeated.
const PAUSE: Duration = Duration::from_millis(10);

impl Inner {
    /// Repeats the command within the command timeout if its reply is lost. If the first command was executed, the
    /// second one finds the ownership shared, and renews it.
    pub(crate) async fn downgrade(&self, ownership: &Arc<Ownership>) -> Result<(), LockError> {
        let limit = Instant::now() + self.timeout;
        let before = (ownership.mode(), ownership.is_between_modes());
        // Set before the command is sent, because readers may be in from then on.
        ownership.set_mode(Mode::Read);
        ownership.set_between_modes(true);
        let (mut executed, mut scripts_lost) = (false, false);
        loop {
            let error = match self.share(ownership).await {
                Ok(shared) => return shared,
                Err(error) => error,
            };
            executed |= !error.is_never_executed() && !matches!(error, LinkError::NoScript);
            self.shards.suspect(&error);
            if matches!(error, LinkError::NoScript) && !scripts_lost {
                scripts_lost = true;
            } else if limit.remaining().is_zero() {
                if !executed {
                    ownership.set_mode(before.0);
                    ownership.set_between_modes(before.1);
                }
                return Err(self.explain(&ownership.key, &error).await);
            } else {
                sleep(PAUSE).await;
            }
        }
    }

    /// Has the server share the ownership, and begin its lease again. It may be shared already. The outer error: the
    /// server did not say whether it did.
    pub(super) async fn share(&self, ownership: &Arc<Ownership>) -> Result<Result<(), LockError>, LinkError> {
        let shard = self.shard(&ownership.key)?;
        let Ownership { key, owner, token, lease, .. } = &**ownership;
        let args = calls::downgrade(owner, *token, *lease, &shard.handing(&self.keys, key.bucket()));
        let (sent, run) = (Instant::now(), shard.run());
        let reply = shard.link.call(&DOWNGRADE, self.keys.of(key), args).await?;
        let renewed = Renewed::read(&reply).ok_or(LinkError::Protocol { op: "downgrade" })?;
        self.heard(&shard, sent, renewed.now());
        match renewed {
            Renewed::Extended { .. } => {
                ownership.extend(believed(sent, ownership.lease));
                ownership.downgraded();
                self.held.confirmed(&ownership.owner, run);
            }
            // A forced release lets its lease run out.
            Renewed::Ending { .. } => {}
            Renewed::Gone { .. } => {
                self.gone(ownership, run);
                return Ok(Err(ownership.lost_error()));
            }
        }
        ownership.set_between_modes(false);
        Ok(Ok(()))
    }

    /// Ends the ownership in this process, and returns what another process needs to take it over. If most of the lease
    /// is over, it begins again: of a lock that was just handed off, the store has a short grant only.
    pub(crate) fn hand_over(self: &Arc<Self>, ownership: &Ownership) -> Result<Handed, LockError> {
        if ownership.is_between_modes() {
            // An adoption names the mode. If the store has the other mode, nobody can adopt the lock.
            return Err(LockError::Unavailable { reason: Unavailable::Timeout, retry_after: self.timeout });
        }
        let stray = self.held.stray(&ownership.owner).map(|at| self.settled(at).remaining());
        if let Some(retry_after) = stray.filter(|left| !left.is_zero()) {
            // An acquire command that arrives late would find another owner, and acquire the resource for nobody.
            return Err(LockError::Unavailable { reason: Unavailable::Stale, retry_after });
        }
        self.held.hand_over(&ownership.owner);
        let handed = Handed::of(ownership);
        if ownership.deadline().remaining() < ownership.lease / 2 {
            let (inner, Handed { key, owner, token, lease, .. }) = (Arc::clone(self), handed.clone());
            let end = ownership.deadline();
            let mut renewal = Box::pin(async move {
                // After the adoption it finds another owner, and changes nothing.
                while inner.renew_one(&key, &owner, token, lease).await.is_err() && !end.remaining().is_zero() {
                    sleep(PAUSE).await;
                }
            });
            // Queued at once, since the caller may pass the lock on and end its process. It may be in no runtime.
            let _entered = self.runtime.enter();
            if (&mut renewal).now_or_never().is_none() {
                self.spawn(renewal);
            }
        }
        Ok(handed)
    }

    pub(crate) async fn adopt(self: &Arc<Self>, handed: &Handed) -> Result<Arc<Ownership>, LockError> {
        if self.is_closing() {
            return Err(LockError::ShuttingDown);
        }
        let owner = self.new_owner();
        Adoption { inner: Arc::clone(self), key: handed.key.clone(), owner, sendings: Sendings::default() }
            .run(handed)
            .await
    }
}

/// An adoption under way. Dropping it gives back what it may have adopted.
struct Adoption {
    inner: Arc<Inner>,
    key: Key,
    owner: Owner,
    sendings: Sendings,
}

impl Adoption {
    async fn run(mut self, handed: &Handed) -> Result<Arc<Ownership>, LockError> {
        self.inner.shards.attempted(self.key.bucket(), self.inner.timeout).await;
        let limit = Instant::now() + self.inner.timeout;
        let (mut stale, mut scripts_lost) = (false, false);
        loop {
            let error = match self.ask(handed).await {
                Ok((shard, run, sent, Adopted::Held { token, x, now })) => {
                    self.inner.heard(&shard, sent, now);
                    let ownership = handed.ownership(self.owner.clone(), token, believed_until(sent, now, x));
                    return Ok(self.adopted(ownership, &shard, run));
                }
                Ok((.., Adopted::Gone)) => {
                    self.sendings.left_nothing();
                    return Err(LockError::HandoverVoid);
                }
                Ok((shard, _, sent, Adopted::Stale { now })) => {
                    self.inner.heard(&shard, sent, now);
                    if stale {
                        let retry_after = Duration::from_secs(1);
                        return Err(LockError::Unavailable { reason: Unavailable::Stale, retry_after });
                    }
                    stale = true;
                    continue;
                }
                Err(error) => error,
            };
            self.inner.shards.suspect(&error);
            if matches!(error, LinkError::NoScript) && !scripts_lost {
                scripts_lost = true;
            } else if limit.remaining().is_zero() {
                return Err(self.inner.explain(&self.key, &error).await);
            } else {
                sleep(PAUSE).await;
            }
        }
    }

    async fn ask(&mut self, handed: &Handed) -> Result<(Arc<Shard>, Run, Instant, Adopted), LinkError> {
        let shard = self.inner.shard(&self.key)?;
        let (run, stale_after) = (shard.run(), self.inner.timeout * 2);
        let (owner, sender) = (self.owner.clone(), Arc::clone(&shard));
        let adopted = handed.clone();
        let keys = self.inner.keys.of(&self.key);
        let make = move |sha: &str| {
            evalsha(sha, keys, calls::adopt(&owner, &adopted, sender.state.clock.stamp(), stale_after))
        };
        let (carrier, redis::Attempt { receipt, reply, .. }) =
            shard.carried(|link| link.attempt(&ADOPT, make, Duration::ZERO, None));
        self.sendings.post(&receipt, carrier, handed.lease + Duration::from_secs(15));
        let reply = reply.await;
        self.sendings.note();
        let adopted = Adopted::read(&reply?)?;
        self.sendings.was_answered();
        let at = receipt.sent_at().ok_or(LinkError::Protocol { op: "adopt" })?;
        Ok((shard, run, at, adopted))
    }

    fn adopted(&mut self, ownership: Ownership, shard: &Arc<Shard>, run: Run) -> Arc<Ownership> {
        let ownership = Arc::new(ownership);
        self.inner.floors.note(&self.key, ownership.token.get());
        self.inner.held.insert(&ownership, run, self.sendings.end());
        if shard.run() != run {
            // The link has met another run of the server since, and asked about all other ownerships then.
            self.inner.verify(shard);
        }
        self.inner.shards.listen_behind(shard, self.key.bucket());
        ownership
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        if let Some(sent) = self.sendings.take() {
            self.inner.cancel(self.key.clone(), self.owner.clone(), sent, false);
        }
    }
}
