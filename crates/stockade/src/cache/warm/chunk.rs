use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{WarmProgress, WarmReport, WarmState};
use crate::{
    cache::{
        CacheError, Source,
        core::{CacheKey, CacheValue, Core},
        fetch::{Flyer, Start},
        flight::{Join, Outcome},
        load::Admission,
        store::{Read, Wake, Want, some_at_a_time},
    },
    clock::Instant,
    resource::Key,
};

/// How long the store may leave reads unanswered before the warm-up gives up. It is longer than the breaker stays open
/// after a few late replies.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// How often a key is tried if somebody else loads it and then does not store it.
const ATTEMPTS: usize = 4;

/// Warms some keys of a warm-up at a time.
pub(super) struct Chunk<K, V> {
    pub(super) core: Arc<Core<K, V>>,
    pub(super) progress: WarmProgress,
    /// Once cancelled, no load begins.
    pub(super) stop: CancellationToken,
}

/// A key whose value is not in the store.
struct Missing<K> {
    key: K,
    name: Key,
    start: Start,
}

/// A key that could not be loaded yet, because somebody else is loading or writing it.
struct Left<K> {
    key: K,
    name: Key,
    /// Is notified when that load ends. Made before the lease was asked for, so that no notification is missed.
    wake: Wake,
    /// How long to wait for the end of that load.
    news: Duration,
}

impl<K: CacheKey, V: CacheValue> Chunk<K, V> {
    pub(super) async fn warm(self: Arc<Self>, keys: Vec<K>) {
        let missing = self.missing(self.named(keys)).await;
        let batches = self.core.loader.load_batch.is_some();
        let loads: Vec<_> =
            if batches { vec![missing] } else { missing.into_iter().map(|missing| vec![missing]).collect() };
        // On tasks of the cache: a load that is dropped half-way would leave its lease behind.
        let loads: Vec<_> = loads.into_iter().map(|load| self.core.spawn(Arc::clone(&self).load(load))).collect();
        join_all(loads).await;
    }

    /// The keys that are valid and not in the memory of this process, each once. Counts the others.
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

    /// The keys whose value is not in the store. All are read at once, and reads without an answer are repeated.
    async fn missing(&self, keys: Vec<(Key, K)>) -> Vec<Missing<K>> {
        let core = &self.core;
        core.attempted().await;
        let reserve = |(name, key)| (core.local.reserve(&name), name, key);
        let mut asked: Vec<_> = keys.into_iter().map(reserve).collect();
        let mut missing = Vec::new();
        let patience = Instant::now() + PATIENCE;
        loop {
            let called = Instant::now();
            let trust = core.trust();
            let reads = some_at_a_time(asked.iter().map(|(_, name, _)| core.store.read(name, called))).await;
            let mut unanswered = Vec::new();
            for ((reservation, name, key), read) in asked.into_iter().zip(reads) {
                let start = match read {
                    Read::Hit(entry, _) if core.still_trusted(trust) => {
                        core.local.put_found(reservation, &name, entry);
                        self.end(|report| &mut report.present);
                        continue;
                    }
                    Read::Down => {
                        unanswered.push(reserve((name, key)));
                        continue;
                    }
                    Read::Stale(_) | Read::Miss => Start::Miss,
                    Read::Hit(..) | Read::Unreadable => Start::Lease(Want::Load),
                };
                missing.push(Missing { key, name, start });
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

    /// Loads the keys. A key that somebody else loads is tried again after that load, if it is still missing.
    async fn load(self: Arc<Self>, mut keys: Vec<Missing<K>>) {
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

    /// Puts the keys into one load, and each key whose load failed lately into a load of its own: it could make the
    /// load of all the others fail.
    fn apart(&self, keys: Vec<Missing<K>>) -> Vec<Vec<Missing<K>>> {
        let (alone, together): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|missing| self.core.local.failing().has(&missing.name));
        let alone = alone.into_iter().map(|missing| vec![missing]);
        alone.chain([together]).filter(|load| !load.is_empty()).collect()
    }

    /// The result of `work`, or `None` if the warm-up or the cache ends first.
    async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            () = self.core.loader.closing.cancelled() => None,
            done = work => Some(done),
        }
    }

    /// Loads the keys as one load, in a place that reads leave free. The place is taken before the leases, so no read
    /// ever waits for a warm-up load that is still waiting for a place. A key that somebody else loads keeps neither
    /// the place nor its flight: a read that boarded the flight would wait until the warm-up gets a place again.
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

    /// Waits for the loads of others, and returns the keys that are still missing afterwards.
    async fn still_missing(&self, left: Vec<Left<K>>) -> Vec<Missing<K>> {
        let over = left.into_iter().map(|Left { key, name, mut wake, news }| async move {
            // Without a notification the message was lost, or the process that loaded the key ended.
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
                    // A write came first, or Redis went away: the key has no result.
                    Source::Load => {}
                    Source::Filter => self.end(|report| &mut report.absent),
                    Source::Local | Source::Redis if answer.entry.is_fresh(Instant::now()) => {
                        self.end(|report| &mut report.present);
                    }
                    // An expired value, because the load failed now or a moment ago.
                    Source::Local | Source::Redis => self.end(|report| &mut report.failed),
                }
            }
            Outcome::Failed(CacheError::ShuttingDown | CacheError::Shed { .. }) => {}
            Outcome::Failed(_) | Outcome::Lost => self.end(|report| &mut report.failed),
        }
    }

    /// Counts a key together with its result.
    fn count(&self, field: impl FnOnce(&mut WarmReport) -> &mut u64) {
        self.progress.count(|report| report.keys += 1);
        self.end(field);
    }

    /// Counts the result of a key that was counted before.
    fn end(&self, field: impl FnOnce(&mut WarmReport) -> &mut u64) {
        self.progress.count(|report| *field(report) += 1);
    }
}
