use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{join, join_all};
use redis::{PushKind, Value};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};

use super::{
    commands::replies,
    inner::Inner,
    scripts::{JOIN, SEED},
    shard::Shard,
};
use crate::{
    clock::Instant,
    redis::{Handshake, LinkError, Up},
    resource::Bucket,
};

const ALL: RangeInclusive<u8> = 0..=u8::MAX;
/// Between two attempts to subscribe for which nobody waits.
const AGAIN: Duration = Duration::from_millis(100);

/// What a node of a cluster has been told about each bucket.
#[derive(Debug)]
pub(super) struct NodeState {
    /// The connection on which the inbox of the bucket is subscribed; connections are counted from 1.
    inboxes: [AtomicU64; 256],
    /// Whether the node knows the largest token that this process has seen.
    floors: [AtomicBool; 256],
    /// Many attempts find the same inbox missing; one of them sees to it.
    turns: [Mutex<()>; 256],
}

impl Default for NodeState {
    fn default() -> Self {
        Self {
            inboxes: [const { AtomicU64::new(0) }; 256],
            floors: [const { AtomicBool::new(false) }; 256],
            turns: [const { Mutex::const_new(()) }; 256],
        }
    }
}

impl NodeState {
    pub(super) fn hears(&self, bucket: Bucket, connection: u64) {
        self.inboxes[usize::from(bucket.index())].fetch_max(connection, Ordering::AcqRel);
    }

    pub(super) fn knows_floor(&self, bucket: Bucket) {
        self.floors[usize::from(bucket.index())].store(true, Ordering::Release);
    }

    /// The bucket went to another node.
    pub(super) fn left(&self, bucket: Bucket) {
        self.inboxes[usize::from(bucket.index())].store(0, Ordering::Release);
        self.floors[usize::from(bucket.index())].store(false, Ordering::Release);
    }

    pub(super) fn forget_floors(&self) {
        self.floors.iter().for_each(|floor| floor.store(false, Ordering::Release));
    }
}

impl Shard {
    /// The inboxes to subscribe before a connection opens: of the buckets used, and at least of one, so that it can be
    /// found out whether the node counts receivers.
    pub(super) fn inboxes(&self, inner: &Inner) -> Vec<String> {
        if self.node_state.is_none() {
            return Vec::new();
        }
        let here = || ALL.map(Bucket::from_index).filter(|bucket| inner.shards.has(self, *bucket));
        let mut wanted: Vec<_> = here().filter(|bucket| inner.has_listened(*bucket)).collect();
        if wanted.is_empty() {
            wanted.extend(here().next());
        }
        wanted.into_iter().map(|bucket| inner.keys.bucket_inbox(bucket, &inner.process)).collect()
    }

    /// Makes a node of a cluster known on a connection that is not open yet: what it must know of each bucket, all at
    /// once. A bucket that is on its way to or from here is left to those who need it.
    pub(super) async fn join(&self, inner: &Inner, up: &Up, handshake: &Handshake) -> Result<(), LinkError> {
        let Some(node_state) = &self.node_state else { return Ok(()) };
        let sent = Instant::now();
        let time = handshake.command(redis::cmd("TIME")).await?;
        self.clock.note(sent, replies::time(&time)?);
        let inbox = |bucket| inner.keys.bucket_inbox(bucket, &inner.process);
        let heard: Vec<_> =
            ALL.map(Bucket::from_index).filter(|bucket| up.shard_channels.contains(&inbox(*bucket))).collect();
        let marks = heard.iter().map(|bucket| async {
            let reply = handshake.call(&JOIN, &[inner.keys.marker(*bucket)], &[self.run_id()]).await?;
            self.joined(replies::joined(&reply)?);
            Ok(())
        });
        let floors: Vec<_> =
            inner.floors.seen().into_iter().filter(|(bucket, _)| inner.shards.has(self, *bucket)).collect();
        let seeds = floors.iter().map(|(bucket, floor)| async {
            let floor = floor.to_string().into_bytes();
            handshake.call(&SEED, &[inner.keys.floor(*bucket)], &[floor]).await.map(|_| node_state.knows_floor(*bucket))
        });
        let (marked, seeded) = join(join_all(marks), join_all(seeds)).await;
        for told in marked.into_iter().chain(seeded) {
            match told {
                Ok(()) => {}
                Err(LinkError::Moved | LinkError::Moving) => inner.shards.doubt(),
                Err(error) => return Err(error),
            }
        }
        // Only this connection's own task counts connections, and this one is the next.
        let connection = self.link.generation() + 1;
        heard.into_iter().for_each(|bucket| node_state.hears(bucket, connection));
        Ok(())
    }

    /// The node has made a token in this bucket, so that it knows the largest.
    pub(super) fn made_token(&self, bucket: Bucket) {
        if let Some(node_state) = &self.node_state {
            node_state.knows_floor(bucket);
        }
    }

    /// Whether a grant in this bucket would reach this process.
    pub(super) fn hears(&self, bucket: Bucket) -> bool {
        let Some(node_state) = &self.node_state else { return true };
        let connection = node_state.inboxes[usize::from(bucket.index())].load(Ordering::Acquire);
        connection != 0 && connection == self.link.generation()
    }

    /// Subscribes to the inbox of the bucket, unless that was done on this connection; returns when it is confirmed.
    pub(super) async fn listen(&self, inner: &Inner, bucket: Bucket) -> Result<(), LinkError> {
        let Some(node_state) = self.node_state.as_ref().filter(|_| !self.hears(bucket)) else { return Ok(()) };
        let listening = async {
            let _turn = node_state.turns[usize::from(bucket.index())].lock().await;
            if self.hears(bucket) {
                return Ok(());
            }
            inner.listens(bucket);
            let mut subscribe = redis::cmd("SSUBSCRIBE");
            subscribe.arg(inner.keys.bucket_inbox(bucket, &inner.process));
            let (carrier, reply) = self.carried(|link| link.subscribe("ssubscribe", subscribe));
            // What it tells is of use to others; nothing here depends on it.
            let marked = self.link.call(&JOIN, vec![inner.keys.marker(bucket)], vec![self.run_id()]);
            match reply.await? {
                Value::Push { kind: PushKind::SSubscribe, .. } => {}
                _ => return Err(LinkError::Protocol { op: "ssubscribe" }),
            }
            drop(marked);
            node_state.hears(bucket, carrier.ok_or(LinkError::Lost)?.connection());
            Ok(())
        };
        timeout(inner.timeout, listening).await.unwrap_or(Err(LinkError::Timeout))
    }

    /// Tells a node that was promoted, or lost its data, the largest token seen in the bucket, before it makes another.
    pub(super) async fn raise_floor(&self, inner: &Inner, bucket: Bucket) -> Result<(), LinkError> {
        let Some(node_state) = &self.node_state else { return Ok(()) };
        let floor = inner.floors.of(bucket);
        if floor == 0 || node_state.floors[usize::from(bucket.index())].load(Ordering::Acquire) {
            return Ok(());
        }
        let args = vec![floor.to_string().into_bytes()];
        self.link.call(&SEED, vec![inner.keys.floor(bucket)], args).await?;
        node_state.knows_floor(bucket);
        Ok(())
    }
}

impl Inner {
    /// Subscribes to the inbox of a bucket behind the back of a holder, who is to hear when the lock is taken from it but
    /// need not wait for that.
    pub(super) fn listen_behind(self: &Arc<Self>, shard: &Arc<Shard>, bucket: Bucket) {
        if shard.hears(bucket) {
            return;
        }
        let (inner, shard) = (Arc::clone(self), Arc::clone(shard));
        self.spawn(async move {
            while let Err(error) = shard.listen(&inner, bucket).await {
                inner.shards.suspect(&error);
                // A connection that opens later subscribes by itself to what is here then.
                if !shard.link.is_up() || !inner.shards.has(&shard, bucket) {
                    return;
                }
                sleep(AGAIN).await;
            }
        });
    }

    /// What came to this server while its connection was being made.
    pub(super) fn listen_to_the_rest(self: &Arc<Self>, shard: &Arc<Shard>) {
        for bucket in ALL.map(Bucket::from_index) {
            if self.has_listened(bucket) && self.shards.has(shard, bucket) {
                self.listen_behind(shard, bucket);
            }
        }
    }
}
