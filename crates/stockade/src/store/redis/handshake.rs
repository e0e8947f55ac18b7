//! What a process tells and asks a server before a new connection is open to callers.

use futures_util::future::{join, join_all};

use super::{
    commands::replies::{joined, time},
    floors,
    inner::Inner,
    scripts::JOIN,
    shard::Shard,
};
use crate::{
    clock::Instant,
    redis::{Handshake, LinkError, Up},
    resource::Bucket,
};

/// Tells a new run of the server the token floors, and asks for its time and since when it has served.
///
/// `buckets` are those whose messages arrive on this connection.
pub(super) async fn shake_hands(
    inner: &Inner,
    shard: &Shard,
    up: &Up,
    buckets: &[Bucket],
    handshake: &Handshake,
) -> Result<(), LinkError> {
    if shard.is_partial() {
        return by_bucket(inner, shard, buckets, handshake).await;
    }
    if up.new_run {
        inner.floors.seed(handshake, |bucket| inner.keys.floor(bucket)).await?;
    }
    let (sent, marker) = (Instant::now(), inner.keys.marker(Bucket::FIRST));
    let reply = handshake.call(&JOIN, &[marker], &[shard.run_name()]).await?;
    let joined = joined(&reply)?;
    shard.state.clock.note(sent, joined.0);
    shard.state.joined(joined);
    Ok(())
}

/// The same for a node that has only some of the buckets. The commands for all of its buckets are sent together.
///
/// A bucket that is moving to or from the node is skipped: `Inner::raise_floor` tells the node later.
async fn by_bucket(inner: &Inner, shard: &Shard, buckets: &[Bucket], handshake: &Handshake) -> Result<(), LinkError> {
    let sent = Instant::now();
    let now = handshake.command(redis::cmd("TIME")).await?;
    shard.state.clock.note(sent, time(&now)?);
    let marks = buckets.iter().map(|bucket| async {
        let reply = handshake.call(&JOIN, &[inner.keys.marker(*bucket)], &[shard.run_name()]).await?;
        shard.state.joined(joined(&reply)?);
        Ok(())
    });
    let floors: Vec<_> =
        inner.floors.seen().into_iter().filter(|(bucket, _)| inner.shards.has(shard, *bucket)).collect();
    let seeds = floors.iter().map(|(bucket, floor)| async {
        if floors::seed(handshake, inner.keys.floor(*bucket), *floor).await? {
            shard.state.knows_floor(*bucket);
        }
        Ok(())
    });
    let (marked, seeded) = join(join_all(marks), join_all(seeds)).await;
    for told in marked.into_iter().chain(seeded) {
        match told {
            Ok(()) => {}
            Err(LinkError::Moved | LinkError::Moving) => inner.shards.doubt(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
