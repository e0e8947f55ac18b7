use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};

use crate::{
    clock::Instant,
    redis::{LinkError, Replicas, Run, believed},
    resource::Key,
    store::{
        LockError, Owner, Ownership, Recall,
        redis::{
            commands::{calls, keys::Keys, replies::Renewed},
            inner::{Inner, unavailable},
            scripts::RENEW,
            shard::Shard,
        },
    },
};

/// The most resources in one script: the server serves nobody else meanwhile, for about a millisecond.
const BATCH: usize = 100;

/// Leases to extend in one script.
struct Batch<'a> {
    shard: Arc<Shard>,
    ownerships: Vec<&'a Arc<Ownership>>,
}

/// Keys and arguments of a RENEW.
fn arguments<'a>(
    keys: &Keys,
    declared: bool,
    renewals: impl IntoIterator<Item = (&'a Key, &'a Owner, Duration)>,
) -> (Vec<String>, Vec<Vec<u8>>) {
    let (mut names, mut args) = (Vec::new(), Vec::new());
    for (key, owner, lease) in renewals {
        names.extend(keys.renewed(key, declared));
        args.push(calls::renewed(owner, lease));
    }
    (names, args)
}

impl Shard {
    /// What was found, and, once that is known, whether replicas have it. Takes its place in the write order when this
    /// is called.
    fn renew(
        self: &Arc<Self>,
        (keys, args): (Vec<String>, Vec<Vec<u8>>),
        replicas: Option<Replicas>,
    ) -> impl Future<Output = (Result<Vec<Renewed>, LinkError>, impl Future<Output = bool> + Send + 'static + use<>)>
    + Send
    + 'static
    + use<> {
        let (first, copies) = self.link.call_renewal_replicated(&RENEW, keys.clone(), args.clone(), replicas);
        let shard = Arc::clone(self);
        async move {
            let expected = args.len();
            let (reply, copies) = match first.await {
                // The scripts have been loaded again meanwhile.
                Err(LinkError::NoScript) => {
                    let (again, copies) = shard.link.call_renewal_replicated(&RENEW, keys, args, replicas);
                    (again.await, copies)
                }
                reply => (reply, copies),
            };
            let enough = async move { copies.await.unwrap_or(false) };
            (reply.and_then(|reply| Renewed::read_all(&reply, expected)), enough)
        }
    }
}

impl Inner {
    /// Beside what was found, whether as many replicas have it as are wanted.
    pub(crate) async fn renew_one(
        &self,
        key: &Key,
        owner: &Owner,
        lease: Duration,
    ) -> Result<(Renewed, bool), LinkError> {
        let (shard, sent) = (self.shard(key)?, Instant::now());
        let renewal = arguments(&self.keys, self.shards.may_move(), [(key, owner, lease)]);
        let (replies, enough) = shard.renew(renewal, self.options.replicas).await;
        let renewed = replies?.first().copied().ok_or(LinkError::Protocol { op: "renew" })?;
        self.heard(&shard, sent, renewed.now());
        let enough = match renewed {
            Renewed::Extended { .. } => enough.await,
            Renewed::Ending { .. } | Renewed::Gone { .. } => false,
        };
        Ok((renewed, enough))
    }

    /// Scripts of some ownerships each, in their order, all under way at once. Each reply counts when it comes: one
    /// that does not is no reason to forget those that did.
    pub(crate) async fn renew(&self, ownerships: &[Arc<Ownership>]) -> Result<(), LockError> {
        let mut failed = None;
        let (mut replies, mut copies) = (FuturesUnordered::new(), Vec::new());
        for batch in self.batches(ownerships, &mut failed) {
            let (sent, run) = (Instant::now(), batch.shard.run());
            let renewals = batch.ownerships.iter().map(|held| (&held.key, &held.owner, held.lease));
            let renewals = arguments(&self.keys, self.shards.may_move(), renewals);
            let reply = batch.shard.renew(renewals, self.options.replicas);
            replies.push(async move { (reply.await, batch, sent, run) });
        }
        while let Some(((reply, enough), batch, sent, run)) = replies.next().await {
            match reply {
                Ok(renewed) => {
                    for (ownership, renewed) in batch.ownerships.iter().zip(renewed) {
                        self.heard(&batch.shard, sent, renewed.now());
                        self.renewed(ownership, renewed, sent, run);
                    }
                    copies.push(enough);
                }
                Err(error) => failed = Some(error),
            }
        }
        for enough in copies {
            // No lock is lost for that. What the replicas know is an earlier renewal, or the grant.
            if !enough.await {
                tracing::debug!("renewals reached too few replicas in time");
            }
        }
        let Some(error) = failed else { return Ok(()) };
        self.shards.suspect(&error);
        Err(unavailable(&error))
    }

    fn renewed(&self, ownership: &Arc<Ownership>, renewed: Renewed, sent: Instant, run: Run) {
        match renewed {
            Renewed::Extended { wanted, .. } => {
                ownership.extend(believed(sent, ownership.lease));
                self.held.confirmed(&ownership.owner, run);
                if wanted {
                    ownership.recall(Recall::Wanted);
                }
            }
            // A forced release lets the holder use the rest of its lease.
            Renewed::Ending { .. } => ownership.recall(Recall::Wanted),
            Renewed::Gone { .. } => self.gone(ownership, run),
        }
    }

    /// The server doesn't know it any more, nor perhaps the queue.
    pub(crate) fn gone(&self, ownership: &Ownership, run: Run) {
        self.held.gone(ownership, run);
        self.throttle.doubt(&ownership.key);
    }

    /// In a cluster by bucket, since a script there has keys of one slot only.
    fn batches<'a>(&self, ownerships: &'a [Arc<Ownership>], failed: &mut Option<LinkError>) -> Vec<Batch<'a>> {
        let mut batches: Vec<Batch<'a>> = Vec::new();
        let mut open: HashMap<_, usize> = HashMap::new();
        for ownership in ownerships {
            let slot = self.shards.may_move().then(|| ownership.key.bucket());
            let room = open.get(&slot).and_then(|at| batches.get_mut(*at));
            if let Some(batch) = room.filter(|batch| batch.ownerships.len() < BATCH) {
                batch.ownerships.push(ownership);
                continue;
            }
            match self.shard(&ownership.key) {
                Ok(shard) => {
                    open.insert(slot, batches.len());
                    batches.push(Batch { shard, ownerships: vec![ownership] });
                }
                Err(error) => *failed = Some(error),
            }
        }
        batches
    }

    /// Another run of the server may have lost what it granted: asks about every ownership there.
    pub(crate) fn verify(self: &Arc<Self>, shard: &Arc<Shard>) {
        let (inner, shard) = (Arc::clone(self), Arc::clone(shard));
        let run = shard.run();
        self.spawn(async move {
            loop {
                let unsure = inner.held.unsure(&inner.shards, &shard);
                let longest = unsure.iter().map(|ownership| ownership.deadline().remaining()).max().unwrap_or_default();
                if longest.is_zero() || shard.run() != run || inner.renew(&unsure).await.is_ok() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
}
