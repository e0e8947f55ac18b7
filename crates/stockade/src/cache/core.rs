use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use rand::Rng;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::{
    CacheError, CacheInfo, Lookup, Source,
    entry::Entry,
    flight::{Answer, Board, Flights, Outcome, Pilot},
    invalidator::Invalidate,
    load::{Loaded, Loader},
    local::{Local, Reservation},
    settings::Settings,
    stats::Counters,
    store::{Filled, Filling, Lease, Read, Store, Token, Want},
};
use crate::{
    clock::Instant,
    resource::{Key, Resource},
};

/// How long a wait for another process's load goes without asking again: its message may be lost.
const POLL: Duration = Duration::from_millis(250);

/// What every clone of a cache shares.
pub(crate) struct Core<K, V> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) local: Arc<Local<V>>,
    pub(crate) store: Store<V>,
    pub(crate) loader: Loader<K, V>,
    pub(crate) flights: Arc<Flights<V>>,
    pub(crate) counters: Counters,
    pub(crate) tasks: TaskTracker,
}

/// How a flight begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Lease(Want),
    /// The store did not answer: load without a lease, store nothing.
    Degraded,
}

/// A lease under which a load runs.
struct Leased<V> {
    token: Token,
    reservation: Reservation,
    stale: Option<Entry<V>>,
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) async fn get(self: &Arc<Self>, key: &K) -> Result<Lookup<V>, CacheError> {
        let result = self.look_up(key).await;
        self.counters.request(self.settings.name, &result);
        result
    }

    async fn look_up(self: &Arc<Self>, key: &K) -> Result<Lookup<V>, CacheError> {
        let name = Key::of(key)?;
        let mut board = Board::Any;
        loop {
            if let Some(entry) = self.fresh(&name) {
                return Ok(lookup(kept(entry, Source::Local, false), false));
            }
            let reservation = self.local.reserve(&name);
            let start = match self.store.read(&name).await {
                Read::Hit(entry) => {
                    self.local.put(reservation, &name, entry.clone());
                    return Ok(lookup(kept(entry, Source::Redis, false), false));
                }
                Read::Miss => Start::Lease(Want::Value),
                Read::Unreadable => Start::Lease(Want::Load),
                Read::Down => match self.within_grace(&name) {
                    Some(entry) => return Ok(lookup(kept(entry, Source::Local, true), false)),
                    None => Start::Degraded,
                },
            };
            let (passage, pilot) = self.flights.board(&name, board);
            let joined = pilot.is_none();
            if let Some(pilot) = pilot {
                self.tasks.spawn(Arc::clone(self).fly(key.clone(), name.clone(), pilot, start));
            }
            match passage.outcome().await {
                Some(Outcome::Answer(answer, _)) => return Ok(lookup(answer, joined)),
                Some(Outcome::Failed(error)) => return Err(error),
                Some(Outcome::Lost) if self.loader.closing.is_cancelled() => return Err(CacheError::ShuttingDown),
                Some(Outcome::Lost) => return Err(CacheError::Panicked),
                // A write may lie between that answer and this call. The next flight gives one that is surely valid.
                None => board = Board::NotAsked,
            }
        }
    }

    /// A value that the in-process tier may serve under the normal rules.
    fn fresh(&self, name: &Key) -> Option<Entry<V>> {
        if !self.settings.serve_local || !self.store.is_verified() {
            return None;
        }
        self.local.get(name).filter(|entry| entry.is_fresh(Instant::now()))
    }

    /// A value of the in-process tier that expired, or went without news of invalidations, not longer ago than its
    /// grace.
    fn within_grace(&self, name: &Key) -> Option<Entry<V>> {
        let entry = self.local.get(name)?;
        let good_until = entry.expires.min(self.store.verified_until());
        (Instant::now() < good_until + self.settings.grace).then_some(entry)
    }

    async fn fly(self: Arc<Self>, key: K, name: Key, pilot: Pilot<V>, start: Start) {
        let outcome = self.fetch(key, &name, &pilot, start).await;
        pilot.land(outcome);
    }

    async fn fetch(&self, key: K, name: &Key, pilot: &Pilot<V>, start: Start) -> Outcome<V> {
        let Start::Lease(mut want) = start else {
            return self.load_degraded(key, name, pilot).await;
        };
        let give_up = Instant::now() + self.settings.lease + self.settings.load_timeout;
        let mut waited = false;
        loop {
            let token = Token::random();
            let reservation = self.local.reserve(name);
            let mut wake = self.store.watch(name);
            let mark = pilot.ask();
            match self.store.lease(name, &token, want).await {
                Lease::Hit(entry) => {
                    self.local.put(reservation, name, entry.clone());
                    let answer = Answer { waited, ..kept(entry, Source::Redis, false) };
                    return Outcome::Answer(answer, Some(mark));
                }
                Lease::Unreadable => want = Want::Load,
                Lease::Wait(_) if Instant::now() >= give_up => {
                    return self.stale_or(name, None, CacheError::Timeout(self.settings.load_timeout));
                }
                Lease::Wait(left) => {
                    pilot.waits();
                    (waited, want) = (true, Want::Value);
                    let jitter = Duration::from_millis(rand::rng().random_range(0..50));
                    tokio::select! {
                        () = wake.woken() => {}
                        () = sleep(left.min(POLL) + jitter) => {}
                    }
                }
                Lease::Granted(stale) => {
                    return self.load_leased(key, name, pilot, Leased { token, reservation, stale }).await;
                }
                Lease::Bypass => return self.load_beside(key, name, pilot).await,
                Lease::Down => return self.load_degraded(key, name, pilot).await,
            }
        }
    }

    async fn load_leased(&self, key: K, name: &Key, pilot: &Pilot<V>, leased: Leased<V>) -> Outcome<V> {
        let Leased { token, reservation, stale } = leased;
        let Loaded { value, took, mark } = match self.loader.run(key, || pilot.ask()).await {
            Ok(loaded) => loaded,
            Err(error) => {
                self.store.abort(name, &token).await;
                return self.stale_or(name, stale, error);
            }
        };
        let bytes = self.settings.envelope.encode(value.as_ref());
        let bytes = bytes.map_err(|error| error.to_string()).and_then(|bytes| {
            let fits = bytes.len() <= self.settings.max_value;
            if fits { Ok(bytes) } else { Err(format!("{} bytes is over the limit", bytes.len())) }
        });
        let mut answer = unstored(value, bytes.as_ref().map_or(0, Vec::len), false);
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(reason) => {
                tracing::warn!(cache = self.settings.name, %name, reason, "value not stored");
                self.store.abort(name, &token).await;
                return Outcome::Answer(answer, Some(mark));
            }
        };
        let ttl = self.settings.draw_ttl(answer.entry.value.is_none());
        answer.entry.expires = answer.entry.loaded + ttl;
        pilot.close();
        let filling = Filling { entry: &answer.entry, bytes, ttl, took };
        match self.store.fill(name, &token, reservation, filling).await {
            Filled::Accepted => {
                answer.stored = true;
                Outcome::Answer(answer, None)
            }
            Filled::Refused => {
                self.counters.fill_rejected(self.settings.name);
                Outcome::Answer(answer, Some(mark))
            }
            Filled::Unknown => {
                answer.degraded = true;
                Outcome::Answer(answer, Some(mark))
            }
        }
    }

    /// A load while a writer commits: nothing tells whether the value holds that write, so nobody boards once it runs.
    async fn load_beside(&self, key: K, name: &Key, pilot: &Pilot<V>) -> Outcome<V> {
        let begin = || {
            pilot.close();
            pilot.ask()
        };
        match self.loader.run(key, begin).await {
            Ok(loaded) => Outcome::Answer(unstored(loaded.value, 0, false), Some(loaded.mark)),
            Err(error) => self.stale_or(name, None, error),
        }
    }

    /// A load while the store is away. Callers may board while it runs: their answer is marked as degraded, and a write
    /// of this process detaches the flight.
    async fn load_degraded(&self, key: K, name: &Key, pilot: &Pilot<V>) -> Outcome<V> {
        if let Some(entry) = self.within_grace(name) {
            return Outcome::Answer(kept(entry, Source::Local, true), None);
        }
        let reservation = self.local.reserve(name);
        match self.loader.run(key, || pilot.ask()).await {
            Ok(loaded) => {
                pilot.close();
                let valid_for = (!self.local.holds(reservation)).then_some(loaded.mark);
                Outcome::Answer(unstored(loaded.value, 0, true), valid_for)
            }
            Err(error) => Outcome::Failed(error),
        }
    }

    /// The newest expired value that is within its grace, or else the error.
    fn stale_or(&self, name: &Key, stored: Option<Entry<V>>, error: CacheError) -> Outcome<V> {
        let now = Instant::now();
        let stored = stored
            .filter(|entry| now < entry.expires + self.settings.grace)
            .map(|entry| kept(entry, Source::Redis, false));
        let here = || self.within_grace(name).map(|entry| kept(entry, Source::Local, !self.store.is_verified()));
        match stored.or_else(here) {
            Some(answer) => Outcome::Answer(answer, None),
            None => Outcome::Failed(error),
        }
    }

    async fn invalidate_all(&self, keys: &[Key]) -> Result<(), CacheError> {
        self.forget(keys);
        let confirmed = self.store.invalidate(keys).await;
        // Once more: a read of this process may have fetched the old value before the store dropped it, and its message
        // may still be on the way when the reply is not.
        self.forget(keys);
        confirmed
    }

    fn forget(&self, keys: &[Key]) {
        for key in keys {
            self.local.invalidate(key);
            self.flights.detach(key);
        }
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

impl<K, V> Invalidate for Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.settings.name
    }

    fn invalidate<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<(), CacheError>> {
        Box::pin(self.invalidate_all(keys))
    }
}

impl<K, V> fmt::Debug for Core<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The answer that a load is, before it is stored.
fn unstored<V>(value: Option<V>, weight: usize, degraded: bool) -> Answer<V> {
    let loaded = Instant::now();
    let weight = u64::try_from(weight).unwrap_or(u64::MAX);
    let entry = Entry { value: value.map(Arc::new), loaded, expires: loaded, weight };
    Answer { entry, source: Source::Load, degraded, stored: false, waited: false }
}

/// The answer that a kept entry is.
fn kept<V>(entry: Entry<V>, source: Source, degraded: bool) -> Answer<V> {
    Answer { entry, source, degraded, stored: false, waited: false }
}

fn lookup<V>(answer: Answer<V>, joined: bool) -> Lookup<V> {
    let Answer { entry, source, degraded, stored, waited } = answer;
    let now = Instant::now();
    let load = source == Source::Load;
    let info = CacheInfo {
        source,
        absent: entry.value.is_none(),
        age: now.since(entry.loaded),
        ttl: entry.expires.since(now),
        stale: if load { None } else { entry.staleness(now) },
        degraded,
        collapsed: joined || waited,
        stored,
        version: None,
    };
    Lookup { value: entry.value, info }
}
