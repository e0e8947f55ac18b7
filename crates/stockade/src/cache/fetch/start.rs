use crate::cache::{
    local::Reservation,
    store::{Token, Trust, Want},
    value::Entry,
};

/// How a flight begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Lease(Want),
    /// The store did not answer: load without a lease, store nothing.
    Degraded,
}

/// What a read has found that did not answer it.
pub(crate) struct Missing<V> {
    pub(crate) start: Start,
    /// A value that expired.
    pub(crate) stale: Option<Entry<V>>,
}

impl<V> From<Start> for Missing<V> {
    fn from(start: Start) -> Self {
        Self { start, stale: None }
    }
}

/// A lease under which a load runs.
pub(crate) struct Leased<V> {
    pub(crate) token: Token,
    pub(crate) reservation: Reservation,
    pub(crate) stale: Option<Entry<V>>,
    /// The number before which passengers boarded in time for the expired value.
    pub(crate) mark: u64,
    /// The trust in the store when it was asked for.
    pub(crate) trust: Option<Trust>,
}
