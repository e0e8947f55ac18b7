use std::sync::Arc;

use super::{
    next_step::{Permit, Purpose, Step},
    start::Start,
};
use crate::{
    cache::{
        Source,
        core::{CacheKey, CacheValue, Core},
        flight::{Answer, Outcome, Pilot},
        store::Want,
    },
    clock::Instant,
    resource::Key,
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    /// Fetches the value for all passengers of the flight. Runs on a task of the cache.
    pub(crate) async fn fly(self: Arc<Self>, key: K, name: Key, pilot: Pilot<V>, start: Start) {
        let outcome = self.fetch(key, &name, &pilot, start).await;
        pilot.land(outcome);
    }

    async fn fetch(self: &Arc<Self>, key: K, name: &Key, pilot: &Pilot<V>, start: Start) -> Outcome<V> {
        let mut want = match start {
            Start::Degraded => return self.load_degraded(key, name, pilot).await,
            Start::Lease(want) => want,
            Start::Miss => {
                let mark = pilot.ask();
                if self.surely_absent(&[name]).await.first() == Some(&true) {
                    return Outcome::Answer(Answer::ruled_out(), Some(mark));
                }
                Want::Value
            }
        };
        let give_up = Some(Instant::now() + self.settings.lease + self.settings.load_timeout);
        let mut waited = false;
        loop {
            let attempt = self.attempt(name, pilot, Purpose::Read);
            let reply = self.lease(name, &attempt, want).await;
            match self.next_step(name, &attempt, reply, give_up) {
                Step::Serve(entry) => {
                    self.local.put_found(attempt.reservation, name, entry.clone());
                    let answer = Answer { waited, ..Answer::from_entry(entry, Source::Redis, false) };
                    return Outcome::Answer(answer, Some(attempt.mark));
                }
                Step::Land(outcome) => return outcome,
                Step::Load(Permit::Leased(stale)) => {
                    return self.load_leased(None, key, name, pilot, attempt.granted(stale)).await;
                }
                Step::Load(Permit::Unstored(overdue)) => {
                    self.ask_about(name, overdue);
                    return self.load_unleased(key, name, pilot, false).await;
                }
                Step::Load(Permit::StoreAway) => return self.load_degraded(key, name, pilot).await,
                Step::Wait(left) => {
                    pilot.waits();
                    (waited, want) = (true, Want::Value);
                    if let Err(error) = attempt.news(left, &self.loader.aborting).await {
                        return Outcome::Failed(error);
                    }
                }
                Step::Insist => want = Want::Load,
            }
        }
    }
}
