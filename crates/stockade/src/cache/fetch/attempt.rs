use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{
    next_step::{Asked, Purpose, Step, next_step},
    start::Leased,
};
use crate::{
    cache::{
        CacheError,
        core::{CacheKey, CacheValue, Core},
        flight::Pilot,
        local::Reservation,
        store::{Lease, Token, Trust, Wake, Want, until_news},
        value::Entry,
    },
    clock::Instant,
    resource::Key,
};

/// One request for a lease, with everything that must be noted before the request is sent.
pub(crate) struct Attempt {
    purpose: Purpose,
    token: Token,
    pub(crate) reservation: Reservation,
    /// Passengers with a lower number boarded before the request, and may take the reply.
    pub(crate) mark: u64,
    /// The trust in the store before the request.
    trust: Option<Trust>,
    /// Is notified when another process's load of the key ends. Made before the request, so that no notification is
    /// missed.
    wake: Option<Wake>,
}

impl Attempt {
    /// The lease, once the store has granted the request.
    pub(crate) fn granted<V>(self, stale: Option<Entry<V>>) -> Leased<V> {
        let Self { token, reservation, mark, trust, .. } = self;
        Leased { token, reservation, stale, mark, trust }
    }

    /// Waits until another process's load ends, for `left` at most. The error says that this cache gives up what still
    /// runs. Cancel safe.
    pub(crate) async fn news(mut self, left: Duration, aborting: &CancellationToken) -> Result<(), CacheError> {
        let Some(wake) = &mut self.wake else { return Ok(()) };
        aborting.run_until_cancelled(until_news(wake, left)).await.ok_or(CacheError::ShuttingDown)
    }
}

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) fn attempt(&self, name: &Key, pilot: &Pilot<V>, purpose: Purpose) -> Attempt {
        let (token, reservation) = (Token::random(), self.local.reserve(name));
        let wake = (purpose == Purpose::Read).then(|| self.store.watch(name));
        Attempt { purpose, token, reservation, mark: pilot.ask(), trust: self.trust(), wake }
    }

    /// Asks the store for the value or the lease to load it. If hits are not trusted, it asks for the lease only.
    pub(crate) async fn lease(&self, name: &Key, attempt: &Attempt, want: Want) -> Lease<V> {
        let want = if attempt.trust.is_none() { Want::Load } else { want };
        let has_fallback = match attempt.purpose {
            Purpose::Refresh => true,
            Purpose::Read | Purpose::Batch => want == Want::Value && self.has_fallback(name),
        };
        self.store.lease(name, &attempt.token, want, has_fallback).await
    }

    /// What follows from the reply. After `give_up` the call no longer waits for loads of other processes.
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
        let is_trusted = self.still_trusted(attempt.trust);
        let asked = Asked {
            mark: attempt.mark,
            is_trusted,
            waits_in_vain: !is_trusted && attempt.purpose == Purpose::Read,
            overtime: is_over.then_some(self.settings.load_timeout),
        };
        next_step(reply, asked, |stored| self.expired(name, stored))
    }

    /// Whether this process has an expired value to serve while loads of the key are held off. A value with tags does
    /// not count: the message that invalidates a tag may still be on its way to this process, and a store that lacks
    /// the value can't check its tags.
    fn has_fallback(&self, name: &Key) -> bool {
        self.within_grace(name).is_some_and(|entry| entry.tags.is_empty())
    }
}
