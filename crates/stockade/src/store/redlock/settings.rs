use std::{ops::RangeInclusive, time::Duration};

use super::keys::KeyFormat;

/// The least node timeout that is derived from a lease. With less, a busy client would take its own delay for a slow
/// server.
const LEAST_NODE_TIMEOUT: Duration = Duration::from_millis(20);

/// Settings of locks on several servers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Default: a tenth of the lease, at least 20 ms. Never more than the command timeout.
    pub(crate) node_timeout: Option<Duration>,
    /// Default: half of the lease.
    pub(crate) min_validity: Option<Duration>,
    /// The shortest and the longest pause between two rounds of a waiter.
    pub(crate) retry: RangeInclusive<Duration>,
    pub(crate) key_format: Option<KeyFormat>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_timeout: None,
            min_validity: None,
            retry: Duration::from_millis(10)..=Duration::from_millis(200),
            key_format: None,
        }
    }
}

impl Settings {
    /// How long to wait for a quorum of answers: once for the lock, and again for each token that must be raised.
    pub(super) fn node_timeout(&self, lease: Duration, command: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| (lease / 10).max(LEAST_NODE_TIMEOUT)).min(command)
    }

    /// A grant with less of its lease left is given back.
    pub(super) fn min_validity(&self, lease: Duration) -> Duration {
        self.min_validity.unwrap_or(lease / 2)
    }
}
