use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::cache::bloom::{Bloom, Bound};
#[cfg(feature = "postgres")]
use crate::cache::load::LoadInFn;
use crate::{
    cache::{
        CacheError, CacheInfo, Lookup, Source,
        fetch::{Missing, Start},
        flight::{Answer, Board, Flights, Outcome},
        invalidation::NotTaken,
        load::Loader,
        local::{Local, Reservation},
        read::{Patience, is_due},
        settings::Settings,
        stats::Counters,
        store::{Assurance, Read, Store, Want},
        strict::Intent,
        value::Entry,
    },
    clock::Instant,
    resource::{Key, Resource, find_by_text},
};

/// What every clone of a cache shares.
pub(crate) struct Core<K, V> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) local: Arc<Local<V>>,
    pub(crate) store: Store<V>,
    pub(crate) loader: Loader<K, V>,
    pub(crate) flights: Arc<Flights<V>>,
    /// Loads that nobody waits for.
    pub(super) refreshes: Arc<Flights<V>>,
    /// Loads that were asked for although there might be a value.
    pub(super) reloads: Arc<Flights<V>>,
    #[cfg(feature = "postgres")]
    pub(super) load_in: Option<LoadInFn<K, V>>,
    /// Which rows may exist.
    pub(super) bloom: Option<Bloom>,
    pub(crate) counters: Counters,
    pub(crate) tasks: TaskTracker,
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) async fn get(self: &Arc<Self>, key: &K) -> Result<Lookup<V>, CacheError> {
        let result = match self.at_hand(key) {
            Some(found) => Ok(found),
            None => self.look_up(key, Board::Any).await,
        };
        self.counters.request(&result);
        result
    }

    /// The answer of the in-process tier. No memory is taken and the clock is read once: this is the path that is fast.
    fn at_hand(self: &Arc<Self>, key: &K) -> Option<Lookup<V>> {
        let now = self.serving_at()?;
        let entry = find_by_text(key, |text| self.local.get(text))?;
        self.serve(key, entry, now)
    }

    /// The answer of the in-process tier to a caller that holds the lock of the key shared. `since` is asked with the text of
    /// the key when no writer can have had that lock since; it answers `None` where the lock is not held.
    ///
    /// The order matters. First the subscription: a write whose acknowledgement waited until every live process had heard
    /// of it is heard of before the value is looked up. Then the value, then the lock: at the moment of serving it is still
    /// held, and has been since before the value was asked for.
    #[cfg(feature = "axum")]
    pub(crate) fn at_hand_under_lock(
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

    /// A fresh value of the in-process tier as an answer.
    fn serve(self: &Arc<Self>, key: &K, entry: Entry<V>, now: Instant) -> Option<Lookup<V>> {
        if !entry.is_fresh(now) {
            return None;
        }
        if is_due(&entry, self.settings.beta, now)
            && let Ok(name) = Key::of(key)
        {
            self.refresh(key, &name);
        }
        Some(lookup_at(now, kept(entry, Source::Local, false), false))
    }

    #[tracing::instrument(name = "cache", level = "debug", skip_all, fields(cache = self.settings.name))]
    async fn look_up(self: &Arc<Self>, key: &K, board: Board) -> Result<Lookup<V>, CacheError> {
        let name = Key::of(key)?;
        self.fetched(key, &name, board, None).await
    }

    /// As [`Core::look_up`]. With something missing nobody is asked before the flight.
    pub(super) async fn fetched(
        self: &Arc<Self>,
        key: &K,
        name: &Key,
        mut board: Board,
        mut missing: Option<Missing<V>>,
    ) -> Result<Lookup<V>, CacheError> {
        let called = Instant::now();
        loop {
            let Missing { start, stale } = match missing.take() {
                Some(missing) => missing,
                None => match self.at_hand_or_stored(key, name).await {
                    Ok(found) => return Ok(found),
                    Err(missing) => missing,
                },
            };
            let (passage, pilot) = self.flights.board(name, board);
            let joined = pilot.is_none();
            if let Some(pilot) = pilot {
                self.tasks.spawn(Arc::clone(self).fly(key.clone(), name.clone(), pilot, start).in_current_span());
            }
            let patience = Patience { called, fetching: passage.began(), stale };
            match self.in_time(passage.outcome(), patience).await {
                Ok(Some(outcome)) => return self.landed(outcome, joined),
                // A write may lie between that answer and this call. The next flight gives one that is surely valid.
                Ok(None) => board = Board::NotAsked,
                Err(instead) => return instead,
            }
        }
    }

    async fn at_hand_or_stored(self: &Arc<Self>, key: &K, name: &Key) -> Result<Lookup<V>, Missing<V>> {
        if let Some(entry) = self.fresh(name) {
            self.refresh_if_due(key, name, &entry);
            return Ok(lookup(kept(entry, Source::Local, false), false));
        }
        self.attempted().await;
        let reservation = self.local.reserve(name);
        let assurance = self.assurance();
        let read = self.store.read(name).await;
        self.judge(key, name, reservation, read, assurance)
    }

    /// The answer that a read is, or how to begin to fetch one. `assurance`: of the store, from before it was asked.
    pub(super) fn judge(
        self: &Arc<Self>,
        key: &K,
        name: &Key,
        reservation: Reservation,
        read: Read<V>,
        assurance: Option<Assurance>,
    ) -> Result<Lookup<V>, Missing<V>> {
        match read {
            Read::Hit(_) if !self.stands(assurance) => Err(Start::Lease(Want::Load).into()),
            Read::Hit(entry) => {
                self.refresh_if_due(key, name, &entry);
                self.local.put_found(reservation, name, entry.clone());
                Ok(lookup(kept(entry, Source::Redis, false), false))
            }
            Read::Stale(entry) if self.may_revalidate(&entry) => {
                self.refresh(key, name);
                Ok(lookup(kept(entry, Source::Redis, false), false))
            }
            Read::Stale(entry) => Err(Missing { start: Start::Lease(Want::Value), stale: Some(entry) }),
            Read::Miss => Err(Start::Lease(Want::Value).into()),
            Read::Unreadable => {
                self.unreadable(name);
                Err(Start::Lease(Want::Load).into())
            }
            Read::Down => match self.within_grace(name) {
                Some(entry) => Ok(lookup(kept(entry, Source::Local, true), false)),
                None => Err(Start::Degraded.into()),
            },
        }
    }

    pub(super) fn unreadable(&self, name: &Key) {
        tracing::debug!(cache = self.settings.name, %name, "loading over a payload that can't be read");
        self.counters.refused(self.settings.name, "unreadable");
    }

    /// The answer that a flight brought.
    pub(super) fn landed(&self, outcome: Outcome<V>, joined: bool) -> Result<Lookup<V>, CacheError> {
        match outcome {
            Outcome::Answer(answer, _) => Ok(lookup(answer, joined)),
            Outcome::Failed(error) => Err(error),
            Outcome::Lost if self.loader.closing.is_cancelled() => Err(CacheError::ShuttingDown),
            Outcome::Lost => Err(CacheError::Panicked),
        }
    }

    /// The present, if the in-process tier may serve under the normal rules. Where it never does, the clock is not read.
    fn serving_at(&self) -> Option<Instant> {
        if self.settings.serve_local { self.verified_at() } else { None }
    }

    /// The present, if the in-process tier hears of invalidations.
    fn verified_at(&self) -> Option<Instant> {
        let now = Instant::now();
        self.store.is_verified_at(now).then_some(now)
    }

    /// A value that the in-process tier may serve under the normal rules.
    pub(super) fn fresh(&self, name: &Key) -> Option<Entry<V>> {
        let now = self.serving_at()?;
        self.local.get(name.as_str()).filter(|entry| entry.is_fresh(now))
    }

    pub(super) fn refresh_if_due(self: &Arc<Self>, key: &K, name: &Key, entry: &Entry<V>) {
        if is_due(entry, self.settings.beta, Instant::now()) {
            self.refresh(key, name);
        }
    }

    fn may_revalidate(&self, entry: &Entry<V>) -> bool {
        entry.staleness(Instant::now()).is_some_and(|stale| stale < self.settings.revalidate)
    }

    /// The wait of the first questions for a connection. It comes before a reservation, which a new connection voids.
    pub(super) async fn attempted(&self) {
        if let Some(bloom) = &self.bloom {
            // Both at once, so that nobody waits for two time-outs.
            tokio::join!(self.store.attempted(), bloom.attempted());
            return;
        }
        self.store.attempted().await;
    }

    /// Whether the filter says of each that there is no such row.
    pub(super) async fn surely_absent(&self, names: &[&Key]) -> Vec<bool> {
        if let Some(bloom) = &self.bloom {
            let bound = if self.settings.strict.is_some() { Bound::Wanted } else { Bound::Any };
            return bloom.may_hold_each(names, bound).await.into_iter().map(|may| !may).collect();
        }
        vec![false; names.len()]
    }

    /// The word that no value in the store is older than a write that was acknowledged; `None` where one may be. Who needs
    /// no such word always has it.
    pub(super) fn assurance(&self) -> Option<Assurance> {
        if self.settings.strict.is_some() { self.store.assurance() } else { Some(Assurance::default()) }
    }

    /// Whether it was good for everything that the store was asked since.
    pub(super) fn stands(&self, assurance: Option<Assurance>) -> bool {
        assurance.is_some() && assurance == self.assurance()
    }

    /// Ends the intents among these whose transaction is over and did not do so.
    pub(super) async fn settle(&self, name: &Key, overdue: Vec<Intent>) {
        let Some(strict) = &self.settings.strict else { return };
        match strict.over(overdue).await {
            Ok(over) => {
                for intent in over {
                    tracing::info!(cache = self.settings.name, "ending the intent of a transaction that is over");
                    for NotTaken { error, .. } in
                        self.end_all(std::slice::from_ref(name), &intent.id).await.into_iter().filter_map(Result::err)
                    {
                        tracing::debug!(%error, "the next reader tries again");
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the fate of a transaction is not known yet"),
        }
    }

    /// A value of the in-process tier that expired, or went without news of invalidations, not longer ago than its
    /// grace.
    pub(super) fn within_grace(&self, name: &Key) -> Option<Entry<V>> {
        if self.settings.strict.is_some() {
            return None;
        }
        let entry = self.local.get(name.as_str())?;
        let good_until = entry.expires.min(self.store.verified_until());
        (Instant::now() < good_until + self.settings.grace).then_some(entry)
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.loader.closing.cancel();
        self.tasks.close();
        let began = Instant::now();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            self.loader.aborting.cancel();
            self.tasks.wait().await;
        }
        self.store.shutdown(limit.saturating_sub(began.elapsed())).await;
    }
}

impl<K, V> fmt::Debug for Core<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The answer that a kept entry is.
pub(super) fn kept<V>(entry: Entry<V>, source: Source, degraded: bool) -> Answer<V> {
    Answer { entry, source, degraded, stored: false, waited: false }
}

pub(super) fn lookup<V>(answer: Answer<V>, joined: bool) -> Lookup<V> {
    lookup_at(Instant::now(), answer, joined)
}

fn lookup_at<V>(now: Instant, answer: Answer<V>, joined: bool) -> Lookup<V> {
    let Answer { entry, source, degraded, stored, waited } = answer;
    // What comes from neither tier was not kept, and so did not expire.
    let kept = matches!(source, Source::Local | Source::Redis);
    let info = CacheInfo {
        source,
        absent: entry.value.is_none(),
        age: now.since(entry.loaded),
        ttl: entry.expires.since(now),
        stale: if kept { entry.staleness(now) } else { None },
        degraded,
        collapsed: joined || waited,
        stored,
        forced: false,
        version: entry.version,
    };
    Lookup { value: entry.value, info }
}
