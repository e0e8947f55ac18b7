use std::sync::Arc;

use super::{
    floor::{minted, tokens_exhausted},
    lock::{Asker, Kind},
    table::Table,
};
use crate::{
    clock::Instant,
    resource::Key,
    store::{Force, Forced, Handed, LockError, LossReason, Mode, Ownership},
};

impl Table {
    pub(super) fn downgrade(&mut self, now: Instant, ownership: &Arc<Ownership>) -> Result<(), LossReason> {
        let lock = self.locks.get_mut(&ownership.key);
        let Some((kind, holder)) =
            lock.and_then(|lock| lock.holders.get_mut(&ownership.owner).map(|h| (&mut lock.kind, h)))
        else {
            let reason = gone(now, ownership);
            self.effects.lost(Some(Arc::clone(ownership)), reason);
            return Err(reason);
        };
        *kind = Kind::Read;
        ownership.set_mode(Mode::Read);
        if !holder.runs_out {
            self.leases.extend(&mut holder.ends, holder.number, now + ownership.lease);
            ownership.extend(holder.ends);
        }
        self.grant(&ownership.key, now);
        Ok(())
    }

    /// Moves a handed-over ownership to the owner that adopts it.
    pub(super) fn adopt(&mut self, now: Instant, asker: &Asker, handed: &Handed) -> Result<Arc<Ownership>, LockError> {
        if self.closed {
            return Err(LockError::ShuttingDown);
        }
        let lock = self.locks.get_mut(&handed.key).filter(|lock| lock.kind.mode() == handed.mode);
        let lock = lock.ok_or(LockError::HandoverVoid)?;
        if lock.holders.get(&handed.owner).is_none_or(|holder| holder.token != handed.token) {
            return Err(LockError::HandoverVoid);
        }
        let token = minted(&self.floors, &handed.key).ok_or_else(tokens_exhausted)?;
        let mut holder = lock.holders.remove(&handed.owner).ok_or(LockError::HandoverVoid)?;
        self.leases.remove(holder.ends, holder.number);
        (holder.number, holder.token, holder.granted) = (asker.number, token, now);
        if !holder.runs_out {
            holder.ends = now + handed.lease;
        }
        self.leases.insert(holder.ends, asker, &handed.key);
        let ownership = Arc::new(handed.ownership(asker.owner.clone(), token, holder.ends));
        holder.ownership = Some(Arc::clone(&ownership));
        lock.holders.insert(asker.owner.clone(), holder);
        Ok(ownership)
    }

    pub(super) fn renew(&mut self, now: Instant, ownership: &Arc<Ownership>) {
        let lock = self.locks.get_mut(&ownership.key);
        let reason = match lock.and_then(|lock| lock.holders.get_mut(&ownership.owner)) {
            Some(holder) if !holder.runs_out => {
                self.leases.extend(&mut holder.ends, holder.number, now + ownership.lease);
                ownership.extend(holder.ends);
                return;
            }
            // It may use up its lease, and is told then.
            Some(_) => return,
            None => gone(now, ownership),
        };
        self.effects.lost(Some(Arc::clone(ownership)), reason);
    }

    pub(super) fn force(&mut self, now: Instant, key: &Key, force: Force) -> Result<Forced, LockError> {
        let token = minted(&self.floors, key).ok_or_else(tokens_exhausted)?;
        let mut holders = 0;
        if let Some(lock) = self.locks.get_mut(key) {
            holders = u64::try_from(lock.holders.len()).unwrap_or(u64::MAX);
            if lock.kind != Kind::Write && force == Force::AfterLeases {
                lock.holders.values_mut().for_each(|holder| holder.runs_out = true);
            } else {
                for (_, holder) in lock.holders.drain() {
                    self.leases.remove(holder.ends, holder.number);
                    self.effects.lost(holder.ownership, LossReason::Forced);
                }
            }
        }
        self.grant(key, now);
        Ok(Forced { holders, token })
    }
}

/// Why an ownership without an entry in the table was lost.
fn gone(now: Instant, ownership: &Ownership) -> LossReason {
    if now >= ownership.deadline() { LossReason::Expired } else { LossReason::Stolen }
}
