use std::sync::Arc;

use tracing::Instrument;

use super::patience::Patience;
use crate::{
    cache::{
        CacheError, Lookup,
        core::{CacheKey, CacheValue, Core},
        fetch::{Leased, Loads, Permit, Purpose, Step},
        flight::{Answer, Join, Outcome, Pilot},
        store::Want,
    },
    clock::Instant,
    resource::Key,
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) async fn reload(self: &Arc<Self>, key: &K) -> Result<Lookup<V>, CacheError> {
        let result = self.join_reload(key).await;
        self.counters.request(&result);
        result
    }

    async fn join_reload(self: &Arc<Self>, key: &K) -> Result<Lookup<V>, CacheError> {
        let name = Key::of(key)?;
        let (called, mut join) = (Instant::now(), Join::Any);
        self.attempted().await;
        loop {
            let (passage, pilot) = self.reloads.board(&name, join);
            let joined = pilot.is_none();
            if let Some(pilot) = pilot {
                self.spawn(Arc::clone(self).run_reload(key.clone(), name.clone(), pilot).in_current_span());
            }
            match self.in_time(passage.outcome(), Patience::of(called, None)).await {
                Ok(Some(outcome)) => {
                    let mut found = Self::lookup_of(outcome, joined)?;
                    found.info.forced = true;
                    return Ok(found);
                }
                // That load began before this call. This call shares the next load with all that come meanwhile.
                Ok(None) => join = Join::BeforeLoad,
                Err(too_long) => return too_long,
            }
        }
    }

    async fn run_reload(self: Arc<Self>, key: K, name: Key, pilot: Pilot<V>) {
        let outcome = self.fetch_reload(key, &name, &pilot).await;
        pilot.land(outcome);
    }

    /// Loads under a lease, whatever is stored. The stored value stays until the new one takes its place.
    ///
    /// A call that joins while the loader runs does not get the value of this load. It begins the next load, and
    /// shares that with the other calls that came meanwhile.
    async fn fetch_reload(self: &Arc<Self>, key: K, name: &Key, pilot: &Pilot<V>) -> Outcome<V> {
        let give_up = Some(Instant::now() + self.settings.lease + self.settings.load_timeout);
        loop {
            let attempt = self.attempt(name, pilot, Purpose::Reload);
            let reply = self.lease(name, &attempt, Want::Load).await;
            let degraded = match self.next_step(name, &attempt, reply, give_up) {
                Step::Load(Permit::Leased(_)) => {
                    return self.load_reload(key, name, pilot, &attempt.granted(None)).await;
                }
                Step::Land(outcome) => return outcome,
                // The holder of the lease may have read the row before this call began. So this call waits for the end
                // of that load, but does not take its value.
                Step::Wait(left) => match attempt.news(left, &self.loader.aborting).await {
                    Ok(()) => continue,
                    Err(error) => return Outcome::Failed(error),
                },
                Step::Load(Permit::Committing(overdue)) => {
                    self.ask_about(name, overdue);
                    false
                }
                // `Serve` and `Insist` are no replies to a request for the lease alone: the store counts as away.
                Step::Load(Permit::StoreAway) | Step::Serve(_) | Step::Insist => true,
            };
            if let Some(error) = self.held_off(name) {
                return Outcome::Failed(error);
            }
            return match self.loader.run(None, key, name, || pilot.ask()).await {
                Ok(load) => Outcome::Answer(Answer::unstored(load.loaded, 0, degraded), Some(load.mark)),
                Err(error) => Outcome::Failed(error),
            };
        }
    }

    /// Runs the loader under a lease. If the load fails the result is the error, never an expired value: the caller
    /// asked for a new one.
    async fn load_reload(&self, key: K, name: &Key, pilot: &Pilot<V>, leased: &Leased<V>) -> Outcome<V> {
        match self.loader.run(None, key, name, || pilot.ask()).await {
            Ok(load) => {
                let mark = load.mark;
                match self.store_loaded(name, pilot, leased, load).await {
                    Outcome::Answer(answer, _) => Outcome::Answer(answer, Some(mark)),
                    outcome => outcome,
                }
            }
            Err(error) => {
                self.give_back(name, &leased.token, &error, Loads::One).await;
                Outcome::Failed(error)
            }
        }
    }
}
