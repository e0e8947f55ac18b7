//! What a process tells and asks a server before a new connection is open to callers.

use futures_util::future::join_all;

use super::{commands::replies::time, floors, inner::Inner, shard::Shard};
use crate::{
    clock::Instant,
    redis::{Handshake, LinkError, Up},
};

/// Asks the server for its time, and tells a new run of the server the token floors.
pub(super) async fn shake_hands(inner: &Inner, shard: &Shard, up: &Up, handshake: &Handshake) -> Result<(), LinkError> {
    let sent = Instant::now();
    let now = handshake.command(redis::cmd("TIME")).await?;
    shard.state.clock.note(sent, time(&now)?);
    if shard.is_partial() {
        return by_bucket(inner, shard, handshake).await;
    }
    if up.new_run {
        inner.floors.seed(handshake, |bucket| inner.keys.floor(bucket)).await?;
    }
    Ok(())
}

/// Tells a node the floors of those buckets that it has. The commands are sent together.
///
/// A bucket that is moving to or from the node, or that no node serves, is skipped: `Inner::raise_floor` tells the node
/// later.
async fn by_bucket(inner: &Inner, shard: &Shard, handshake: &Handshake) -> Result<(), LinkError> {
    let floors = inner.floors.seen().into_iter().filter(|(bucket, _)| inner.shards.has(shard, *bucket));
    let seeds = floors.map(|(bucket, floor)| async move {
        if floors::seed(handshake, inner.keys.floor(bucket), floor).await? {
            shard.state.knows_floor(bucket);
        }
        Ok(())
    });
    for told in join_all(seeds).await {
        match told {
            Ok(()) => {}
            Err(LinkError::Moved | LinkError::Moving) => inner.shards.doubt(),
            // The slot of the bucket has no node, or the cluster refuses all slots while one has none.
            Err(LinkError::Refused { code }) if code == "CLUSTERDOWN" => inner.shards.doubt(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
