use std::{sync::Arc, time::Duration};

/// Evidence that the store has missed no invalidation. That of another connection is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust(u64);

impl Trust {
    pub(crate) fn of_connection(number: u64) -> Self {
        Self(number)
    }
}

/// How long the channel of a cache may be silent, and no question be answered, before the in-process tier is no longer
/// trusted. Beats come each second.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// After so long every process has heard of an invalidation, or serves nothing from memory: [`SILENCE`] by a clock that
/// goes faster by one in a hundred, as leases reckon with.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_millis(3_030);

/// For so long the server that a new run replaced may go on taking writes: until its replicas have not been heard of
/// for `min-replicas-max-lag`, 10 s at most, which Redis counts in whole seconds and once a second. One more for a
/// server that is busy.
pub(crate) const OLD_PRIMARY_WRITES: Duration = Duration::from_secs(13);

/// A run of the store whose values may have missed invalidations, as far as anybody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsureRun {
    pub(crate) id: Arc<str>,
    /// The number of the connection to it. On the next one it may be a server that was replaced in between.
    pub(crate) connection: u64,
    /// Whether another server may take writes for a while that this one never hears of.
    pub(crate) has_rival: bool,
}
