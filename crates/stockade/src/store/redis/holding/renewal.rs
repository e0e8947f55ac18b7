use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};

use crate::{
    clock::Instant,
    redis::{LinkError, Run, believed},
    resource::Key,
    store::{
        LockError, Owner, Ownership, Recall, Token,
        redis::{
            commands::{calls, keys::Keys, replies::Renewed},
            inner::{Inner, unavailable},
            scripts::RENEW,
            shard::Shard,
        },
    },
};

/// The most resources in one script. Such a script blocks the server for about a millisecond.
const BATCH: usize = 100;

/// The ownerships that one script renews.
struct Batch<'a> {
    shard: Arc<Shard>,
    ownerships: Vec<&'a Arc<Ownership>>,
}

/// Keys and arguments of a RENEW.
fn arguments<'a>(
    keys: &Keys,
    declared: bool,
    renewals: impl IntoIterator<Item = (&'a Key, &'a Owner, Token, Duration)>,
) -> (Vec<String>, Vec<Vec<u8>>) {
    let (mut names, mut args, mut absent) = (Vec::new(), Vec::new(), None);
    for (key, owner, token, lease) in renewals {
        names.extend(keys.renewed(key, declared));
        args.push(calls::renewed(owner, token, lease));
        absent = declared.then(|| keys.absent(key.bucket()));
    }
    names.extend(absent);
    (names, args)
}

impl Shard {
    /// Sends one RENEW, which gives a result for each resource. The command has its place in the write order when this
    /// returns.
    fn renew(
        self: &Arc<Self>,
        (keys, args): (Vec<String>, Vec<Vec<u8>>),
    ) -> impl Future<Output = Result<Vec<Renewed>, LinkError>> + Send + 'static + use<> {
        let first = self.link.call_renewal(&RENEW, keys.clone(), args.clone());
        let shard = Arc::clone(self);
        async move {
            let expected = args.len();
            let reply = match first.await {
                // The link has loaded the scripts again.
                Err(LinkError::NoScript) => shard.link.call_renewal(&RENEW, keys, args).await,
                reply => reply,
            };
            Renewed::read_all(&reply?, expected)
        }
    }
}

impl Inner {
    /// Renews one ownership.
    pub(crate) async fn renew_one(
        &self,
        key: &Key,
        owner: &Owner,
        token: Token,
        lease: Duration,
    ) -> Result<Renewed, LinkError> {
        let (shard, sent) = (self.shard(key)?, Instant::now());
        let renewal = arguments(&self.keys, self.shards.may_move(), [(key, owner, token, lease)]);
        let replies = shard.renew(renewal).await?;
        let renewed = replies.first().copied().ok_or(LinkError::Protocol { op: "renew" })?;
        self.heard(&shard, sent, renewed.now());
        Ok(renewed)
    }

    /// Renews the ownerships in scripts of up to [`BATCH`], all under way at the same time.
    ///
    /// Each reply counts as soon as it arrives, even if another script fails.
    ///
    /// # Errors
    ///
    /// If one of the scripts failed.
    pub(crate) async fn renew(&self, ownerships: &[Arc<Ownership>]) -> Result<(), LockError> {
        let mut failed = None;
        let mut replies = FuturesUnordered::new();
        for batch in self.batches(ownerships, &mut failed) {
            let (sent, run) = (Instant::now(), batch.shard.run());
            let renewals = batch.ownerships.iter().map(|held| (&held.key, &held.owner, held.token, held.lease));
            let renewals = arguments(&self.keys, self.shards.may_move(), renewals);
            let reply = batch.shard.renew(renewals);
            replies.push(async move { (reply.await, batch, sent, run) });
        }
        while let Some((reply, batch, sent, run)) = replies.next().await {
            match reply {
                Ok(renewed) => {
                    for (ownership, renewed) in batch.ownerships.iter().zip(renewed) {
                        self.heard(&batch.shard, sent, renewed.now());
                        self.renewed(ownership, renewed, sent, run);
                    }
                }
                Err(error) => failed = Some(error),
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
                // Of what was downgraded it does not say whether the run knows that: see `verify`.
                if !ownership.was_downgraded() {
                    self.held.confirmed(&ownership.owner, run);
                }
                if wanted {
                    ownership.recall(Recall::Wanted);
                }
            }
            // A forced release lets shared holders keep the rest of their leases.
            Renewed::Ending { .. } => ownership.recall(Recall::Wanted),
            Renewed::Gone { .. } => self.gone(ownership, run),
        }
    }

    /// Ends an ownership that the server no longer has. The queue may be gone, too, so a waiter of this process asks.
    pub(crate) fn gone(&self, ownership: &Ownership, run: Run) {
        self.held.gone(ownership, run);
        self.throttle.doubt(&ownership.key);
    }

    /// Splits ownerships into batches. In a cluster a batch has one bucket, since a script may use keys of one slot
    /// only.
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

    /// Renews every ownership on a server whose run has changed, because the new run may not know them. It may have one
    /// as it was before a downgrade, with the same owner and token, and would keep other readers out for as long as the
    /// ownership is renewed. So those are downgraded once more.
    pub(crate) fn verify(self: &Arc<Self>, shard: &Arc<Shard>) {
        let (inner, shard) = (Arc::clone(self), Arc::clone(shard));
        let run = shard.run();
        self.spawn(async move {
            loop {
                let unsure = inner.held.unsure(&inner.shards, &shard);
                let longest = unsure.iter().map(|ownership| ownership.deadline().remaining()).max().unwrap_or_default();
                if longest.is_zero() || shard.run() != run {
                    return;
                }
                let (shared, others): (Vec<_>, Vec<_>) = unsure.into_iter().partition(|held| held.was_downgraded());
                let renewed = inner.renew(&others).await.is_ok();
                let shared = join_all(shared.iter().map(|ownership| inner.share(ownership))).await;
                if renewed && shared.iter().all(Result::is_ok) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
}
