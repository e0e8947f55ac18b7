use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use super::start::{Leased, Start};
use crate::{
    cache::{
        CacheError, Source,
        core::Core,
        flight::{Answer, Outcome, Pilot, kept, ruled_out},
        store::{Lease, Token, Want, until_news},
    },
    clock::Instant,
    resource::{Key, Resource},
};

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
}
