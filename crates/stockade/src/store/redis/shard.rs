use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    commands::{calls::Handing, keys::Keys},
    inner::Inner,
    messages::Inbox,
    node_state::NodeState,
    scripts,
    server_clock::ServerClock,
};
use crate::{
    clock::Instant,
    redis::{Link, Node, Redis, Up},
    resource::Bucket,
};

/// How long those who wait may need to find a server that took over.
const SETTLING: Duration = Duration::from_secs(3);

/// One server of the store, with what is true of this server only.
pub(super) struct Shard {
    /// Never given to another server of the same store.
    pub(super) id: u32,
    pub(super) link: Link,
    pub(super) clock: ServerClock,
    /// In a cluster, where it is.
    pub(super) node: Option<Node>,
    /// In a cluster, what it knows of this process. Boxed for its size.
    pub(super) node_state: Option<Box<NodeState>>,
    /// Counts the runs of the server that the link has met.
    run: AtomicU64,
    run_id: Mutex<Arc<str>>,
    counts_receivers: AtomicBool,
    /// The instant from which a count of receivers says who lives, in nanoseconds.
    settled: AtomicU64,
    /// The earliest instant since which this run is known to serve the namespace, in nanoseconds.
    serves_since: AtomicU64,
}

/// A run of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) shard: u32,
    pub(super) number: u64,
}

/// A connection: commands that went out on the same one are run in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carrier {
    shard: u32,
    connection: u64,
}

impl Carrier {
    pub(super) fn connection(self) -> u64 {
        self.connection
    }
}

impl Shard {
    /// A server that has all buckets. It connects once its link is started.
    pub(super) fn new(redis: &Redis, inbox: String, inner: &Weak<Inner>) -> Arc<Self> {
        Arc::new_cyclic(|shard| {
            let events = Inbox { inner: Weak::clone(inner), shard: Weak::clone(shard) };
            Self::with(0, Link::new(redis, "lock", vec![inbox], scripts::ALL, Arc::new(events)))
        })
    }

    /// Connects to a node of a cluster; `redis` leads to it alone. Must be called within a tokio runtime.
    pub(super) fn of_node(id: u32, redis: &Redis, node: &Node, inner: &Weak<Inner>) -> Arc<Self> {
        let shard = Arc::new_cyclic(|shard| {
            let events = Inbox { inner: Weak::clone(inner), shard: Weak::clone(shard) };
            Self {
                node: Some(node.clone()),
                node_state: Some(Box::default()),
                ..Self::with(id, Link::new(redis, "lock", Vec::new(), scripts::ALL, Arc::new(events)))
            }
        });
        shard.link.start();
        shard
    }

    fn with(id: u32, link: Link) -> Self {
        Self {
            id,
            link,
            clock: ServerClock::default(),
            node: None,
            node_state: None,
            run: AtomicU64::new(0),
            run_id: Mutex::new(Arc::from("")),
            counts_receivers: AtomicBool::new(false),
            settled: AtomicU64::new(0),
            serves_since: AtomicU64::new(u64::MAX),
        }
    }

    /// Whether it is connected and not spared.
    pub(super) fn is_well(&self) -> bool {
        self.link.is_up() && self.link.breaker().refusing().is_none()
    }

    pub(super) fn run(&self) -> Run {
        Run { shard: self.id, number: self.run.load(Ordering::Acquire) }
    }

    /// The server's name of its run.
    pub(super) fn run_id(&self) -> Vec<u8> {
        self.run_id.lock().unwrap_or_else(PoisonError::into_inner).as_bytes().to_vec()
    }

    /// The link has met a run of the server. Another one may have another clock.
    pub(super) fn met(&self, up: &Up) {
        *self.run_id.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&up.run_id);
        if !up.new_run {
            return;
        }
        self.run.fetch_add(1, Ordering::AcqRel);
        self.serves_since.store(u64::MAX, Ordering::Release);
        self.clock.forget();
        if let Some(node_state) = &self.node_state {
            node_state.forget_floors();
        }
    }

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

    /// The bucket went to another server.
    pub(super) fn left(&self, bucket: Bucket) {
        if let Some(node_state) = &self.node_state {
            node_state.left(bucket);
        }
    }

    pub(super) fn opened(&self, up: &Up) {
        self.counts_receivers.store(up.counts_receivers, Ordering::Release);
        // A node of a cluster may not have been asked.
        self.serves_since.fetch_min(Instant::now().as_nanos(), Ordering::AcqRel);
        if up.new_run {
            self.unsettle();
        }
    }

    /// Nobody is subscribed on a server that took over a moment ago. Until all had the time to come, whoever is not
    /// there is granted what is his all the same: passed over, he would find another in his place.
    pub(super) fn unsettle(&self) {
        self.settled.store((Instant::now() + SETTLING).as_nanos(), Ordering::Release);
    }

    fn is_settled(&self) -> bool {
        Instant::from_nanos(self.settled.load(Ordering::Acquire)).remaining().is_zero()
    }

    pub(super) fn handing(&self, keys: &Keys, bucket: Bucket) -> Handing {
        let skip = self.counts_receivers.load(Ordering::Acquire) && self.is_settled();
        let all_keys = self.node_state.is_some();
        let channel = if all_keys { keys.bucket_inbox_prefix(bucket) } else { keys.inbox_prefix() };
        Handing { skip, channel, all_keys }
    }

    /// What `start` puts on the command connection, and which connection that is; `None` if it changed meanwhile.
    pub(super) fn carried<T>(&self, start: impl FnOnce(&Link) -> T) -> (Option<Carrier>, T) {
        let before = self.link.generation();
        let started = start(&self.link);
        let same = self.link.generation() == before;
        (same.then_some(Carrier { shard: self.id, connection: before }), started)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("id", &self.id).field("link", &self.link).finish_non_exhaustive()
    }
}
