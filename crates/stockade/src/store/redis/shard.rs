use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use super::commands::{calls::Handing, keys::Keys};
use crate::{
    clock::Instant,
    redis::{Server, ServerClock, ServerState, Up},
    resource::Bucket,
};

/// How long waiters may need to find a server that took over.
const SETTLING: Duration = Duration::from_secs(3);

pub(crate) type Shard = Server<ShardState>;

pub(crate) struct ShardState {
    pub(super) clock: ServerClock,
    counts_receivers: AtomicBool,
    /// The time from which the number of receivers of a message tells whether a waiter lives, in nanoseconds of
    /// [`Instant`].
    settled: AtomicU64,
    /// In a cluster, for each bucket: whether the server knows the largest token that this process has seen.
    floors: [AtomicBool; 256],
}

impl Default for ShardState {
    fn default() -> Self {
        Self {
            clock: ServerClock::default(),
            counts_receivers: AtomicBool::new(false),
            settled: AtomicU64::new(0),
            floors: [const { AtomicBool::new(false) }; 256],
        }
    }
}

impl ServerState for ShardState {
    fn new_run(&self) {
        self.clock.forget();
        self.floors.iter().for_each(|floor| floor.store(false, Ordering::Release));
    }

    fn opened(&self, up: &Up) {
        self.counts_receivers.store(up.counts_receivers, Ordering::Release);
        if up.new_run {
            self.unsettle();
        }
    }

    fn gained(&self, _bucket: Bucket) {
        self.unsettle();
    }

    fn left(&self, bucket: Bucket) {
        self.floors[usize::from(bucket.index())].store(false, Ordering::Release);
    }
}

impl ShardState {
    pub(super) fn knows_floor(&self, bucket: Bucket) {
        self.floors[usize::from(bucket.index())].store(true, Ordering::Release);
    }

    /// Whether the server knows the largest token of the bucket that this process has seen.
    pub(super) fn has_floor(&self, bucket: Bucket) -> bool {
        self.floors[usize::from(bucket.index())].load(Ordering::Acquire)
    }

    /// Processes may not have subscribed yet on a server that has just taken over. For [`SETTLING`], a waiter without a
    /// subscriber is still granted its turn. If the waiter were skipped, it would find another waiter in its place.
    fn unsettle(&self) {
        self.settled.store((Instant::now() + SETTLING).as_nanos(), Ordering::Release);
    }

    fn is_settled(&self) -> bool {
        let at = self.settled.load(Ordering::Acquire);
        // Most servers took over from nobody, and then no clock is read.
        at == 0 || Instant::from_nanos(at).remaining().is_zero()
    }
}

impl Shard {
    pub(crate) fn handing<'a>(&self, keys: &'a Keys, bucket: Bucket) -> Handing<'a> {
        let skip = self.state.counts_receivers.load(Ordering::Acquire) && self.state.is_settled();
        let all_keys = self.is_partial();
        let channel = match all_keys {
            true => Cow::Owned(keys.bucket_inbox_prefix(bucket)),
            false => Cow::Borrowed(keys.inbox_prefix()),
        };
        Handing { skip, channel, all_keys }
    }

    /// Records that the node has made a token in this bucket, and so knows the largest one.
    pub(crate) fn made_token(&self, bucket: Bucket) {
        if self.is_partial() {
            self.state.knows_floor(bucket);
        }
    }
}
