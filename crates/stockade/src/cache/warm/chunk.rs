use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{WarmProgress, WarmReport, WarmState};
use crate::{
    cache::{
        CacheError, Source,
        core::Core,
        fetch::{Flyer, Start},
        flight::{Join, Outcome},
        load::Admission,
        store::{Read, Wake, Want, some_at_a_time},
    },
    clock::Instant,
    resource::{Key, Resource},
};

/// How long the store may leave questions unanswered before the warm-up gives up: longer than a breaker stays open
/// after a few that came late.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// How often a key is tried that others load, and then do not store.
const ATTEMPTS: usize = 4;

/// Some keys of a warm-up.
pub(super) struct Chunk<K, V> {
    pub(super) core: Arc<Core<K, V>>,
    pub(super) progress: WarmProgress,
    /// No load begins any more.
    pub(super) stop: CancellationToken,
}

/// A key that is not there.
struct Missing<K> {
    key: K,
    name: Key,
    start: Start,
}

/// A key of which somebody else's load or write is in the way.
struct Left<K> {
    key: K,
    name: Key,
    /// Made before it was asked for, so that no news is missed.
    wake: Wake,
    /// Whoever loads it is given up then.
    news: Duration,
}

impl<K, V> Clone for Chunk<K, V> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), progress: self.progress.clone(), stop: self.stop.clone() }
    }
}

impl<K, V> Chunk<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(super) async fn warm(self, keys: Vec<K>) {
        let missing = self.missing(self.named(keys)).await;
        let batches = self.core.loader.loads_batches();
        let loads: Vec<_> =
            if batches { vec![missing] } else { missing.into_iter().map(|missing| vec![missing]).collect() };
        // On tasks of the cache: a load that is dropped half-way would leave its lease behind.
        let loads: Vec<_> = loads.into_iter().map(|load| self.core.tasks.spawn(self.clone().load(load))).collect();
        join_all(loads).await;
    }

    /// Those that are keys, once each, and that this process does not have.
    fn named(&self, keys: Vec<K>) -> Vec<(Key, K)> {
        let core = &self.core;
        let (mut seen, mut named) = (HashSet::new(), Vec::with_capacity(keys.len()));
        for key in keys {
            match Key::of(&key) {
                Ok(name) if !seen.insert(name.clone()) => {}
                Ok(name) if core.fresh(&name).is_some() => self.count(|report| &mut report.present),
                Ok(name) => named.push((name, key)),
                Err(error) => {
                    tracing::warn!(cache = core.settings.name, %error, "no key to warm");
                    self.count(|report| &mut report.failed);
                }
            }
        }
        self.progress.count(|report| report.keys += u64::try_from(named.len()).unwrap_or(u64::MAX));
        named
    }

    /// Those of the keys that the store does not have. It is asked for all at once, and again for those that it did not
    /// answer.
    async fn missing(&self, keys: Vec<(Key, K)>) -> Vec<Missing<K>> {
        let core = &self.core;
        core.attempted().await;
        let reserve = |(name, key)| (core.local.reserve(&name), name, key);
        let mut asked: Vec<_> = keys.into_iter().map(reserve).collect();
        let mut missing = Vec::new();
        let patience = Instant::now() + PATIENCE;
        loop {
            let trust = core.trust();
            let reads = some_at_a_time(asked.iter().map(|(_, name, _)| core.store.read(name))).await;
            let mut unanswered = Vec::new();
            for ((reservation, name, key), read) in asked.into_iter().zip(reads) {
                let want = match read {
                    Read::Hit(entry) if core.still_trusted(trust) => {
                        core.local.put_found(reservation, &name, entry);
                        self.end(|report| &mut report.present);
                        continue;
                    }
                    Read::Down => {
                        unanswered.push(reserve((name, key)));
                        continue;
                    }
                    Read::Stale(_) | Read::Miss => Want::Value,
                    Read::Hit(_) | Read::Unreadable => Want::Load,
                };
                missing.push(Missing { key, name, start: Start::Lease(want) });
            }
            if unanswered.is_empty() {
                break;
            }
            if Instant::now() >= patience {
                self.progress.end(WarmState::Unavailable);
                self.stop.cancel();
                break;
            }
            asked = unanswered;
            sleep(PAUSE).await;
        }
        missing
    }

    /// Loads them, and what somebody else loads once that is over and it is still missing.
    async fn load(self, mut keys: Vec<Missing<K>>) {
        for _ in 0..ATTEMPTS {
            if keys.is_empty() {
                break;
            }
            let mut left = Vec::new();
            for load in self.apart(keys) {
                let Some(admission) = self.unless_over(self.core.loader.limits.admit_spare()).await else { return };
                left.extend(self.load_within(admission, load).await);
            }
            let Some(missing) = self.unless_over(self.still_missing(left)).await else { return };
            keys = missing;
        }
    }

    /// As one load, but for those that failed lately: each of them could fail the others with it.
    fn apart(&self, keys: Vec<Missing<K>>) -> Vec<Vec<Missing<K>>> {
        let (alone, together): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|missing| self.core.local.failing().has(&missing.name));
        let alone = alone.into_iter().map(|missing| vec![missing]);
        alone.chain([together]).filter(|load| !load.is_empty()).collect()
    }

    async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            () = self.core.loader.closing.cancelled() => None,
            done = work => Some(done),
        }
    }

    /// Loads them as one, in a place that reads leave. The place comes before the leases, so that no read waits for a
    /// load that waits itself. It is not kept for those that somebody else loads, nor are their flights: a read that
    /// boarded one would wait for a place of the warm-up.
    async fn load_within(&self, admission: Admission<'_>, keys: Vec<Missing<K>>) -> Vec<Left<K>> {
        let core = &self.core;
        let (mut flyers, mut flights) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for Missing { key, name, start } in keys {
            let wake = core.store.watch(&name);
            let (passage, pilot) = core.flights.board(&name, Join::Any);
            let joined = pilot.is_none();
            flyers.extend(pilot.map(|pilot| Flyer { key: key.clone(), name: name.clone(), pilot, start }));
            flights.push((key, name, wake, passage, joined));
        }
        let news = if flyers.is_empty() {
            drop(admission);
            HashMap::new()
        } else {
            core.fly_together(flyers, Some(admission)).await
        };
        let mut left = Vec::new();
        for (key, name, wake, passage, joined) in flights {
            match passage.outcome().await {
                Some(outcome) => self.note(outcome, joined),
                None => {
                    let news = news.get(&name).copied().unwrap_or_default();
                    left.push(Left { key, name, wake, news });
                }
            }
        }
        left
    }

    /// Those that are not there either when somebody else's load is over.
    async fn still_missing(&self, left: Vec<Left<K>>) -> Vec<Missing<K>> {
        let over = left.into_iter().map(|Left { key, name, mut wake, news }| async move {
            // Without news it was lost, or its load ended with its process.
            let _ = timeout(news, wake.woken()).await;
            (name, key)
        });
        self.missing(join_all(over).await).await
    }

    fn note(&self, outcome: Outcome<V>, joined: bool) {
        match outcome {
            Outcome::Answer(answer, _) => {
                let absent = answer.entry.value.is_none();
                match answer.source {
                    Source::Load if answer.stored && joined => self.end(|report| &mut report.present),
                    Source::Load if answer.stored && absent => self.end(|report| &mut report.absent),
                    Source::Load if answer.stored => self.end(|report| &mut report.loaded),
                    // A writer was faster, or Redis went away.
                    Source::Load => {}
                    Source::Filter => self.end(|report| &mut report.absent),
                    Source::Local | Source::Redis if answer.entry.is_fresh(Instant::now()) => {
                        self.end(|report| &mut report.present);
                    }
                    // An expired value in place of a load that failed, now or a moment ago.
                    Source::Local | Source::Redis => self.end(|report| &mut report.failed),
                }
            }
            Outcome::Failed(CacheError::ShuttingDown | CacheError::Shed { .. }) => {}
            Outcome::Failed(_) | Outcome::Lost => self.end(|report| &mut report.failed),
        }
    }

    /// One more key, of which this is known at once.
    fn count(&self, field: impl FnOnce(&mut WarmReport) -> &mut u64) {
        self.progress.count(|report| report.keys += 1);
        self.end(field);
    }

    /// What became of a key that was counted before.
    fn end(&self, field: impl FnOnce(&mut WarmReport) -> &mut u64) {
        self.progress.count(|report| *field(report) += 1);
    }
}
