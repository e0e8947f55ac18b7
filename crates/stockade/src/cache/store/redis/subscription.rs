use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{
    keys::Keys,
    liveness::Liveness,
    reply::Reply,
    scripts::JOIN,
    sequences::Sequences,
    write_probe::{self, WHAT_TO_SET, WriteProbe},
};
use crate::{
    cache::{
        local::Local,
        store::{Trust, UnsureRun, Wakes},
        tags::Tag,
    },
    clock::Instant,
    redis::{Handshake, LinkError, RoutedEvents, Server, ServerClock, Succession, Up},
    resource::{Key, Label},
};

/// The subscription to invalidations. It keeps the in-process tier up to date, or says that the tier may be outdated.
///
/// The script that drops a value numbers the messages of each bucket. The tier is flushed if a number is not the next
/// one, after a silence, and on a new connection.
#[derive(Debug)]
pub(in crate::cache::store) struct Subscription<V> {
    pub(super) keys: Keys,
    pub(super) local: Arc<Local<V>>,
    pub(in crate::cache::store) wakes: Arc<Wakes>,
    pub(super) clock: ServerClock,
    pub(super) write_probe: WriteProbe,
    pub(in crate::cache::store) liveness: Liveness,
    pub(super) sequences: Sequences,
    channel: String,
    /// Whether the cache is strict: then no run is trusted before a relay vouches for it. Otherwise only a run that is
    /// known to have replaced another is not trusted at once, or a fleet that starts would make its first invalidations
    /// twice.
    strict: bool,
    /// After this time no value from before a new run is left.
    longest: Duration,
    /// The last run that replied to JOIN, with the number of its connection.
    joined: Mutex<Option<UnsureRun>>,
    /// Whether that run is known to have lost no invalidation.
    trusted: AtomicBool,
    connection: AtomicU64,
    /// The newest epoch of the cache that this process has heard of.
    epoch: AtomicU64,
}

impl<V> Subscription<V> {
    pub(super) fn new(keys: Keys, local: Arc<Local<V>>, longest: Duration, strict: bool) -> Self {
        let channel = keys.channel();
        Self {
            keys,
            local,
            wakes: Arc::default(),
            clock: ServerClock::default(),
            write_probe: WriteProbe::default(),
            liveness: Liveness::default(),
            sequences: Sequences::default(),
            channel,
            strict,
            longest,
            joined: Mutex::default(),
            trusted: AtomicBool::new(false),
            connection: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    fn is_run_trusted(&self) -> bool {
        self.trusted.load(Ordering::Acquire)
    }

    /// The epoch of the cache. Only a value whose load was leased in this epoch is valid. When a reply is handled, this
    /// process has heard of every clear that the server ran before it.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The epoch as an argument of scripts.
    pub(super) fn known_epoch(&self) -> Vec<u8> {
        self.epoch().to_string().into_bytes()
    }

    /// Notes an epoch. Epochs only grow, so a late message of an earlier connection changes nothing.
    fn began(&self, epoch: u64) {
        /// Scripts count in doubles.
        const LIMIT: u64 = 1 << 53;
        if epoch < LIMIT && self.epoch.fetch_max(epoch, Ordering::AcqRel) < epoch {
            self.local.flush();
            // The loads that these callers wait for will not be stored.
            self.wakes.wake_all();
        }
    }

    /// Evidence that the server has lost no invalidation, and was not replaced by a server with newer ones.
    pub(in crate::cache::store) fn trust(&self) -> Option<Trust> {
        // The connection is read first: trust in the last connection must not count for the next one.
        let connection = self.connection.load(Ordering::Acquire);
        let is_trusted = self.is_run_trusted() && self.write_probe.is_trusted(connection);
        is_trusted.then(|| Trust::of_connection(connection))
    }

    /// Whether the subscription is open, on a server that is known to have lost no invalidation.
    pub(in crate::cache::store) fn is_trusted(&self) -> bool {
        let is_trusted = if self.strict { self.trust().is_some() } else { self.is_run_trusted() };
        is_trusted && self.liveness.is_open()
    }

    /// The connected run, if it is not trusted yet.
    ///
    /// The run has accepted a write. If two servers may both be the primary, both accept writes only for a while, and
    /// that time is counted from this write.
    pub(in crate::cache::store) fn unsure_run(&self) -> Option<UnsureRun> {
        let run = self.joined.lock().clone()?;
        let is_connected = run.connection == self.connection.load(Ordering::Acquire) && !self.is_run_trusted();
        // A server that accepts writes whether or not another is the primary is never trusted.
        (is_connected && (!self.strict || self.write_probe.outlasts_rivals(run.connection))).then_some(run)
    }

    /// The connected run of a strict cache, if it is trusted.
    pub(super) fn trusted_run(&self) -> Option<UnsureRun> {
        let run = self.joined.lock().clone()?;
        let is_connected = run.connection == self.connection.load(Ordering::Acquire);
        (self.strict && is_connected && self.is_run_trusted()).then_some(run)
    }

    /// The key and the arguments of JOIN for this run.
    pub(super) fn joining(&self, run: &str) -> (Vec<String>, Vec<Vec<u8>>) {
        let (longest, channel) = (self.longest.as_millis().to_string(), self.channel.clone());
        let args = vec![run.as_bytes().to_vec(), longest.into_bytes(), channel.into_bytes(), self.known_epoch()];
        (vec![self.keys.marker(), self.keys.epoch()], args)
    }

    /// Notes what JOIN or TRUST replied about a run. Does nothing if there is a newer connection.
    pub(super) fn joined(&self, run: &UnsureRun, sent: Instant, reply: &Reply) {
        self.clock.note(sent, reply.now);
        let mut joined = self.joined.lock();
        if self.connection.load(Ordering::Acquire) == run.connection {
            *joined = Some(run.clone());
            self.trusted.store(reply.word() == "TRUSTED", Ordering::Release);
        }
    }

    fn invalidated(&self, bucket: u8, seq: u64, resource: &str) {
        let now = Instant::now();
        let is_heartbeat = resource == "-";
        let silent = self.liveness.is_silent(now);
        let missed = self.sequences.note(bucket, seq, is_heartbeat.then_some(now));
        if missed || silent {
            tracing::debug!(channel = self.channel, bucket, missed, silent, "flushing the in-process cache");
            self.local.flush();
        }
        if let Some(tag) = resource.strip_prefix(Tag::MARK) {
            if let Ok(tag) = Tag::new(tag) {
                self.local.invalidate_tag(&tag);
            }
        } else if !is_heartbeat && let Ok(key) = Key::encoded(Label::Borrowed(""), resource.to_owned()) {
            self.local.invalidate(&key);
        }
        // After the flush: a subscription that was silent is not live before the tier is empty.
        self.liveness.message_came(now);
    }
}

/// One server has all buckets, and its messages come on the channel and the inbox of the link.
impl<V: Send + Sync + 'static> RoutedEvents<()> for Subscription<V> {
    fn message(&self, _server: &Arc<Server<()>>, channel: &str, payload: &[u8]) {
        let Ok(text) = std::str::from_utf8(payload) else {
            return;
        };
        if let Some(epoch) = text.strip_prefix("E ").filter(|_| channel == self.channel) {
            if let Ok(epoch) = epoch.parse() {
                self.began(epoch);
            }
        } else if channel == self.channel {
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

    fn prepare<'a>(
        &'a self,
        _server: &'a Arc<Server<()>>,
        up: &'a Up,
        handshake: &'a mut Handshake,
    ) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async {
            let connection = {
                let _joined = self.joined.lock();
                self.trusted.store(false, Ordering::Release);
                self.connection.fetch_add(1, Ordering::AcqRel) + 1
            };
            self.write_probe.begin(connection, up.succession);
            if self.strict && up.succession == Succession::ByHand && self.write_probe.tells() {
                tracing::warn!(
                    "nothing tells a strict cache when a replica is made the primary and this Redis goes on answering: \
                     {WHAT_TO_SET}"
                );
            }
            let run = UnsureRun { id: Arc::clone(&up.run_id), connection, has_rival: up.succession.has_rival() };
            // The reply is also the first sample of the server's clock.
            let (sent, (keys, args)) = (Instant::now(), self.joining(&up.run_id));
            let reply = handshake.call(&JOIN, &keys, &args).await?;
            let mut reply = Reply::read(JOIN.name, reply)?;
            self.began(reply.number()?);
            self.joined(&run, sent, &reply);
            let replaces = up.new_run || reply.word() == "REPLACING";
            if !self.strict && !replaces {
                self.trusted.store(true, Ordering::Release);
            }
            if self.strict && up.succession == Succession::Bounded {
                let sent = Instant::now();
                match handshake.command(write_probe::write(&self.keys)).await {
                    Ok(_) => self.write_probe.taken(connection, sent),
                    Err(LinkError::Refused { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn opened(&self, _server: &Arc<Server<()>>, _up: &Up) {
        // Invalidations may have been missed without a connection, or lost by a server that restarted.
        self.local.flush();
        let now = Instant::now();
        self.sequences.begin(now);
        self.liveness.opened(now);
        self.wakes.wake_all();
    }

    fn closed(&self, _server: &Arc<Server<()>>) {
        self.dropped();
    }

    fn dropped(&self) {
        self.liveness.closed();
    }
}
