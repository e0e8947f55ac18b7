use futures_util::future::BoxFuture;

use super::{handshake::Handshake, up::Up};
use crate::redis::LinkError;

/// What the owner of a link is told. It ignores what it does not implement.
///
/// The link keeps its events until it is shut down or dropped, so they must not own the link in turn.
pub(crate) trait LinkEvents: Send + Sync + 'static {
    /// A message on a subscribed channel. Runs in the connection's driver: it only posts to cells and channels.
    fn message(&self, _channel: &str, _payload: &[u8]) {}

    /// Sharded channels to subscribe before the connection opens, in addition to those that the link was given.
    fn shard_channels(&self) -> Vec<String> {
        Vec::new()
    }

    /// The connection is subscribed and self-tested, but not open yet. An error closes it.
    fn prepare<'a>(&'a self, _up: &'a Up, _handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async { Ok(()) })
    }

    /// The connection is open to callers again.
    fn opened(&self, _up: &Up) {}

    /// The connection ended; callers get [`LinkError::Down`] until the next `opened`.
    fn closed(&self) {}
}

/// For links that subscribe to nothing and prepare nothing.
impl LinkEvents for () {}
