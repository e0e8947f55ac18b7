use std::{sync::Arc, time::Duration};

/// Evidence that the store has missed no invalidation. It differs for each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust(u64);

impl Trust {
    pub(crate) fn of_connection(number: u64) -> Self {
        Self(number)
    }
}

/// How long the channel of a cache may bring no message, or the server answer no command, before the in-process tier is
/// no longer trusted. Heartbeats come every second.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// After this time every process has heard of an invalidation, or serves nothing from memory. It is [`SILENCE`] plus
/// one percent, because the clock that measures it may run faster by that much. Leases allow for the same drift.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_millis(3_030);

/// How long a server that was replaced by a new run may go on accepting writes. It stops when it has not heard from its
/// replicas for `min-replicas-max-lag`, which is 10 s at most. Redis counts in whole seconds and checks once a second,
/// which adds up to 2 s. One more second is for a busy server.
pub(crate) const OLD_PRIMARY_WRITES: Duration = Duration::from_secs(13);

/// How long an invalidation is kept after it was applied, to be repeated for a store that has lost it: that of a
/// transaction, by its row in the outbox. No value of a strict cache lives longer, so none outlives the row that makes
/// it stale. The builder's error and the documentation name this time as 10 minutes.
pub(crate) const REPEATABLE: Duration = Duration::from_secs(600);

/// A run of the store that may have missed invalidations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsureRun {
    pub(crate) id: Arc<str>,
    /// The number of the connection to the run. On the next connection the same run may have been replaced in between.
    pub(crate) connection: u64,
    /// Whether another server may accept writes for a while, of which this one never hears.
    pub(crate) has_rival: bool,
}
