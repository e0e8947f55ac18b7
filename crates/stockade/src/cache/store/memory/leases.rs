use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    cache::store::{Token, Wake, Wakes},
    clock::Instant,
    resource::Key,
};

/// The leases of a cache without Redis: one load at a time for each key.
#[derive(Debug)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Key, Holder>>,
    wakes: Arc<Wakes>,
    lease: Duration,
}

#[derive(Debug)]
struct Holder {
    token: Token,
    until: Instant,
}

impl Leases {
    pub(crate) fn of(lease: Duration) -> Self {
        Self { held: Mutex::default(), wakes: Arc::default(), lease }
    }

    /// Takes the lease. If somebody else has it, returns how long until it expires.
    pub(crate) fn take(&self, key: &Key, token: &Token) -> Result<(), Duration> {
        let mut held = self.held.lock();
        let now = Instant::now();
        let left = held.get(key).map_or(Duration::ZERO, |held| held.until.since(now));
        if !left.is_zero() {
            return Err(left);
        }
        held.insert(key.clone(), Holder { token: token.clone(), until: now + self.lease });
        Ok(())
    }

    /// Gives the lease back, and calls `last` before anybody else can take it. Does nothing if the lease is void.
    pub(crate) fn end<T>(&self, key: &Key, token: &Token, last: impl FnOnce() -> T) -> Option<T> {
        let mut held = self.held.lock();
        if held.get(key).is_none_or(|held| held.token != *token) {
            return None;
        }
        let done = last();
        held.remove(key);
        drop(held);
        self.wakes.wake(key.as_str());
        Some(done)
    }

    /// Voids the leases of these keys, whoever has them.
    pub(crate) fn void(&self, keys: &[Key]) {
        for key in keys {
            self.held.lock().remove(key);
            self.wakes.wake(key.as_str());
        }
    }

    pub(crate) fn void_all(&self) {
        self.held.lock().clear();
        self.wakes.wake_all();
    }

    /// Must be made before the lease is asked for.
    pub(crate) fn watch(&self, key: &Key) -> Wake {
        self.wakes.watch(key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_at_a_time_has_it_until_it_ends_or_is_void() {
        let leases = Leases::of(Duration::from_secs(60));
        let (key, other) = (Key::new("stock", "a").unwrap(), Key::new("stock", "b").unwrap());
        let (first, second) = (Token::random(), Token::random());
        assert_eq!(leases.take(&key, &first), Ok(()));
        let mut news = leases.watch(&key);
        assert!(leases.take(&key, &second).is_err_and(|left| left > Duration::from_secs(50)));
        assert_eq!(leases.take(&other, &second), Ok(()));
        assert_eq!(leases.end(&key, &second, || ()), None, "the lease of another was given back");
        assert!(news.woken().now_or_never().is_none());
        assert_eq!(leases.end(&key, &first, || 7), Some(7));
        assert!(news.woken().now_or_never().is_some());
        assert_eq!(leases.take(&key, &second), Ok(()));
        leases.void(std::slice::from_ref(&key));
        assert!(news.woken().now_or_never().is_some());
        assert_eq!(leases.end(&key, &second, || ()), None, "it was void");
    }

    #[test]
    fn it_does_not_outlive_its_time() {
        let leases = Leases::of(Duration::ZERO);
        let key = Key::new("stock", "a").unwrap();
        let (first, second) = (Token::random(), Token::random());
        assert_eq!(leases.take(&key, &first), Ok(()));
        assert_eq!(leases.take(&key, &second), Ok(()));
        assert_eq!(leases.end(&key, &first, || ()), None);
        assert_eq!(leases.end(&key, &second, || ()), Some(()));
    }
}
