use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{WarmProgress, WarmReport, WarmState};
use crate::{
    cache::{
        CacheError, Source,
        batch::Flyer,
        core::Core,
        fetch::Start,
        flight::{Board, Outcome},
        store::{Read, Want},
    },
    clock::Instant,
    resource::{Key, Resource},
};

/// How long the store may leave questions unanswered before the warm-up gives up: longer than a breaker stays open after
/// a few that came late.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

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
        let missing = self.missing(keys).await;
        let batches = self.core.loader.loads_batches();
        let loads: Vec<_> =
            if batches { vec![missing] } else { missing.into_iter().map(|missing| vec![missing]).collect() };
        // On tasks of the cache: a load that is dropped half-way would leave its lease behind.
        let loads = loads.into_iter().filter(|load| !load.is_empty());
        let loads: Vec<_> = loads.map(|load| self.core.tasks.spawn(self.clone().load(load))).collect();
        join_all(loads).await;
    }

    /// Those of the keys that neither this process nor the store has. It asks the store for all at once, and again for
    /// those that it did not answer.
    async fn missing(&self, keys: Vec<K>) -> Vec<Missing<K>> {
        let core = &self.core;
        let (mut seen, mut asked) = (HashSet::new(), Vec::with_capacity(keys.len()));
        for key in keys {
            match Key::of(&key) {
                Ok(name) if !seen.insert(name.clone()) => {}
                Ok(name) if core.fresh(&name).is_some() => self.count(|report| &mut report.present),
                Ok(name) => asked.push((core.local.reserve(&name), name, key)),
                Err(error) => {
                    tracing::warn!(cache = core.settings.name, %error, "no key to warm");
                    self.count(|report| &mut report.failed);
                }
            }
        }
        self.progress.count(|report| report.keys += u64::try_from(asked.len()).unwrap_or(u64::MAX));
        let mut missing = Vec::new();
        let patience = Instant::now() + PATIENCE;
        loop {
            let assurance = core.assurance();
            let reads = join_all(asked.iter().map(|(_, name, _)| core.store.read(name))).await;
            let mut unanswered = Vec::new();
            for ((reservation, name, key), read) in asked.into_iter().zip(reads) {
                let want = match read {
                    Read::Hit(entry) if core.stands(assurance) => {
                        core.local.put_found(reservation, &name, entry);
                        self.end(|report| &mut report.present);
                        continue;
                    }
                    Read::Down => {
                        unanswered.push((core.local.reserve(&name), name, key));
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

    /// Loads them as one, in a place that reads leave. The place comes before the leases, so that no read waits for a
    /// load that waits itself.
    async fn load(self, keys: Vec<Missing<K>>) {
        let core = &self.core;
        let admission = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            () = core.loader.closing.cancelled() => return,
            admission = core.loader.limits.admit_spare() => admission,
        };
        let (mut flyers, mut passages) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for Missing { key, name, start } in keys {
            let (passage, pilot) = core.flights.board(&name, Board::Any);
            passages.push(passage);
            flyers.extend(pilot.map(|pilot| Flyer { key, name, pilot, start }));
        }
        if flyers.is_empty() {
            drop(admission);
        } else {
            core.fly_together(flyers, Some(admission)).await;
        }
        for passage in passages {
            self.note(passage.outcome().await);
        }
    }

    fn note(&self, outcome: Option<Outcome<V>>) {
        match outcome {
            Some(Outcome::Answer(answer, _)) => {
                let absent = answer.entry.value.is_none();
                match answer.source {
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
            Some(Outcome::Failed(CacheError::ShuttingDown | CacheError::Shed { .. })) | None => {}
            Some(Outcome::Failed(_) | Outcome::Lost) => self.end(|report| &mut report.failed),
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
