use std::{sync::Arc, time::Duration};

use super::leases::Leases;
use crate::{
    cache::{
        local::{Local, Reservation},
        store::{Filled, Hold, Lease, Read, Token, Want},
        value::Entry,
    },
    clock::Instant,
    resource::Key,
};

/// The store of a cache without Redis: its values are in the in-process tier, under the same rules as in Redis.
#[derive(Debug)]
pub(crate) struct Memory<V> {
    local: Arc<Local<V>>,
    pub(in crate::cache::store) leases: Leases,
    hold_off: Duration,
}

impl<V> Memory<V> {
    /// `lease`: how long a load holds off other loads of its key at most. `hold_off`: how long a load that fails again
    /// and again does.
    pub(crate) fn of(local: &Arc<Local<V>>, lease: Duration, hold_off: Duration) -> Self {
        Self { local: Arc::clone(local), leases: Leases::of(lease), hold_off }
    }

    pub(crate) fn read(&self, key: &Key) -> Read<V> {
        match self.local.get(key.as_str()) {
            Some(entry) if !entry.is_fresh(Instant::now()) => Read::Stale(entry),
            _ => Read::Miss,
        }
    }

    pub(crate) fn lease(&self, key: &Key, token: &Token, want: Want, has_fallback: bool) -> Lease<V> {
        match self.local.get(key.as_str()) {
            Some(entry) if want == Want::Value && entry.is_fresh(Instant::now()) => Lease::Hit(entry),
            Some(stale) if (has_fallback || want == Want::Value) && self.local.is_held(key) => Lease::Held(Some(stale)),
            stale => match self.local.failing().held(key, self.hold_off) {
                Some(left) => Lease::Failing(left),
                None => match self.leases.take(key, token) {
                    Ok(()) => match self.filled_just_now(key, want, has_fallback) {
                        Some(entry) => {
                            self.leases.end(key, token, || ());
                            Lease::Hit(entry)
                        }
                        None => Lease::Granted(stale),
                    },
                    Err(left) => Lease::Wait(left),
                },
            },
        }
    }

    /// The value of a load that ended after the caller had looked, and before the caller took its lease. A refresh does
    /// without its load only if the value is in the first half of its life, as in `lease.lua`.
    fn filled_just_now(&self, key: &Key, want: Want, has_fallback: bool) -> Option<Entry<V>> {
        let now = Instant::now();
        let entry = self.local.get(key.as_str()).filter(|entry| entry.is_fresh(now))?;
        let is_young = now.since(entry.loaded) < entry.expires.since(now);
        (want == Want::Value || has_fallback && is_young).then_some(entry)
    }

    /// Stores the value if its token is current and the reservation, which was made before the token, is valid.
    pub(crate) fn fill(&self, key: &Key, token: &Token, reservation: Reservation, entry: &Entry<V>) -> Filled {
        let put = || self.local.put(reservation, key, entry.clone());
        if self.leases.end(key, token, put) == Some(true) { Filled::Accepted } else { Filled::Refused }
    }

    pub(crate) fn abort(&self, key: &Key, token: &Token, hold: Hold) {
        let window = if let Hold::Failed { window, .. } = hold { window } else { Duration::ZERO };
        self.leases.end(key, token, || self.local.hold(key, window));
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, convert::Infallible};

    use super::*;
    use crate::{Cache, Resource};

    #[derive(Clone)]
    struct One;

    impl Resource for One {
        const KIND: &'static str = "one";

        fn id(&self) -> Cow<'_, str> {
            "one".into()
        }
    }

    #[tokio::test]
    async fn a_refresh_that_comes_after_another_one_loads_nothing() {
        let cache = Cache::memory().loader(|_: One| async { Ok::<_, Infallible>(Some(7)) }).build();
        cache.get(&One).await.unwrap();
        let key = Key::of(&One).unwrap();
        let lease = async |want, has_fallback| cache.core.store.lease(&key, &Token::random(), want, has_fallback).await;
        assert!(matches!(lease(Want::Load, true).await, Lease::Hit(_)));
        assert!(matches!(lease(Want::Load, false).await, Lease::Granted(_)), "a caller that can't use the value");
    }
}
