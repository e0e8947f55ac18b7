use std::{sync::Arc, time::Duration};

use super::{
    floor::{minted, tokens_exhausted},
    lock::{Asker, Holder, Kind, Place, Waiter},
    table::Table,
};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, Ownership},
};

/// The result of an attempt that was not refused.
#[derive(Debug)]
pub(super) enum Entered {
    Held(Arc<Ownership>),
    Queued(Place),
}

/// What a waiter finds in the table after it was woken.
#[derive(Debug)]
pub(super) enum Settled {
    Held(Arc<Ownership>),
    Waiting,
    Closed,
}

impl Table {
    /// Grants the attempt if its resource is free, and otherwise gives it a place in the queue.
    pub(super) fn enter(&mut self, now: Instant, asker: &Asker, attempt: &Attempt) -> Result<Entered, LockError> {
        if self.closed {
            return Err(LockError::ShuttingDown);
        }
        let kind = Kind::of(attempt);
        let lock = self.locks.get_mut(&attempt.key);
        if let Kind::Permit(asked) = kind
            && let Some(present) = lock.as_ref().and_then(|lock| lock.capacity()).filter(|present| *present != asked)
        {
            return Err(LockError::Capacity { asked, present });
        }
        if let Some(lock) = lock.filter(|lock| !lock.queue.is_empty() || !lock.admits(kind)) {
            let place = lock.enqueue(now, self.next_seq, asker, attempt)?;
            self.next_seq += 1;
            return Ok(Entered::Queued(place));
        }
        let token = minted(&self.floors, &attempt.key).ok_or_else(tokens_exhausted)?;
        let mut holder = Holder::new(asker, token, now, attempt.lease, Arc::clone(&attempt.tag));
        let ownership = owned(asker, attempt, &holder, None);
        holder.ownership = Some(Arc::clone(&ownership));
        self.hold(&attempt.key, kind, asker, holder);
        Ok(Entered::Held(ownership))
    }

    /// Takes all of these resources if all of them are free, and otherwise none.
    pub(super) fn enter_all(
        &mut self,
        now: Instant,
        askers: &[Asker],
        attempts: &[Attempt],
    ) -> Result<Option<Vec<Arc<Ownership>>>, LockError> {
        // A resource that nobody holds or waits for has no entry.
        if !self.closed && attempts.iter().any(|attempt| self.locks.contains_key(&attempt.key)) {
            return Ok(None);
        }
        let mut entered = Vec::with_capacity(attempts.len());
        for (asker, attempt) in askers.iter().zip(attempts) {
            match self.enter(now, asker, attempt) {
                Ok(Entered::Held(ownership)) => entered.push(ownership),
                // Two of the attempts name the same resource: all are withdrawn.
                Ok(Entered::Queued(place)) => {
                    self.release(now, &attempt.key, &asker.owner, Some(&place));
                    self.leave_all(now, &entered);
                    return Ok(None);
                }
                Err(error) => {
                    self.leave_all(now, &entered);
                    return Err(error);
                }
            }
        }
        Ok(Some(entered))
    }

    fn leave_all(&mut self, now: Instant, entered: &[Arc<Ownership>]) {
        for ownership in entered {
            self.release(now, &ownership.key, &ownership.owner, None);
        }
    }

    /// Enters the waiter's grant, if it has one. If the grant expired before the waiter woke, the waiter gets its old
    /// place in the queue back.
    pub(super) fn settle(&mut self, now: Instant, asker: &Asker, attempt: &Attempt, place: &Place) -> Settled {
        let holder = self.locks.get_mut(&attempt.key).and_then(|lock| lock.holders.get_mut(&asker.owner));
        if let Some(holder) = holder {
            if !holder.runs_out {
                self.leases.extend(&mut holder.ends, asker.number, now + attempt.lease);
            }
            let ownership = owned(asker, attempt, holder, Some(now.since(holder.granted)));
            holder.ownership = Some(Arc::clone(&ownership));
            return Settled::Held(ownership);
        }
        if self.closed {
            return Settled::Closed;
        }
        let lock = self.locks.entry(attempt.key.clone()).or_default();
        lock.queue.entry(place.seq).or_insert_with(|| Waiter::new(asker, attempt, place));
        self.grant(&attempt.key, now);
        Settled::Waiting
    }
}

fn owned(asker: &Asker, attempt: &Attempt, holder: &Holder, handed_off: Option<Duration>) -> Arc<Ownership> {
    let (key, owner) = (attempt.key.clone(), asker.owner.clone());
    Arc::new(Ownership::new(key, owner, attempt.mode, holder.token, attempt.lease, holder.ends, handed_off))
}
