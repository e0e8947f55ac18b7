use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use super::commands::{calls::Handing, keys::Keys};
use crate::{
    clock::Instant,
    redis::{Server, ServerClock, ServerState, Up},
    resource::Bucket,
};

/// How long those who wait may need to find a server that took over.
const SETTLING: Duration = Duration::from_secs(3);

/// One server of the store.
pub(crate) type Shard = Server<ShardState>;

/// What is true of one server only.
pub(crate) struct ShardState {
    pub(super) clock: ServerClock,
    counts_receivers: AtomicBool,
    /// The instant from which a count of receivers says who lives, in nanoseconds.
    settled: AtomicU64,
    /// The earliest instant since which this run is known to serve the namespace, in nanoseconds.
    serves_since: AtomicU64,
    /// In a cluster, whether it knows the largest token of a bucket that this process has seen.
    floors: [AtomicBool; 256],
}

impl Default for ShardState {
    fn default() -> Self {
        Self {
            clock: ServerClock::default(),
            counts_receivers: AtomicBool::new(false),
            settled: AtomicU64::new(0),
            serves_since: AtomicU64::new(u64::MAX),
            floors: [const { AtomicBool::new(false) }; 256],
        }
    }
}

impl ServerState for ShardState {
    fn new_run(&self) {
        self.serves_since.store(u64::MAX, Ordering::Release);
        self.clock.forget();
        self.floors.iter().for_each(|floor| floor.store(false, Ordering::Release));
    }

    fn opened(&self, up: &Up) {
        self.counts_receivers.store(up.counts_receivers, Ordering::Release);
        // A node of a cluster may not have been asked.
        self.serves_since.fetch_min(Instant::now().as_nanos(), Ordering::AcqRel);
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
    /// The run has served since `since`, it said at `now`.
    pub(super) fn joined(&self, (now, since): (u64, u64)) {
        // Counted from the reply, so that it seems younger than it is and not older.
        let since = Instant::now() - Duration::from_micros(now.saturating_sub(since));
        self.serves_since.fetch_min(since.as_nanos(), Ordering::AcqRel);
    }

    /// For how long this run is known to have served the namespace, whoever used it.
    pub(super) fn has_served(&self) -> Duration {
        Instant::from_nanos(self.serves_since.load(Ordering::Acquire)).elapsed()
    }

    pub(super) fn knows_floor(&self, bucket: Bucket) {
        self.floors[usize::from(bucket.index())].store(true, Ordering::Release);
    }

    /// Whether it knows the largest token of the bucket that this process has seen.
    pub(super) fn has_floor(&self, bucket: Bucket) -> bool {
        self.floors[usize::from(bucket.index())].load(Ordering::Acquire)
    }

    /// Nobody is subscribed on a server that took over a moment ago. Until all had the time to come, whoever is not
    /// there is granted what is his all the same: passed over, he would find another in his place.
    fn unsettle(&self) {
        self.settled.store((Instant::now() + SETTLING).as_nanos(), Ordering::Release);
    }

    fn is_settled(&self) -> bool {
        Instant::from_nanos(self.settled.load(Ordering::Acquire)).remaining().is_zero()
    }
}

impl Shard {
    /// The name of the server's run, as JOIN is told it.
    pub(crate) fn run_name(&self) -> Vec<u8> {
        self.run_id().as_deref().unwrap_or_default().as_bytes().to_vec()
    }

    pub(crate) fn handing(&self, keys: &Keys, bucket: Bucket) -> Handing {
        let skip = self.state.counts_receivers.load(Ordering::Acquire) && self.state.is_settled();
        let all_keys = self.is_partial();
        let channel = if all_keys { keys.bucket_inbox_prefix(bucket) } else { keys.inbox_prefix() };
        Handing { skip, channel, all_keys }
    }

    /// The node has made a token in this bucket, so that it knows the largest.
    pub(crate) fn made_token(&self, bucket: Bucket) {
        if self.is_partial() {
            self.state.knows_floor(bucket);
        }
    }
}
