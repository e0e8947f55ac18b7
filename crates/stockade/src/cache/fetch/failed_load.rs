use super::start::Leased;
use crate::{
    cache::{
        CacheError, Source,
        core::{CacheKey, CacheValue, Core},
        flight::{Answer, Outcome},
        store::{Hold, Token},
        value::Entry,
    },
    clock::Instant,
    resource::Key,
};

/// How many keys a load is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    One,
    /// If the load fails, it is unknown which key is at fault.
    Several,
}

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) async fn give_up(&self, name: &Key, leased: Leased<V>, error: CacheError, loads: Loads) -> Outcome<V> {
        self.give_back(name, &leased.token, &error, loads).await;
        self.stale_or(name, leased.stale, error, leased.mark)
    }

    /// Gives back the lease of a load that failed.
    pub(crate) async fn give_back(&self, name: &Key, token: &Token, error: &CacheError, loads: Loads) {
        // A load that never began is no reason to hold the next one off.
        let began =
            matches!(error, CacheError::Load(_) | CacheError::Timeout(_) | CacheError::Panicked | CacheError::Tag(_));
        let hold = Hold::Failed { window: self.settings.hold_off, counts: loads == Loads::One };
        self.store.abort(name, token, if began { hold } else { Hold::No }).await;
    }

    /// The error if this key must not be loaded now because its loads in this process keep failing. It is for loads
    /// without a lease, since the store holds the others off.
    pub(crate) fn held_off(&self, name: &Key) -> Option<CacheError> {
        let retry_after = self.local.failing().held(name, self.settings.hold_off)?;
        Some(CacheError::HeldOff { retry_after })
    }

    pub(crate) fn unleased_failed(&self, name: &Key, error: CacheError) -> Outcome<V> {
        match self.expired(name, None) {
            Some(answer) => Outcome::Answer(answer, None),
            None => Outcome::Failed(error),
        }
    }

    /// An expired value within its grace, or else the error. Only passengers with a number below `mark` may take the
    /// value: a later passenger may know of a write that dropped it.
    pub(crate) fn stale_or(&self, name: &Key, stored: Option<Entry<V>>, error: CacheError, mark: u64) -> Outcome<V> {
        match self.expired(name, stored) {
            Some(answer) => Outcome::Answer(answer, Some(mark)),
            None => Outcome::Failed(error),
        }
    }

    /// An expired value within its grace: the one that the store gave, or else that of this process. Always `None` in a
    /// strict cache.
    pub(crate) fn expired(&self, name: &Key, stored: Option<Entry<V>>) -> Option<Answer<V>> {
        let now = Instant::now();
        let stored = stored
            .filter(|_| self.settings.strict.is_none())
            .filter(|entry| now < entry.expires + self.settings.grace)
            .map(|entry| Answer::from_entry(entry, Source::Redis, false));
        let here =
            || self.within_grace(name).map(|entry| Answer::from_entry(entry, Source::Local, !self.store.is_verified()));
        stored.or_else(here)
    }
}
