use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::handshake::Handshake;
use crate::redis::{LinkError, Succession};

/// What a connection that just came up is.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    /// The server's `run_id`.
    pub(crate) run_id: Arc<str>,
    /// Whether it differs from that of the connection before: state may be gone. False for the first.
    pub(crate) new_run: bool,
    /// What it does when another one takes its place.
    pub(crate) succession: Succession,
    /// Whether the self-test saw a message published by a script and counted a receiver.
    pub(crate) counts_receivers: bool,
    /// The sharded channels that were subscribed, of those that were wanted.
    pub(crate) shard_channels: Vec<String>,
}

/// What the owner of a link wants to know.
///
/// The link keeps its events until it is shut down or dropped, so they must not own the link in turn.
pub(crate) trait LinkEvents: Send + Sync + 'static {
    /// A message on a subscribed channel. Runs in the connection's driver: it only posts to cells and channels.
    fn message(&self, channel: &str, payload: &[u8]);

    /// Sharded channels to subscribe before the connection opens, beside those that the link was given.
    fn shard_channels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Subscribed and self-tested, not open yet: the place for JOIN and SEED. An error closes the connection.
    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>>;

    /// Open to callers again.
    fn opened(&self, up: &Up);

    /// The connection ended; callers get [`LinkError::Down`] until the next `opened`.
    fn closed(&self);
}
