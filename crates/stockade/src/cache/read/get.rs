use std::sync::Arc;

use tracing::Instrument;

use super::{patience::Patience, refresh::is_due};
use crate::{
    cache::{
        CacheError, Lookup, Source,
        core::{CacheKey, CacheValue, Core},
        fetch::{Missing, Start},
        flight::{Answer, Join, Outcome, lookup, lookup_at},
        local::Reservation,
        store::{Read, Trust, Want},
        value::Entry,
    },
    clock::Instant,
    resource::{Key, find_by_text},
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) async fn get(self: &Arc<Self>, key: &K) -> Result<Lookup<V>, CacheError> {
        let result = match self.local_hit(key) {
            Some(found) => Ok(found),
            None => self.look_up(key, Join::Any).await,
        };
        self.counters.request(&result);
        result
    }

    /// The answer of the in-process tier. This is the fast path: a hit allocates nothing and reads the clock once.
    fn local_hit(self: &Arc<Self>, key: &K) -> Option<Lookup<V>> {
        let now = self.serving_at()?;
        let entry = find_by_text(key, |text| self.local.get(text))?;
        self.serve(key, entry, now)
    }

    /// The answer of the in-process tier to a caller that holds the lock of the key shared. `since` takes the text of
    /// the key and returns the time since which no writer can have held that lock. It returns `None` if the caller does
    /// not hold the lock.
    ///
    /// The order of the checks matters. The subscription comes first: if a write was acknowledged only after every live
    /// process had heard of it, this process has dropped the value before it looks the value up. The value comes second
    /// and the lock last: the lock is held now, and has been held since before the store was asked for the value.
    #[cfg(feature = "axum")]
    pub(crate) fn local_hit_under_lock(
        self: &Arc<Self>,
        key: &K,
        since: impl FnOnce(&str) -> Option<Instant>,
    ) -> Option<Lookup<V>> {
        if !self.settings.under_locks {
            return None;
        }
        let now = self.verified_at()?;
        let entry = find_by_text(key, |text| {
            let (entry, asked) = self.local.get_asked(text)?;
            (asked > since(text)?).then_some(entry)
        })?;
        let found = Ok(self.serve(key, entry, now)?);
        self.counters.request(&found);
        found.ok()
    }

    /// The answer for a value of the in-process tier; `None` if the value expired.
    fn serve(self: &Arc<Self>, key: &K, entry: Entry<V>, now: Instant) -> Option<Lookup<V>> {
        if !entry.is_fresh(now) {
            return None;
        }
        if is_due(&entry, self.settings.beta, now)
            && let Ok(name) = Key::of(key)
        {
            self.refresh(key, &name);
        }
        Some(lookup_at(now, Answer::from_entry(entry, Source::Local, false), false))
    }

    #[tracing::instrument(name = "cache.lookup", level = "debug", skip_all, fields(cache = self.settings.name))]
    async fn look_up(self: &Arc<Self>, key: &K, join: Join) -> Result<Lookup<V>, CacheError> {
        let name = Key::of(key)?;
        self.find_or_fetch(key, &name, join, None).await
    }

    /// As [`Core::look_up`]. `missing` is given if the caller has already read both tiers: they are not read again
    /// before the flight.
    pub(crate) async fn find_or_fetch(
        self: &Arc<Self>,
        key: &K,
        name: &Key,
        mut join: Join,
        mut missing: Option<Missing<V>>,
    ) -> Result<Lookup<V>, CacheError> {
        let called = Instant::now();
        loop {
            let Missing { start, stale } = match missing.take() {
                Some(missing) => missing,
                None => match self.local_or_stored_hit(key, name, called).await {
                    Ok(found) => return Ok(found),
                    Err(missing) => missing,
                },
            };
            let (passage, pilot) = self.flights.board(name, join);
            let joined = pilot.is_none();
            if let Some(pilot) = pilot {
                self.spawn(Arc::clone(self).fly(key.clone(), name.clone(), pilot, start).in_current_span());
            }
            let patience = Patience { called, fetching: passage.began(), stale };
            match self.in_time(passage.outcome(), patience).await {
                Ok(Some(outcome)) => return Self::lookup_of(outcome, joined),
                // The answer may be older than a write that ended before this call began. A flight that has not asked
                // for the value yet gives an answer that is valid for this call.
                Ok(None) => join = Join::BeforeLoad,
                Err(instead) => return instead,
            }
        }
    }

    /// `called` is any time before. A hit in the store reads the clock only when it was answered.
    async fn local_or_stored_hit(
        self: &Arc<Self>,
        key: &K,
        name: &Key,
        called: Instant,
    ) -> Result<Lookup<V>, Missing<V>> {
        if let Some((entry, now)) = self.fresh(name) {
            self.refresh_if_due(key, name, &entry, now);
            return Ok(lookup_at(now, Answer::from_entry(entry, Source::Local, false), false));
        }
        self.attempted().await;
        let Some(reservation) = self.local.reserve_unless_dropped(name, called) else {
            // The store has no value either, unless another process was faster; and most likely there is a row.
            return Err(Start::Lease(Want::Value).into());
        };
        let trust = self.trust();
        let read = self.store.read(name, called).await;
        self.interpret_read(key, name, reservation, read, trust)
    }

    /// Turns the store's reply to a read into an answer, or says how to fetch the value. `trust` is the trust in the
    /// store from before the read was sent.
    pub(crate) fn interpret_read(
        self: &Arc<Self>,
        key: &K,
        name: &Key,
        reservation: Reservation,
        read: Read<V>,
        trust: Option<Trust>,
    ) -> Result<Lookup<V>, Missing<V>> {
        match read {
            Read::Hit(..) if !self.still_trusted(trust) => Err(Start::Lease(Want::Load).into()),
            Read::Hit(entry, now) => {
                self.refresh_if_due(key, name, &entry, now);
                self.local.put_found(reservation, name, entry.clone());
                Ok(lookup_at(now, Answer::from_entry(entry, Source::Redis, false), false))
            }
            Read::Stale(entry) if self.may_revalidate(&entry) => {
                self.refresh(key, name);
                Ok(lookup(Answer::from_entry(entry, Source::Redis, false), false))
            }
            Read::Stale(entry) => Err(Missing { start: Start::Miss, stale: Some(entry) }),
            Read::Miss => Err(Start::Miss.into()),
            Read::Unreadable => {
                self.unreadable(name);
                Err(Start::Lease(Want::Load).into())
            }
            Read::Down => match self.within_grace(name) {
                Some(entry) => Ok(lookup(Answer::from_entry(entry, Source::Local, true), false)),
                None => Err(Start::Degraded.into()),
            },
        }
    }

    /// The result of a call that took part in a flight with this outcome.
    pub(crate) fn lookup_of(outcome: Outcome<V>, joined: bool) -> Result<Lookup<V>, CacheError> {
        match outcome {
            Outcome::Answer(answer, _) => Ok(lookup(answer, joined)),
            Outcome::Failed(error) => Err(error),
            // A panic of the loader is caught, so only the end of the runtime drops a flight.
            Outcome::Lost => Err(CacheError::ShuttingDown),
        }
    }

    fn may_revalidate(&self, entry: &Entry<V>) -> bool {
        entry.staleness(Instant::now()).is_some_and(|stale| stale < self.settings.revalidate)
    }
}
