use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{
    keys::Keys,
    reply::{Reply, ServerClock},
    scripts::BEAT,
};
use crate::{
    cache::{local::Local, wake::Wakes},
    clock::Instant,
    metrics::{self, SUBSCRIPTION_UP},
    redis::{Handshake, LinkError, LinkEvents, Up},
    resource::{Key, Label},
};

/// How long the channel may be silent before the in-process tier is no longer believed. Beats come each second.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

const BUCKETS: usize = 256;

/// The invalidation subscription: keeps the in-process tier true, or knows that it can't.
///
/// Each bucket's messages are numbered by the script that dropped the value. A number that is not the next one, a
/// silence, a new connection: each flushes the tier.
#[derive(Debug)]
pub(super) struct Subscription<V> {
    pub(super) keys: Keys,
    pub(super) local: Arc<Local<V>>,
    pub(super) wakes: Arc<Wakes>,
    pub(super) clock: ServerClock,
    channel: String,
    open: AtomicBool,
    /// Nanoseconds of [`Instant`] at which the last message came.
    heard: AtomicU64,
    buckets: Mutex<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    last: [Option<u64>; BUCKETS],
    /// Whose number nobody has repeated since it changed.
    unconfirmed: Vec<u8>,
    heard_beat: Instant,
}

impl<V> Subscription<V> {
    pub(super) fn new(keys: Keys, local: Arc<Local<V>>) -> Self {
        let channel = keys.channel();
        metrics::gauge(SUBSCRIPTION_UP, &[], 0.0);
        let buckets = Buckets { last: [None; BUCKETS], unconfirmed: Vec::new(), heard_beat: Instant::from_nanos(0) };
        Self {
            keys,
            local,
            wakes: Arc::default(),
            clock: ServerClock::default(),
            channel,
            open: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            buckets: Mutex::new(buckets),
        }
    }

    /// Whether every invalidation up to now, but for those on the wire, has been heard.
    pub(super) fn is_live(&self) -> bool {
        self.open.load(Ordering::Acquire) && self.heard().elapsed() < SILENCE
    }

    /// The last instant at which it was live.
    pub(super) fn live_until(&self) -> Instant {
        if self.is_live() { Instant::now() } else { self.heard() }
    }

    /// The time since anybody's beat was heard.
    pub(super) fn since_beat(&self) -> Duration {
        self.lock().heard_beat.elapsed()
    }

    /// The buckets that a beat should repeat: those that changed since the last one.
    pub(super) fn unconfirmed(&self) -> Vec<u8> {
        self.lock().unconfirmed.clone()
    }

    fn heard(&self) -> Instant {
        Instant::from_nanos(self.heard.load(Ordering::Acquire))
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn invalidated(&self, bucket: u8, seq: u64, resource: &str) {
        let now = Instant::now();
        let mut buckets = self.lock();
        let expected = buckets.last[usize::from(bucket)].replace(seq);
        let beat = resource == "-";
        let missed = expected.is_some_and(|last| if beat { seq != last } else { seq != last + 1 });
        let silent = self.open.load(Ordering::Acquire) && now.since(self.heard()) >= SILENCE;
        if beat {
            buckets.heard_beat = now;
            buckets.unconfirmed.retain(|other| *other != bucket);
        } else if !buckets.unconfirmed.contains(&bucket) {
            buckets.unconfirmed.push(bucket);
        }
        drop(buckets);
        if missed || silent {
            tracing::debug!(channel = self.channel, bucket, missed, silent, "flushing the in-process cache");
            self.local.flush();
        }
        if !beat && let Ok(key) = Key::encoded(Label::Borrowed(""), resource.to_owned()) {
            self.local.invalidate(&key);
        }
        // After the flush: until here a silent subscription stays not live.
        self.heard.store(now.as_nanos(), Ordering::Release);
    }
}

impl<V: Send + Sync + 'static> LinkEvents for Subscription<V> {
    fn message(&self, channel: &str, payload: &[u8]) {
        let Ok(text) = std::str::from_utf8(payload) else {
            return;
        };
        if channel == self.channel {
            let mut parts = text.splitn(3, ' ');
            let bucket = parts.next().and_then(|bucket| bucket.parse().ok());
            let seq = parts.next().and_then(|seq| seq.parse().ok());
            if let (Some(bucket), Some(seq), Some(resource)) = (bucket, seq, parts.next()) {
                self.invalidated(bucket, seq, resource);
            }
        } else if let Some(resource) = text.strip_prefix("C ") {
            self.wakes.wake(resource);
        }
    }

    fn prepare<'a>(&'a self, _up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async {
            // The first sample of the server's clock; without keys it tells nobody.
            let reply = handshake.call(&BEAT, &[], &[self.channel.clone().into_bytes()]).await?;
            self.clock.saw(Reply::read(BEAT.name, reply)?.now);
            Ok(())
        })
    }

    fn opened(&self, _up: &Up) {
        // Whatever was missed while there was no connection, and whatever a restarted server forgot.
        self.local.flush();
        let now = Instant::now();
        {
            let mut buckets = self.lock();
            buckets.last = [None; BUCKETS];
            buckets.unconfirmed.clear();
            buckets.heard_beat = now;
        }
        self.heard.store(now.as_nanos(), Ordering::Release);
        self.open.store(true, Ordering::Release);
        metrics::gauge(SUBSCRIPTION_UP, &[], 1.0);
        self.wakes.wake_all();
    }

    fn closed(&self) {
        self.open.store(false, Ordering::Release);
        metrics::gauge(SUBSCRIPTION_UP, &[], 0.0);
    }
}
