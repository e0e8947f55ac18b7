use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::Rng;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    calls::Handing,
    held::HeldTable,
    inbox::{Inbox, Waiters},
    keys::Keys,
    pokes::Pokes,
    sample::ServerClock,
    scripts,
};
use crate::{
    redis::{Link, LinkError, Redis},
    resource::{Bucket, Key},
    store::{LockError, Owner, Token, Unavailable},
};

/// What the parts of a store share.
pub(super) struct Inner {
    pub(super) link: Link,
    pub(super) keys: Keys,
    pub(super) waiters: Waiters,
    pub(super) held: HeldTable,
    pub(super) pokes: Arc<Pokes>,
    pub(super) clock: ServerClock,
    pub(super) floors: Floors,
    /// Counts the runs of the server that the link has met.
    pub(super) run: AtomicU64,
    pub(super) counts_receivers: AtomicBool,
    /// Compensations and releases in the background.
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    pub(super) closing: AtomicBool,
    /// Ends the tasks, done or not.
    pub(super) ended: CancellationToken,
    process: String,
    attempts: AtomicU64,
}

impl Inner {
    pub(super) fn open(redis: &Redis) -> Arc<Self> {
        Arc::new_cyclic(|inner| {
            let keys = Keys::new(redis.key_prefix().clone());
            let process = new_process();
            let inbox = format!("{}{process}", keys.inbox_prefix());
            let link = Link::open(redis, "lock", vec![inbox], scripts::ALL, Arc::new(Inbox(Weak::clone(inner))));
            Self {
                link,
                keys,
                waiters: Waiters::default(),
                held: HeldTable::default(),
                pokes: Arc::default(),
                clock: ServerClock::default(),
                floors: Floors::default(),
                run: AtomicU64::new(0),
                counts_receivers: AtomicBool::new(false),
                tasks: TaskTracker::new(),
                runtime: Handle::current(),
                closing: AtomicBool::new(false),
                ended: CancellationToken::new(),
                process,
                attempts: AtomicU64::new(0),
            }
        })
    }

    pub(super) fn new_owner(&self) -> Owner {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        Owner::new(format!("{}.{number:011}", self.process))
    }

    pub(super) fn run(&self) -> u64 {
        self.run.load(Ordering::Acquire)
    }

    pub(super) fn handing(&self) -> Handing {
        let skip = self.counts_receivers.load(Ordering::Acquire);
        Handing { skip, channel: self.keys.inbox_prefix() }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        let task = async move {
            let _ = ended.run_until_cancelled(task).await;
        };
        self.tasks.spawn_on(task, &self.runtime);
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("link", &self.link).finish_non_exhaustive()
    }
}

/// 96 random bits in 16 characters, none of which ends a word of a record or a part of an owner.
fn new_process() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    let mut random = rand::rng();
    (0..16).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

/// The largest token seen in each bucket, for a server that comes back without its own.
#[derive(Debug)]
pub(super) struct Floors([AtomicU64; 256]);

impl Default for Floors {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 256])
    }
}

impl Floors {
    pub(super) fn note(&self, key: &Key, token: Token) {
        self.0[usize::from(key.bucket().index())].fetch_max(token.get(), Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> Vec<(Bucket, u64)> {
        let buckets = (0..=u8::MAX).map(Bucket::from_index).zip(&self.0);
        buckets.map(|(bucket, floor)| (bucket, floor.load(Ordering::Relaxed))).filter(|(_, floor)| *floor > 0).collect()
    }
}

pub(super) fn unavailable(error: &LinkError) -> LockError {
    let (reason, retry_after) = match error {
        LinkError::Timeout => (Unavailable::Timeout, Duration::from_secs(1)),
        LinkError::Lost | LinkError::Down => (Unavailable::Disconnected, Duration::from_secs(1)),
        LinkError::Open { retry_after } => (Unavailable::BreakerOpen, *retry_after),
        LinkError::NoScript | LinkError::Refused { .. } | LinkError::Protocol { .. } => {
            (Unavailable::Refused, Duration::from_secs(1))
        }
    };
    LockError::Unavailable { reason, retry_after }
}
