use std::{slice, sync::atomic::Ordering};

use futures_util::future::try_join_all;

use super::scripts::SEED;
use crate::{
    redis::{Handshake, LinkError},
    resource::Bucket,
    store::{Misplaced, floors::Floors},
};

/// A server that comes back without its floors is seeded with those of this process.
impl Floors {
    /// The floors of the buckets in which a token was seen.
    pub(super) fn seen(&self) -> Vec<(Bucket, u64)> {
        let buckets = (0..=u8::MAX).map(Bucket::from_index).zip(&self.0);
        buckets.map(|(bucket, floor)| (bucket, floor.load(Ordering::Relaxed))).filter(|(_, floor)| *floor > 0).collect()
    }

    /// Tells a new run of a server the floors. `name` makes the name of their keys.
    pub(in crate::store) async fn seed(
        &self,
        handshake: &Handshake,
        name: impl Fn(Bucket) -> String,
    ) -> Result<(), LinkError> {
        // Sent together: one round trip for each of 256 floors could exceed the time limit of a handshake.
        let seeds = self.seen().into_iter().map(|(bucket, floor)| seed(handshake, name(bucket), floor));
        try_join_all(seeds).await.map(drop)
    }
}

/// Tells the server a token floor. Returns false if another program's value is in its place: only the attempts in that
/// bucket need the floor, and they are refused until the value is gone.
pub(super) async fn seed(handshake: &Handshake, key: String, floor: u64) -> Result<bool, LinkError> {
    match handshake.call(&SEED, slice::from_ref(&key), &[floor.to_string().into_bytes()]).await {
        Err(LinkError::Refused { code }) if code == "FOREIGN" => {
            tracing::warn!(redis_key = key, "a key holds something else than {}: delete it", Misplaced::Floor);
            Ok(false)
        }
        reply => reply.map(|_| true),
    }
}
