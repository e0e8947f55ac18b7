use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{
    keys::Keys,
    reply::Reply,
    scripts::JOIN,
    sequences::Sequences,
    write_probe::{self, WHAT_TO_SET, WriteProbe},
};
use crate::{
    cache::{
        local::Local,
        store::{SILENCE, Trust, UnsureRun, Wakes},
        tags::Tag,
    },
    clock::Instant,
    metrics::{self, SUBSCRIPTION_UP},
    redis::{Handshake, LinkError, RoutedEvents, Server, ServerClock, Succession, Up},
    resource::{Bucket, Key, Label},
};

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
    pub(super) write_probe: WriteProbe,
    channel: String,
    /// Whether it is asked about every run that is not trusted. Otherwise only about one that is known to
    /// have replaced another: a fleet that starts would make its first invalidations twice.
    strict: bool,
    /// After this time no value is left from before a new run.
    longest: Duration,
    /// The last run that has answered to JOIN, on the connection where it did.
    joined: Mutex<Option<UnsureRun>>,
    /// Whether that run is known to have lost no invalidation.
    trusted: AtomicBool,
    /// The number of the connection.
    connection: AtomicU64,
    /// The newest epoch of the cache that was heard of.
    epoch: AtomicU64,
    open: AtomicBool,
    /// Nanoseconds of [`Instant`] at which the last message came.
    heard: AtomicU64,
    /// Nanoseconds of [`Instant`] at which the latest question was sent that has its answer. The answer came behind
    /// every message that was published before the question arrived: what else was published is younger than this.
    proven: AtomicU64,
    pub(super) sequences: Sequences,
}

impl<V> Subscription<V> {
    pub(super) fn new(keys: Keys, local: Arc<Local<V>>, longest: Duration, strict: bool) -> Self {
        let channel = keys.channel();
        metrics::gauge(SUBSCRIPTION_UP, &[], 0.0);
        Self {
            keys,
            local,
            wakes: Arc::default(),
            clock: ServerClock::default(),
            write_probe: WriteProbe::default(),
            channel,
            strict,
            longest,
            joined: Mutex::default(),
            trusted: AtomicBool::new(false),
            connection: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            open: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            proven: AtomicU64::new(0),
            sequences: Sequences::default(),
        }
    }

    fn is_run_trusted(&self) -> bool {
        self.trusted.load(Ordering::Acquire)
    }

    /// The epoch in which a value has to have been leased to count. Whoever looks at a reply has heard of every clear
    /// that the server had made when it gave it.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// As scripts are told it.
    pub(super) fn known_epoch(&self) -> Vec<u8> {
        self.epoch().to_string().into_bytes()
    }

    /// Epochs only grow: news that comes late, of a connection before this one, changes nothing.
    fn began(&self, epoch: u64) {
        /// Scripts count in doubles.
        const LIMIT: u64 = 1 << 53;
        if epoch < LIMIT && self.epoch.fetch_max(epoch, Ordering::AcqRel) < epoch {
            self.local.flush();
            // A load that they wait for will not be stored.
            self.wakes.wake_all();
        }
    }

    /// Trust that the server has lost no invalidation, and has not been replaced by one that has newer ones.
    pub(super) fn trust(&self) -> Option<Trust> {
        // In this order: one of the last connection must not pass for one of the next.
        let connection = self.connection.load(Ordering::Acquire);
        let is_trusted = self.is_run_trusted() && self.write_probe.is_trusted(connection);
        is_trusted.then(|| Trust::of_connection(connection))
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether it is connected to a server that is known to have lost no invalidation.
    pub(super) fn is_trusted(&self) -> bool {
        let is_trusted = if self.strict { self.trust().is_some() } else { self.is_run_trusted() };
        is_trusted && self.is_open()
    }

    /// The run that is connected and not trusted yet.
    ///
    /// It has taken a write: two that may both be the primary do so at once only for a while, which is counted from
    /// here.
    pub(super) fn unsure_run(&self) -> Option<UnsureRun> {
        let run = self.joined.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let is_connected = run.connection == self.connection.load(Ordering::Acquire) && !self.is_run_trusted();
        // A server that would have taken it beside any other is never trusted.
        (is_connected && (!self.strict || self.write_probe.outlasts_rivals(run.connection))).then_some(run)
    }

    /// The key and the arguments of JOIN for this run.
    pub(super) fn joining(&self, run: &str) -> (Vec<String>, Vec<Vec<u8>>) {
        let (longest, channel) = (self.longest.as_millis().to_string(), self.channel.clone());
        let args = vec![run.as_bytes().to_vec(), longest.into_bytes(), channel.into_bytes(), self.known_epoch()];
        (vec![self.keys.marker(), self.keys.epoch()], args)
    }

    /// What JOIN replied about this run; nothing when it is connected anew by now, or another is.
    pub(super) fn joined(&self, run: &UnsureRun, sent: Instant, reply: &Reply) {
        self.clock.note(sent, reply.now);
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        if self.connection.load(Ordering::Acquire) == run.connection {
            *joined = Some(run.clone());
            self.trusted.store(reply.word() == "TRUSTED", Ordering::Release);
        }
    }

    /// Whether the channel is heard, and every invalidation that is older than [`SILENCE`] has been.
    ///
    /// Messages alone do not show the second: on a connection that lags they keep coming, each too late.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        self.open.load(Ordering::Acquire) && now.since(self.heard()) < SILENCE && now.since(self.proven()) < SILENCE
    }

    /// Up to when every invalidation has been heard; now, while it is live.
    pub(super) fn live_until(&self) -> Instant {
        let now = Instant::now();
        if self.is_live(now) { now } else { self.heard().min(self.proven()) }
    }

    /// A question that was sent at this instant has its answer, on the connection that carries the messages.
    pub(super) fn answered(&self, sent: Instant) {
        self.proven.fetch_max(sent.as_nanos(), Ordering::AcqRel);
    }

    /// The time since the question was sent that was answered last.
    pub(super) fn since_proof(&self, now: Instant) -> Duration {
        now.since(self.proven())
    }

    fn proven(&self) -> Instant {
        Instant::from_nanos(self.proven.load(Ordering::Acquire))
    }

    fn heard(&self) -> Instant {
        Instant::from_nanos(self.heard.load(Ordering::Acquire))
    }

    fn invalidated(&self, bucket: u8, seq: u64, resource: &str) {
        let now = Instant::now();
        let is_heartbeat = resource == "-";
        let silent = self.open.load(Ordering::Acquire) && now.since(self.heard()) >= SILENCE;
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
        // After the flush: until here a silent subscription stays not live.
        self.heard.store(now.as_nanos(), Ordering::Release);
    }
}

impl<V: Send + Sync + 'static> RoutedEvents<()> for Subscription<V> {
    /// On a server that has all buckets everything is told on the channel and the inbox of the link.
    fn channel(&self, _bucket: Bucket) -> Option<String> {
        None
    }

    fn subscribing(&self, _server: &Server<()>, _bucket: Bucket) {}

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
        _buckets: &'a [Bucket],
        handshake: &'a mut Handshake,
    ) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async {
            let connection = {
                let _joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Its reply is also the first sample of the server's clock.
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
        // Whatever was missed while there was no connection, and whatever a restarted server forgot.
        self.local.flush();
        let now = Instant::now();
        self.sequences.begin(now);
        self.heard.store(now.as_nanos(), Ordering::Release);
        // Nothing is held that is older than this.
        self.answered(now);
        self.open.store(true, Ordering::Release);
        metrics::gauge(SUBSCRIPTION_UP, &[], 1.0);
        self.wakes.wake_all();
    }

    fn closed(&self, _server: &Arc<Server<()>>) {
        self.dropped();
    }

    fn dropped(&self) {
        self.open.store(false, Ordering::Release);
        metrics::gauge(SUBSCRIPTION_UP, &[], 0.0);
    }

    fn leaving(&self, _buckets: &[Bucket]) {}

    fn moved(&self, _buckets: &[Bucket], _places: &[Arc<Server<()>>]) {}
}
