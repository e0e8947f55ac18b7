use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use tokio::{sync::Semaphore, time::sleep};
use tracing::Instrument;

use super::patience::Patience;
use crate::{
    cache::{
        CacheError, Lookup, Source,
        core::{CacheKey, CacheValue, Core},
        fetch::{Flyer, Missing},
        flight::{Answer, Join, Passage, lookup_at},
        store::{POLL, some_at_a_time},
    },
    clock::Instant,
    resource::Key,
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) async fn get_many(self: &Arc<Self>, keys: &[K]) -> Vec<Result<Lookup<V>, CacheError>> {
        let names: Vec<_> = keys.iter().map(Key::of).collect();
        let mut wanted: HashMap<Key, &K> = HashMap::new();
        for (key, name) in keys.iter().zip(&names) {
            if let Ok(name) = name {
                wanted.entry(name.clone()).or_insert(key);
            }
        }
        let found = self.look_up_all(wanted).await;
        let results: Vec<_> = names
            .into_iter()
            .map(|name| match name {
                Ok(name) => found.get(&name).cloned().unwrap_or(Err(CacheError::Panicked)),
                Err(error) => Err(error.into()),
            })
            .collect();
        results.iter().for_each(|result| self.counters.request(result));
        results
    }

    async fn look_up_all(self: &Arc<Self>, wanted: HashMap<Key, &K>) -> HashMap<Key, Result<Lookup<V>, CacheError>> {
        let called = Instant::now();
        self.attempted().await;
        let mut found = HashMap::with_capacity(wanted.len());
        let mut asked = Vec::new();
        for (name, key) in wanted {
            match self.fresh(&name) {
                Some((entry, now)) => {
                    self.refresh_if_due(key, &name, &entry, now);
                    found.insert(name, Ok(lookup_at(now, Answer::from_entry(entry, Source::Local, false), false)));
                }
                None => asked.push((self.local.reserve_at(&name, called), name, key)),
            }
        }
        // Many reads are sent before the first reply is awaited.
        let trust = self.trust();
        let reads = some_at_a_time(asked.iter().map(|(_, name, _)| self.store.read(name, called))).await;
        let mut cold = Vec::new();
        for ((reservation, name, key), read) in asked.into_iter().zip(reads) {
            match self.interpret_read(key, &name, reservation, read, trust) {
                Ok(answer) => drop(found.insert(name, Ok(answer))),
                Err(missing) => cold.push((name, key, missing)),
            }
        }
        found.extend(self.load_cold(called, cold).await);
        found
    }

    /// Loads the missing values. With a batch loader they are one load. Otherwise as many loads run at a time as the
    /// limits allow, so that this call does not fill the queue of loads against itself. A key that waits for its turn
    /// has no flight yet, so no other call joins a flight that has not started.
    async fn load_cold(
        self: &Arc<Self>,
        called: Instant,
        cold: Vec<(Key, &K, Missing<V>)>,
    ) -> Vec<(Key, Result<Lookup<V>, CacheError>)> {
        let lanes = Semaphore::new(self.loader.limits.width());
        let together = self.loader.load_batch.is_some() && cold.len() > 1;
        let (mut flyers, mut arrivals) = (Vec::new(), Vec::with_capacity(cold.len()));
        for (name, key, missing) in cold {
            // A key whose load failed lately could make the load of all the others fail.
            let flight = (together && !self.local.failing().has(&name)).then(|| {
                let (passage, pilot) = self.flights.board(&name, Join::Any);
                let joined = pilot.is_none();
                let start = missing.start;
                flyers.extend(pilot.map(|pilot| Flyer { key: key.clone(), name: name.clone(), pilot, start }));
                (passage, joined)
            });
            let fetching = match &flight {
                Some((passage, true)) => passage.began(),
                _ => called,
            };
            let patience = Patience { called, fetching, stale: missing.stale.clone() };
            let lanes = &lanes;
            arrivals.push(async move {
                let arriving = self.arrive(flight, &name, key, missing, lanes);
                let result = self.in_time(arriving, patience).await.unwrap_or_else(|instead| instead);
                (name, result)
            });
        }
        let core = Arc::clone(self);
        if flyers.len() > 1 {
            self.spawn(async move { drop(core.fly_together(flyers, None).await) }.in_current_span());
        } else {
            for Flyer { key, name, pilot, start } in flyers {
                self.spawn(Arc::clone(self).fly(key, name, pilot, start).in_current_span());
            }
        }
        join_all(arrivals).await
    }

    /// The outcome for one key. If the flight that loads several keys brings none, the key waits for its turn and gets
    /// a flight of its own.
    async fn arrive(
        self: &Arc<Self>,
        flight: Option<(Passage<V>, bool)>,
        name: &Key,
        key: &K,
        missing: Missing<V>,
        lanes: &Semaphore,
    ) -> Result<Lookup<V>, CacheError> {
        let (mut join, mut missing) = (Join::Any, Some(missing));
        if let Some((passage, joined)) = flight {
            if let Some(outcome) = passage.outcome().await {
                return Self::lookup_of(outcome, joined);
            }
            (join, missing) = (Join::BeforeLoad, None);
        }
        // The semaphore is never closed. An error would only mean that this key does not wait for its turn.
        let _lane = lanes.acquire().await;
        self.in_turn(key, name, join, missing).await
    }

    /// Fetches one key. If the limits refuse the load, it tries again until the time of a lease and a load is over. A
    /// read of a single key returns [`CacheError::Shed`] at the first refusal.
    async fn in_turn(
        self: &Arc<Self>,
        key: &K,
        name: &Key,
        join: Join,
        mut missing: Option<Missing<V>>,
    ) -> Result<Lookup<V>, CacheError> {
        let give_up = Instant::now() + self.settings.lease + self.settings.load_timeout;
        loop {
            match self.find_or_fetch(key, name, join, missing.take()).await {
                Err(CacheError::Shed { retry_after })
                    if Instant::now() < give_up && !self.loader.limits.is_refusing() =>
                {
                    sleep(retry_after.min(POLL)).await;
                }
                result => return result,
            }
        }
    }
}
