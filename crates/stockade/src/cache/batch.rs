use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use tracing::Instrument;

use super::{
    CacheError, Loaded, Lookup, Source,
    core::{Core, kept, lookup},
    fetch::{Leased, Start, ruled_out, unstored},
    flight::{Board, Outcome, Passage, Pilot},
    limits::Admission,
    load::Load,
    store::{Lease, Token, Want},
};
use crate::resource::{Key, Resource};

/// One key of a batch that this call has to fetch.
pub(super) struct Flyer<K, V> {
    pub(super) key: K,
    pub(super) name: Key,
    pub(super) pilot: Pilot<V>,
    pub(super) start: Start,
}

/// How one key of a batch is loaded.
enum Grant<V> {
    Leased(Leased<V>),
    /// Without a lease: nothing is stored. `degraded` where the store is away.
    Beside {
        degraded: bool,
    },
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
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
        self.attempted().await;
        let mut found = HashMap::with_capacity(wanted.len());
        let mut asked = Vec::new();
        for (name, key) in wanted {
            match self.fresh(&name) {
                Some(entry) => {
                    self.refresh_if_due(key, &name, &entry);
                    found.insert(name, Ok(lookup(kept(entry, Source::Local, false), false)));
                }
                None => asked.push((self.local.reserve(&name), name, key)),
            }
        }
        // All questions are on the wire before the first answer is awaited.
        let assurance = self.assurance();
        let reads = join_all(asked.iter().map(|(_, name, _)| self.store.read(name))).await;
        let (mut flyers, mut passages) = (Vec::new(), Vec::new());
        for ((reservation, name, key), read) in asked.into_iter().zip(reads) {
            let start = match self.judge(key, &name, reservation, read, assurance) {
                Ok(answer) => {
                    found.insert(name, Ok(answer));
                    continue;
                }
                Err(start) => start,
            };
            let (passage, pilot) = self.flights.board(&name, Board::Any);
            let joined = pilot.is_none();
            if let Some(pilot) = pilot {
                flyers.push(Flyer { key: key.clone(), name: name.clone(), pilot, start });
            }
            passages.push(self.arrive(passage, name, key, joined));
        }
        if !flyers.is_empty() {
            self.tasks.spawn(Arc::clone(self).fly_all(flyers).in_current_span());
        }
        found.extend(join_all(passages).await);
        found
    }

    /// The outcome for one key. Where that of the flight is not valid for this call, it asks alone.
    async fn arrive(
        self: &Arc<Self>,
        passage: Passage<V>,
        name: Key,
        key: &K,
        joined: bool,
    ) -> (Key, Result<Lookup<V>, CacheError>) {
        let result = match passage.outcome().await {
            Some(outcome) => self.landed(outcome, joined),
            None => self.look_up(key, Board::NotAsked).await,
        };
        (name, result)
    }

    /// Fetches all of them: one question for leases, one load, one answer to the store.
    async fn fly_all(self: Arc<Self>, flyers: Vec<Flyer<K, V>>) {
        if flyers.len() == 1 || !self.loader.loads_batches() {
            return self.fly_each(flyers);
        }
        self.fly_together(flyers, None).await;
    }

    /// As [`Core::fly_all`]. With an admission the load does not ask for one, and none begins without it: flights that can't
    /// be part of it are left. They are returned, with how long to wait for news of them at most.
    pub(super) async fn fly_together(
        self: &Arc<Self>,
        flyers: Vec<Flyer<K, V>>,
        admission: Option<Admission<'_>>,
    ) -> HashMap<Key, Duration> {
        let marks: Vec<_> = flyers.iter().map(|flyer| flyer.pilot.ask()).collect();
        let absent = self.surely_absent(&flyers.iter().map(|flyer| &flyer.name).collect::<Vec<_>>()).await;
        let mut possible = Vec::with_capacity(flyers.len());
        for ((flyer, absent), mark) in flyers.into_iter().zip(absent).zip(marks) {
            if absent && flyer.start == Start::Lease(Want::Value) {
                flyer.pilot.land(Outcome::Answer(ruled_out(), Some(mark)));
            } else {
                possible.push(flyer);
            }
        }
        let flyers = possible;
        let asked = flyers.iter().map(|flyer| async {
            let (token, reservation) = (Token::random(), self.local.reserve(&flyer.name));
            let (mark, assurance) = (flyer.pilot.ask(), self.assurance());
            let lease = match flyer.start {
                Start::Lease(want) => {
                    let want = if assurance.is_none() { Want::Load } else { want };
                    let content = want == Want::Value && self.may_do(&flyer.name);
                    self.store.lease(&flyer.name, &token, want, content).await
                }
                Start::Degraded => Lease::Down,
            };
            let leased = move |stale| Leased { token, reservation, stale, mark, assurance };
            (leased, lease, mark)
        });
        let leases = join_all(asked).await;
        let (mut loading, mut alone) = (Vec::new(), Vec::new());
        for (mut flyer, (leased, lease, mark)) in flyers.into_iter().zip(leases) {
            let grant = match lease {
                Lease::Granted(stale) => Grant::Leased(leased(stale)),
                Lease::Bypass(overdue) => {
                    self.ask_about(&flyer.name, overdue);
                    Grant::Beside { degraded: false }
                }
                Lease::Down => match self.within_grace(&flyer.name) {
                    Some(entry) => {
                        flyer.pilot.land(Outcome::Answer(kept(entry, Source::Local, true), None));
                        continue;
                    }
                    None => Grant::Beside { degraded: true },
                },
                Lease::Held(stale) => {
                    if let Some(answer) = self.expired(&flyer.name, stale) {
                        flyer.pilot.land(Outcome::Answer(answer, Some(mark)));
                    } else {
                        flyer.start = Start::Lease(Want::Load);
                        alone.push((flyer, Duration::ZERO));
                    }
                    continue;
                }
                // Somebody has it or loads it, or what is there can't be read.
                Lease::Hit(_) | Lease::Wait(_) => {
                    let news = if let Lease::Wait(left) = lease { left } else { Duration::ZERO };
                    flyer.start = Start::Lease(Want::Value);
                    flyer.pilot.waits();
                    alone.push((flyer, news));
                    continue;
                }
                Lease::Unreadable => {
                    self.unreadable(&flyer.name);
                    flyer.start = Start::Lease(Want::Load);
                    alone.push((flyer, Duration::ZERO));
                    continue;
                }
            };
            loading.push((flyer, grant));
        }
        let left = if admission.is_some() {
            let leave = |(flyer, news): (Flyer<K, V>, Duration)| {
                flyer.pilot.leave();
                (flyer.name, news)
            };
            alone.into_iter().map(leave).collect()
        } else {
            self.fly_each(alone.into_iter().map(|(flyer, _)| flyer).collect());
            HashMap::new()
        };
        if !loading.is_empty() {
            self.load_all(loading, admission).await;
        }
        left
    }

    fn fly_each(self: &Arc<Self>, flyers: Vec<Flyer<K, V>>) {
        for Flyer { key, name, pilot, start } in flyers {
            self.tasks.spawn(Arc::clone(self).fly(key, name, pilot, start).in_current_span());
        }
    }

    async fn load_all(&self, loading: Vec<(Flyer<K, V>, Grant<V>)>, admission: Option<Admission<'_>>) {
        let keys = loading.iter().map(|(flyer, _)| flyer.key.clone()).collect();
        let begin = || {
            let ask = |(flyer, grant): &(Flyer<K, V>, Grant<V>)| {
                if matches!(grant, Grant::Beside { .. }) {
                    flyer.pilot.close();
                }
                flyer.pilot.ask()
            };
            loading.iter().map(ask).collect::<Vec<_>>()
        };
        match self.loader.run_batch(admission, keys, begin).await {
            Ok(Load { mut loaded, took, mark: marks }) => {
                let stored = loading.into_iter().zip(marks).map(|((flyer, grant), mark)| {
                    let loaded = loaded.remove(&flyer.name).unwrap_or_else(|| Loaded::new(None));
                    let loaded = self.loader.accept(loaded);
                    async move {
                        let Flyer { name, pilot, .. } = flyer;
                        let loaded = match loaded {
                            Ok(loaded) => loaded,
                            Err(error) => {
                                if let Grant::Leased(Leased { token, .. }) = &grant {
                                    self.store.abort(&name, token, Duration::ZERO).await;
                                }
                                return pilot.land(Outcome::Failed(error));
                            }
                        };
                        let outcome = match grant {
                            Grant::Leased(leased) => {
                                let load = Load { loaded, took, mark };
                                self.store_loaded(&name, &pilot, &leased, load).await
                            }
                            Grant::Beside { degraded } => Outcome::Answer(unstored(loaded, 0, degraded), Some(mark)),
                        };
                        pilot.land(outcome);
                    }
                });
                join_all(stored).await;
            }
            Err(error) => {
                let given_up = loading.into_iter().map(|(flyer, grant)| {
                    let error = error.clone();
                    async move {
                        let outcome = match grant {
                            Grant::Leased(leased) => self.give_up(&flyer.name, leased, error).await,
                            Grant::Beside { .. } => self.beside_failed(&flyer.name, error),
                        };
                        flyer.pilot.land(outcome);
                    }
                });
                join_all(given_up).await;
            }
        }
    }
}
