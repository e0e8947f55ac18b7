use std::{ops::RangeInclusive, time::Duration};

use super::keys::KeyFormat;

/// The least time for a node that is chosen by itself: a busy client must not take itself for a slow server.
const LEAST_NODE_TIMEOUT: Duration = Duration::from_millis(20);

/// Settings of locks on several servers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) min_validity: Option<Duration>,
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
    /// How long to wait for a quorum of answers, once for the lock and once for a token that must be written again.
    pub(super) fn node_timeout(&self, lease: Duration, command: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| (lease / 10).max(LEAST_NODE_TIMEOUT)).min(command)
    }

    /// A grant with less time left than this is given back.
    pub(super) fn min_validity(&self, lease: Duration) -> Duration {
        self.min_validity.unwrap_or(lease / 2)
    }
}
