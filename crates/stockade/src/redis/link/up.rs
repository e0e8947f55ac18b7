use std::sync::Arc;

use crate::redis::Succession;

/// The properties of a connection that just came up.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    /// Names the run of the server: its process, and its data since the last promotion.
    pub(crate) run_id: Arc<str>,
    /// Whether the run differs from that of the previous connection: state may be gone. False for the first
    /// connection.
    pub(crate) new_run: bool,
    /// What the server does when another one replaces it.
    pub(crate) succession: Succession,
    /// Whether the self-test saw a message published by a script and counted a receiver.
    pub(crate) counts_receivers: bool,
    /// The requested sharded channels that were subscribed.
    pub(crate) shard_channels: Vec<String>,
}
