//! The circuit breaker in front of a store or a database.

use std::time::Duration;

/// Refused by an open breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) retry_after: Duration,
}

/// Closed until several calls in a row failed (time-outs count), then open for a while, then half-open: one call is let
/// through and decides. Used for Redis here and for the database in the cache; no Redis type in its interface.
#[derive(Debug)]
pub(crate) struct Breaker {}

impl Breaker {
    /// `name` is the closed metric label: `redis_lock`, `redis_cache` or `database`.
    pub(crate) fn new(_name: &'static str) -> Self {
        todo!()
    }

    /// Asks to make a call; the permit reports success or failure, and counts as neither when dropped.
    pub(crate) fn permit(&self) -> Result<Permit<'_>, Refused> {
        todo!()
    }

    /// Whether a call would be refused now, without taking the half-open place.
    pub(crate) fn refusing(&self) -> Option<Refused> {
        todo!()
    }
}

/// Leave to make one call.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
}

impl Permit<'_> {
    pub(crate) fn succeeded(self) {
        let _ = self.breaker;
        todo!()
    }

    pub(crate) fn failed(self) {
        todo!()
    }
}
