use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{calls::Handing, inbox::Inbox, inner::Inner, keys::Keys, sample::ServerClock, scripts};
use crate::redis::{Link, Redis, Up};

/// One server of the store, with what is true of this server only.
pub(super) struct Shard {
    /// Never given to another server of the same store.
    pub(super) id: u32,
    pub(super) link: Link,
    pub(super) clock: ServerClock,
    /// Counts the runs of the server that the link has met.
    run: AtomicU64,
    counts_receivers: AtomicBool,
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

impl Shard {
    pub(super) fn open(id: u32, redis: &Redis, inbox: String, inner: &Weak<Inner>) -> Arc<Self> {
        Arc::new_cyclic(|shard| {
            let events = Inbox { inner: Weak::clone(inner), shard: Weak::clone(shard) };
            Self {
                id,
                link: Link::open(redis, "lock", vec![inbox], scripts::ALL, Arc::new(events)),
                clock: ServerClock::default(),
                run: AtomicU64::new(0),
                counts_receivers: AtomicBool::new(false),
            }
        })
    }

    pub(super) fn run(&self) -> Run {
        Run { shard: self.id, number: self.run.load(Ordering::Acquire) }
    }

    /// The link has met another run of the server, which may have another clock.
    pub(super) fn began_another_run(&self) {
        self.run.fetch_add(1, Ordering::AcqRel);
        self.clock.forget();
    }

    pub(super) fn opened(&self, up: &Up) {
        self.counts_receivers.store(up.counts_receivers, Ordering::Release);
    }

    pub(super) fn handing(&self, keys: &Keys) -> Handing {
        let skip = self.counts_receivers.load(Ordering::Acquire);
        Handing { skip, channel: keys.inbox_prefix() }
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
