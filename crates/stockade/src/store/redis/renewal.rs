use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    calls::millis,
    inner::{Inner, unavailable},
    replies::Renewed,
    sample::believed,
    scripts::RENEW,
    shard::Shard,
};
use crate::{
    clock::Instant,
    redis::LinkError,
    store::{LockError, Owner, Ownership},
};

/// The most resources in one script.
const BATCH: usize = 100;

/// A batch of renewals: the keys of each, and owner and lease of each.
pub(super) type Batch = (Vec<String>, Vec<(Owner, Duration)>);

fn arguments((keys, renewals): &Batch) -> (Vec<String>, Vec<Vec<u8>>) {
    let args = renewals.iter().flat_map(|(owner, lease)| [owner.as_str().into(), millis(*lease)]).collect();
    (keys.clone(), args)
}

impl Shard {
    async fn renew(&self, batches: &[Batch]) -> Result<Vec<Result<Vec<Renewed>, LinkError>>, LinkError> {
        let call = || self.link.call_renewal(&RENEW, batches.iter().map(arguments).collect());
        let mut replies = call().await?;
        if replies.iter().any(|reply| matches!(reply, Err(LinkError::NoScript))) {
            // Loaded again meanwhile. A batch that was executed may be executed once more.
            replies = call().await?;
        }
        let read = |(reply, batch): (Result<_, _>, &Batch)| Renewed::read_all(&reply?, batch.1.len());
        Ok(replies.into_iter().zip(batches).map(read).collect())
    }

    pub(super) async fn renew_one(&self, batch: Batch) -> Result<Renewed, LinkError> {
        let mut results = self.renew(&[batch]).await?;
        let replies = results.pop().ok_or(LinkError::Down)??;
        replies.first().copied().ok_or(LinkError::Protocol { op: "renew" })
    }
}

impl Inner {
    /// Every server is asked at once, and what one answers counts as soon as it is there.
    pub(super) async fn renew(&self, ownerships: &[Arc<Ownership>]) -> Result<(), LockError> {
        let mut shards: BTreeMap<_, (Arc<Shard>, Vec<_>)> = BTreeMap::new();
        let mut failed = None;
        for ownership in ownerships {
            match self.shard(&ownership.key) {
                Ok(shard) => shards.entry(shard.id).or_insert((shard, Vec::new())).1.push(ownership),
                Err(error) => failed = Some(error),
            }
        }
        let renewals = shards.values().map(|(shard, ownerships)| self.renew_on(shard, ownerships));
        let results = join_all(renewals).await;
        let failed = results.into_iter().find_map(Result::err).or(failed);
        failed.map_or(Ok(()), |error| Err(unavailable(&error)))
    }

    async fn renew_on(&self, shard: &Shard, ownerships: &[&Arc<Ownership>]) -> Result<(), LinkError> {
        let mut buckets: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ownership in ownerships {
            buckets.entry(ownership.key.bucket()).or_default().push(*ownership);
        }
        let groups: Vec<&[&Arc<Ownership>]> = buckets.values().flat_map(|bucket| bucket.chunks(BATCH)).collect();
        let batches: Vec<_> = groups
            .iter()
            .map(|group| {
                let keys = group.iter().flat_map(|ownership| self.keys.of(&ownership.key)).collect();
                (keys, group.iter().map(|ownership| (ownership.owner.clone(), ownership.lease)).collect())
            })
            .collect();
        let (sent, run) = (Instant::now(), shard.run());
        let replies = shard.renew(&batches).await?;
        let mut failed = None;
        for (group, reply) in groups.iter().zip(replies) {
            match reply {
                Ok(renewed) => {
                    for (ownership, renewed) in group.iter().zip(renewed) {
                        shard.clock.note(sent, renewed.now());
                        match renewed {
                            Renewed::Extended { .. } => {
                                ownership.extend(believed(sent, ownership.lease));
                                self.held.confirmed(&ownership.owner, run);
                            }
                            // Forced, with the rest of its lease to finish in.
                            Renewed::Ending { .. } => {}
                            Renewed::Gone { .. } => self.held.gone(ownership, run),
                        }
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Another run of the server may have lost what it granted: asks about every ownership there.
    pub(super) fn verify(self: &Arc<Self>, shard: &Arc<Shard>) {
        let (inner, shard) = (Arc::clone(self), Arc::clone(shard));
        let run = shard.run();
        self.spawn(async move {
            loop {
                let unsure = inner.held.unsure(&inner.shards, run);
                let longest = unsure.iter().map(|ownership| ownership.deadline().remaining()).max().unwrap_or_default();
                if longest.is_zero() || shard.run() != run || inner.renew(&unsure).await.is_ok() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
}
