use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::server::Server;
use crate::{
    redis::{Handshake, LinkError, Up},
    resource::Bucket,
};

/// What the owner of a routed link is told and asked. It ignores what it does not implement.
///
/// The link keeps its events, so they must not own the link in turn.
pub(crate) trait RoutedEvents<S>: Send + Sync + 'static {
    /// The sharded channel of a bucket, on servers with a part of the buckets. `None` if the owner is gone.
    fn channel(&self, _bucket: Bucket) -> Option<String> {
        None
    }

    /// A message on a subscribed channel. Runs in the connection's driver: it only posts to cells and channels.
    fn message(&self, server: &Arc<Server<S>>, channel: &str, payload: &[u8]);

    /// The connection is subscribed and self-tested, but not open yet. An error closes it.
    fn prepare<'a>(
        &'a self,
        server: &'a Arc<Server<S>>,
        up: &'a Up,
        handshake: &'a mut Handshake,
    ) -> BoxFuture<'a, Result<(), LinkError>>;

    /// The connection is open to callers again.
    fn opened(&self, server: &Arc<Server<S>>, up: &Up);

    /// The connection ended.
    fn closed(&self, server: &Arc<Server<S>>);

    /// A connection ended whose server, or the routed link itself, was dropped.
    fn dropped(&self) {}

    /// These buckets have moved to other servers, which are not looked up yet.
    fn leaving(&self, _buckets: &[Bucket]) {}

    /// These buckets are now on these servers, as far as the servers are known.
    fn moved(&self, _buckets: &[Bucket], _places: &[Arc<Server<S>>]) {}
}
