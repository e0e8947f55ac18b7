use std::{sync::Arc, time::Duration};

use rand::Rng;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::sleep;

use super::failed_load::Loads;
use crate::{
    cache::{
        CacheError, Loaded, Source,
        core::{Core, kept},
        flight::{Answer, Outcome, Pilot},
        load::Load,
        local::Reservation,
        store::{Assurance, Filled, Filling, Hold, Lease, Token, Wake, Want},
        strict::Intent,
        value::Entry,
    },
    clock::Instant,
    resource::{Key, Resource},
};

/// How long a wait for another process's load goes without asking again: its message may be lost.
pub(crate) const POLL: Duration = Duration::from_millis(250);

/// How a flight begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Lease(Want),
    /// The store did not answer: load without a lease, store nothing.
    Degraded,
}

/// What a read has found that did not answer it.
pub(crate) struct Missing<V> {
    pub(crate) start: Start,
    /// A value that expired.
    pub(crate) stale: Option<Entry<V>>,
}

impl<V> From<Start> for Missing<V> {
    fn from(start: Start) -> Self {
        Self { start, stale: None }
    }
}

/// A lease under which a load runs.
pub(crate) struct Leased<V> {
    pub(crate) token: Token,
    pub(crate) reservation: Reservation,
    pub(crate) stale: Option<Entry<V>>,
    /// The number before which passengers boarded in time for the expired value.
    pub(crate) mark: u64,
    /// The word under which it was given.
    pub(crate) assurance: Option<Assurance>,
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Fetches the value for all who boarded. Runs on a task of the cache.
    pub(crate) async fn fly(self: Arc<Self>, key: K, name: Key, pilot: Pilot<V>, start: Start) {
        let outcome = self.fetch(key, &name, &pilot, start).await;
        pilot.land(outcome);
    }

    async fn fetch(self: &Arc<Self>, key: K, name: &Key, pilot: &Pilot<V>, start: Start) -> Outcome<V> {
        let Start::Lease(mut want) = start else {
            return self.load_degraded(key, name, pilot).await;
        };
        if want == Want::Value {
            let mark = pilot.ask();
            if self.surely_absent(&[name]).await.first() == Some(&true) {
                return Outcome::Answer(ruled_out(), Some(mark));
            }
        }
        let give_up = Instant::now() + self.settings.lease + self.settings.load_timeout;
        let mut waited = false;
        loop {
            let token = Token::random();
            let reservation = self.local.reserve(name);
            let mut wake = self.store.watch(name);
            let mark = pilot.ask();
            let assurance = self.assurance();
            if assurance.is_none() {
                want = Want::Load;
            }
            let content = want == Want::Value && self.may_do(name);
            match self.store.lease(name, &token, want, content).await {
                Lease::Hit(_) if !self.stands(assurance) => want = Want::Load,
                Lease::Hit(entry) => {
                    self.local.put_found(reservation, name, entry.clone());
                    let answer = Answer { waited, ..kept(entry, Source::Redis, false) };
                    return Outcome::Answer(answer, Some(mark));
                }
                Lease::Unreadable => {
                    self.unreadable(name);
                    want = Want::Load;
                }
                Lease::Held(stale) => match self.expired(name, stale) {
                    Some(answer) => return Outcome::Answer(answer, Some(mark)),
                    None => want = Want::Load,
                },
                Lease::Failing(retry_after) => {
                    return self.stale_or(name, None, CacheError::HeldOff { retry_after }, mark);
                }
                Lease::Wait(_) if Instant::now() >= give_up => {
                    return self.stale_or(name, None, CacheError::Timeout(self.settings.load_timeout), mark);
                }
                Lease::Wait(left) => {
                    pilot.waits();
                    (waited, want) = (true, Want::Value);
                    until_news(&mut wake, left).await;
                }
                Lease::Granted(stale) => {
                    let leased = Leased { token, reservation, stale, mark, assurance };
                    return self.load_leased(key, name, pilot, leased).await;
                }
                Lease::Bypass(overdue) => {
                    self.ask_about(name, overdue);
                    return self.load_beside(key, name, pilot, false).await;
                }
                Lease::Down => return self.load_degraded(key, name, pilot).await,
            }
        }
    }

    /// Whether this process has a copy that may take the place of a load, after one that failed lately. None with tags: word of
    /// them may be on its way here, and a store that has no value can't judge it.
    pub(crate) fn may_do(&self, name: &Key) -> bool {
        self.within_grace(name).is_some_and(|entry| entry.tags.is_empty())
    }

    pub(crate) async fn load_leased(&self, key: K, name: &Key, pilot: &Pilot<V>, leased: Leased<V>) -> Outcome<V> {
        match self.loader.run(key, name, || pilot.ask()).await {
            Ok(load) => self.store_loaded(name, pilot, &leased, load).await,
            Err(error) => self.give_up(name, leased, error, Loads::One).await,
        }
    }

    /// Stores what was loaded under a lease, if that is still good.
    pub(crate) async fn store_loaded(
        &self,
        name: &Key,
        pilot: &Pilot<V>,
        leased: &Leased<V>,
        load: Load<Loaded<V>>,
    ) -> Outcome<V> {
        let Leased { token, reservation, assurance, .. } = leased;
        let Load { loaded, took, mark } = load;
        let encoded = self.settings.envelope.encode(loaded.value.as_ref());
        let ttl = self.settings.lifetime(&loaded);
        let mut answer = unstored(loaded, encoded.as_ref().map_or(0, |encoded| encoded.weight), false);
        let bytes = match encoded {
            Ok(encoded) => encoded.bytes,
            Err(reason) => {
                self.counters.refused(self.settings.name, reason.label());
                tracing::warn!(cache = self.settings.name, %name, %reason, "value not stored");
                self.store.abort(name, token, Hold::NONE).await;
                return Outcome::Answer(answer, Some(mark));
            }
        };
        answer.entry.expires = answer.entry.loaded + ttl;
        answer.entry.took = took;
        pilot.close();
        let filling = Filling { entry: &answer.entry, bytes, ttl };
        match self.store.fill(name, token, *reservation, filling).await {
            Filled::Accepted => {
                answer.stored = true;
                // A run that lost the write which voids a token accepts it.
                Outcome::Answer(answer, (!self.stands(*assurance)).then_some(mark))
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

    pub(crate) fn ask_about(self: &Arc<Self>, name: &Key, overdue: Vec<Intent>) {
        let due = self.settings.strict.as_ref().map(|strict| strict.due(overdue)).unwrap_or_default();
        if !due.is_empty() {
            let (core, name) = (Arc::clone(self), name.clone());
            self.tasks.spawn(async move { core.settle(&name, due).await });
        }
    }

    /// A load while a writer commits: nothing tells whether the value holds that write, so nobody boards once it runs.
    async fn load_beside(&self, key: K, name: &Key, pilot: &Pilot<V>, degraded: bool) -> Outcome<V> {
        let begin = || {
            pilot.close();
            pilot.ask()
        };
        if let Some(error) = self.held_off(name) {
            return self.beside_failed(name, error);
        }
        match self.loader.run(key, name, begin).await {
            Ok(load) => Outcome::Answer(unstored(load.loaded, 0, degraded), Some(load.mark)),
            Err(error) => self.beside_failed(name, error),
        }
    }

    /// A load while the store is away. Callers may board while it runs: their answer is marked as degraded, and a write
    /// of this process detaches the flight.
    async fn load_degraded(&self, key: K, name: &Key, pilot: &Pilot<V>) -> Outcome<V> {
        if self.settings.strict.is_some() {
            return self.load_beside(key, name, pilot, true).await;
        }
        let mark = pilot.ask();
        if let Some(entry) = self.within_grace(name) {
            return Outcome::Answer(kept(entry, Source::Local, true), Some(mark));
        }
        if let Some(error) = self.held_off(name) {
            return Outcome::Failed(error);
        }
        let reservation = self.local.reserve(name);
        match self.loader.run(key, name, || pilot.ask()).await {
            Ok(load) => {
                pilot.close();
                let tags = load.loaded.known_tags();
                let valid_for = (!self.local.holds(reservation, &tags)).then_some(load.mark);
                Outcome::Answer(unstored(load.loaded, 0, true), valid_for)
            }
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// Waits for word of another's load, but not longer than it may last.
pub(crate) async fn until_news(wake: &mut Wake, left: Duration) {
    let jitter = Duration::from_millis(rand::rng().random_range(0..50));
    tokio::select! {
        () = wake.woken() => {}
        () = sleep(left.min(POLL) + jitter) => {}
    }
}

/// The answer that there is no such row, which the filter gives.
pub(crate) fn ruled_out<V>() -> Answer<V> {
    let mut answer = unstored(Loaded::new(None), 0, false);
    answer.source = Source::Filter;
    answer
}

/// The answer that a load is, before it is stored.
pub(crate) fn unstored<V>(loaded: Loaded<V>, weight: u64, degraded: bool) -> Answer<V> {
    let now = Instant::now();
    let tags = loaded.known_tags();
    let (value, version) = (loaded.value.map(Arc::new), loaded.version);
    let entry = Entry { value, loaded: now, stored: None, expires: now, took: Duration::ZERO, version, tags, weight };
    Answer { entry, source: Source::Load, degraded, stored: false, waited: false }
}
