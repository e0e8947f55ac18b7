use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    next_step::{Asked, Purpose, Step, next_step},
    start::Leased,
};
use crate::{
    cache::{
        core::Core,
        flight::Pilot,
        local::Reservation,
        store::{Lease, Token, Trust, Wake, Want, until_news},
        value::Entry,
    },
    clock::Instant,
    resource::{Key, Resource},
};

/// One request for a lease, with all that has to be noted before it is sent.
pub(crate) struct Attempt {
    purpose: Purpose,
    token: Token,
    pub(crate) reservation: Reservation,
    /// The number before which passengers boarded in time for the reply.
    pub(crate) mark: u64,
    /// The trust in the store then.
    trust: Option<Trust>,
    /// Tells of the load of another. Made before the lease is asked for, so that no news is missed.
    wake: Option<Wake>,
}

impl Attempt {
    /// The lease, as it was granted.
    pub(crate) fn granted<V>(self, stale: Option<Entry<V>>) -> Leased<V> {
        let Self { token, reservation, mark, trust, .. } = self;
        Leased { token, reservation, stale, mark, trust }
    }

    /// Waits for news of another's load, but not longer than that may last. Cancel safe.
    pub(crate) async fn news(mut self, left: Duration) {
        if let Some(wake) = &mut self.wake {
            until_news(wake, left).await;
        }
    }
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn attempt(&self, name: &Key, pilot: &Pilot<V>, purpose: Purpose) -> Attempt {
        let (token, reservation) = (Token::random(), self.local.reserve(name));
        let wake = matches!(purpose, Purpose::Read | Purpose::Reload).then(|| self.store.watch(name));
        let (mark, trust) = match purpose {
            // Its passengers board until the loader begins, and take nothing that is stored.
            Purpose::Reload => (0, None),
            Purpose::Read | Purpose::Batch | Purpose::Refresh => (pilot.ask(), self.trust()),
        };
        Attempt { purpose, token, reservation, mark, trust, wake }
    }

    /// Asks the store for the value or the lease to load it. If hits are not trusted, it asks for the lease only.
    pub(crate) async fn lease(&self, name: &Key, attempt: &Attempt, want: Want) -> Lease<V> {
        let want = if attempt.trust.is_none() { Want::Load } else { want };
        let has_fallback = match attempt.purpose {
            Purpose::Refresh => true,
            Purpose::Reload => false,
            Purpose::Read | Purpose::Batch => want == Want::Value && self.has_fallback(name),
        };
        self.store.lease(name, &attempt.token, want, has_fallback).await
    }

    /// What is done about the reply. `give_up`: until when others are waited for.
    pub(crate) fn next_step(
        &self,
        name: &Key,
        attempt: &Attempt,
        reply: Lease<V>,
        give_up: Option<Instant>,
    ) -> Step<V> {
        if attempt.purpose == Purpose::Read && matches!(reply, Lease::Unreadable) {
            self.unreadable(name);
        }
        let is_over = give_up.is_some_and(|give_up| Instant::now() >= give_up);
        let asked = Asked {
            purpose: attempt.purpose,
            mark: attempt.mark,
            is_trusted: self.still_trusted(attempt.trust),
            overtime: is_over.then_some(self.settings.load_timeout),
        };
        next_step(reply, asked, |stored| self.expired(name, stored))
    }

    /// Whether this process has a copy that may take the place of a load, after one that failed lately. None with tags:
    /// word of them may be on its way here, and a store that has no value can't judge it.
    fn has_fallback(&self, name: &Key) -> bool {
        self.within_grace(name).is_some_and(|entry| entry.tags.is_empty())
    }
}
