use crate::cache::{
    local::Reservation,
    store::{Token, Trust, Want},
    value::Entry,
};

/// How the fetch of a value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// There is no valid value. If the filter does not rule the row out, lease the load.
    Miss,
    /// Lease the load at once.
    Lease(Want),
    /// The store did not answer: load without a lease, and do not store the value.
    Degraded,
}

/// The result of a read that found no answer.
pub(crate) struct Missing<V> {
    pub(crate) start: Start,
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
    /// Passengers with a lower number boarded before the request, and may take the expired value.
    pub(crate) mark: u64,
    /// The trust in the store before the request.
    pub(crate) trust: Option<Trust>,
}
