use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    attempt::Attempt,
    failed_load::Loads,
    next_step::{Permit, Purpose, Step},
    start::{Leased, Start},
};
use crate::{
    cache::{
        CacheError, Loaded, Source,
        core::{CacheKey, CacheValue, Core},
        flight::{Answer, Outcome, Pilot},
        load::{Admission, Load},
        store::{Hold, Lease, Want, some_at_a_time},
    },
    resource::Key,
};

/// One key of a batch, whose flight this call has begun and must end.
pub(crate) struct Flyer<K, V> {
    pub(crate) key: K,
    pub(crate) name: Key,
    pub(crate) pilot: Pilot<V>,
    pub(crate) start: Start,
}

/// How one key of a batch is loaded.
enum Grant<V> {
    Leased(Leased<V>),
    /// Without a lease: the value is not stored. `degraded` if the reason is that the store is away.
    Unleased {
        degraded: bool,
    },
}

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    /// Fetches several keys together: one round trip for the leases, one load, one round trip to store. A flight whose
    /// key can't be loaded now ends without an outcome. Such keys are returned, each with the longest time to wait
    /// before asking again.
    ///
    /// If `admission` is given, the load uses it instead of asking the limits for one.
    pub(crate) async fn fly_together(
        self: &Arc<Self>,
        flyers: Vec<Flyer<K, V>>,
        admission: Option<Admission<'_>>,
    ) -> HashMap<Key, Duration> {
        let possible = self.possible(flyers).await;
        let asked = possible.iter().map(|flyer| async {
            let attempt = self.attempt(&flyer.name, &flyer.pilot, Purpose::Batch);
            let reply = match flyer.start {
                Start::Miss => self.lease(&flyer.name, &attempt, Want::Value).await,
                Start::Lease(want) => self.lease(&flyer.name, &attempt, want).await,
                Start::Degraded => Lease::Down,
            };
            (attempt, reply)
        });
        let asked = some_at_a_time(asked).await;
        let (mut loading, mut left) = (Vec::new(), HashMap::new());
        for (flyer, (attempt, reply)) in possible.into_iter().zip(asked) {
            let news = match self.next_step(&flyer.name, &attempt, reply, None) {
                Step::Load(permit) => {
                    loading.extend(self.granted(flyer, attempt, permit));
                    continue;
                }
                Step::Land(outcome) => {
                    flyer.pilot.land(outcome);
                    continue;
                }
                Step::Wait(news) => news,
                // A read of this key then finds the value just stored, or loads over the value that can't be served.
                Step::Serve(_) | Step::Insist => Duration::ZERO,
            };
            left.insert(flyer.name.clone(), news);
            flyer.pilot.leave();
        }
        if !loading.is_empty() {
            self.load_all(loading, admission).await;
        }
        left
    }

    /// How this key is loaded with the others; `None` if an expired value of this process ended the flight instead.
    fn granted(
        self: &Arc<Self>,
        flyer: Flyer<K, V>,
        attempt: Attempt,
        permit: Permit<V>,
    ) -> Option<(Flyer<K, V>, Grant<V>)> {
        let grant = match permit {
            Permit::Leased(stale) => Grant::Leased(attempt.granted(stale)),
            Permit::Unstored(overdue) => {
                self.ask_about(&flyer.name, overdue);
                Grant::Unleased { degraded: false }
            }
            Permit::StoreAway => match self.within_grace(&flyer.name) {
                Some(entry) => {
                    flyer.pilot.land(Outcome::Answer(Answer::from_entry(entry, Source::Local, true), None));
                    return None;
                }
                None => Grant::Unleased { degraded: true },
            },
        };
        Some((flyer, grant))
    }

    /// The keys that the filter does not rule out. Ends the flights of the others.
    async fn possible(&self, flyers: Vec<Flyer<K, V>>) -> Vec<Flyer<K, V>> {
        let marks: Vec<_> = flyers.iter().map(|flyer| flyer.pilot.ask()).collect();
        let absent = self.surely_absent(&flyers.iter().map(|flyer| &flyer.name).collect::<Vec<_>>()).await;
        let mut possible = Vec::with_capacity(flyers.len());
        for ((flyer, absent), mark) in flyers.into_iter().zip(absent).zip(marks) {
            if absent && flyer.start == Start::Miss {
                flyer.pilot.land(Outcome::Answer(Answer::ruled_out(), Some(mark)));
            } else {
                possible.push(flyer);
            }
        }
        possible
    }

    async fn load_all(&self, loading: Vec<(Flyer<K, V>, Grant<V>)>, admission: Option<Admission<'_>>) {
        let keys = loading.iter().map(|(flyer, _)| flyer.key.clone()).collect();
        let names: Vec<_> = loading.iter().map(|(flyer, _)| &flyer.name).collect();
        let begin = || {
            let ask = |(flyer, grant): &(Flyer<K, V>, Grant<V>)| {
                if matches!(grant, Grant::Unleased { .. }) {
                    flyer.pilot.close();
                }
                flyer.pilot.ask()
            };
            loading.iter().map(ask).collect::<Vec<_>>()
        };
        match self.loader.run_batch(admission, keys, &names, begin).await {
            Ok(Load { mut loaded, took, mark: marks }) => {
                let stored = loading.into_iter().zip(marks).map(|((flyer, grant), mark)| {
                    let loaded = loaded.remove(&flyer.name).unwrap_or_else(|| Loaded::new(None));
                    async move {
                        let Flyer { name, pilot, .. } = flyer;
                        let loaded = match self.loader.accept(&name, loaded) {
                            Ok(loaded) => loaded,
                            Err(error) => {
                                return pilot.land(match grant {
                                    Grant::Leased(leased) => self.give_up(&name, leased, error, Loads::One).await,
                                    Grant::Unleased { .. } => self.unleased_failed(&name, error),
                                });
                            }
                        };
                        let outcome = match grant {
                            Grant::Leased(leased) => {
                                let load = Load { loaded, took, mark };
                                self.store_loaded(&name, &pilot, &leased, load).await
                            }
                            Grant::Unleased { degraded } => {
                                Outcome::Answer(Answer::unstored(loaded, 0, degraded), Some(mark))
                            }
                        };
                        pilot.land(outcome);
                    }
                });
                some_at_a_time(stored).await;
            }
            Err(error) => self.give_all_up(loading, &error).await,
        }
    }

    /// Ends the flights of a load that failed. If one row may have made the load of all fail, a flight without an
    /// expired value to serve ends without an outcome, so that its key is loaded by itself.
    async fn give_all_up(&self, loading: Vec<(Flyer<K, V>, Grant<V>)>, error: &CacheError) {
        let loads = if loading.len() > 1 { Loads::Several } else { Loads::One };
        let may_be_one = matches!(error, CacheError::Load(_) | CacheError::Panicked);
        let apart = loads == Loads::Several && may_be_one && !self.loader.limits.is_refusing();
        let given_up = loading.into_iter().map(|(Flyer { name, pilot, .. }, grant)| async move {
            let outcome = match grant {
                Grant::Leased(Leased { token, stale, .. }) if apart && self.expired(&name, stale.clone()).is_none() => {
                    self.store.abort(&name, &token, Hold::No).await;
                    return pilot.leave();
                }
                Grant::Leased(leased) => self.give_up(&name, leased, error.clone(), loads).await,
                Grant::Unleased { .. } if apart => return pilot.leave(),
                Grant::Unleased { .. } => self.unleased_failed(&name, error.clone()),
            };
            pilot.land(outcome);
        });
        some_at_a_time(given_up).await;
    }
}
