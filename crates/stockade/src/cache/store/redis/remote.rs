use std::{sync::Arc, time::Duration};

use redis::Value;
use serde::de::DeserializeOwned;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    keys::Keys,
    reply::Reply,
    scripts::{ALL, TRUST},
    stored::Stored,
    subscription::Subscription,
    tasks::{heartbeat, staleness_gauge, trust_gauge, write_probe},
};
use crate::{
    Redis,
    cache::{
        CacheError,
        local::Local,
        settings::Settings,
        store::{FirstAttempt, Read, Trust, UnsureRun, Wake},
        value::{Entry, Envelope, Unreadable},
    },
    clock::Instant,
    redis::{Claim, LinkError, RoutedEvents, RoutedLink, Script, Server},
    resource::{Bucket, Key},
};

/// What a server says of a key that holds another type than the command is for.
const WRONG_TYPE: &str = "WRONGTYPE";

/// The client side of the lease protocol.
#[derive(Debug)]
pub(crate) struct Remote<V> {
    pub(super) servers: Arc<RoutedLink<()>>,
    first_attempt: FirstAttempt,
    pub(super) subscription: Arc<Subscription<V>>,
    pub(super) settings: Arc<Settings>,
    pub(super) envelope: Envelope,
    field: String,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stopped_at_the_end: DropGuard,
    _claim: Claim,
}

impl<V: DeserializeOwned + Send + Sync + 'static> Remote<V> {
    pub(crate) fn open(redis: &Redis, claim: Claim, settings: Arc<Settings>, local: Arc<Local<V>>) -> Self {
        let keys = Keys::new(redis.key_prefix(), settings.name);
        let channels = vec![keys.channel(), keys.inbox()];
        let strict = settings.strict.is_some();
        // A loader may give its values any lifetime, so that age alone makes no run trusted where that matters.
        let longest = if strict { Duration::MAX } else { settings.ttl.end().saturating_add(settings.grace) };
        let subscription = Arc::new(Subscription::new(keys, local, longest, strict));
        let events = Arc::clone(&subscription) as Arc<dyn RoutedEvents<()>>;
        let servers = RoutedLink::new(redis, "cache", channels, ALL, events);
        servers.start();
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(heartbeat::keep(Arc::clone(&servers), Arc::clone(&subscription), stop.clone()));
        if strict {
            let has_sentinels = redis.has_sentinels();
            tasks.spawn(write_probe::keep(
                Arc::clone(&servers),
                Arc::clone(&subscription),
                has_sentinels,
                stop.clone(),
            ));
        }
        let serves = settings.serve_local || settings.under_locks;
        let shown = staleness_gauge::show(Arc::clone(&subscription), settings.name, serves, stop.clone());
        tasks.spawn(shown);
        let trust_shown =
            trust_gauge::show(Arc::clone(&subscription), settings.name, settings.strict.clone(), stop.clone());
        tasks.spawn(trust_shown);
        let envelope = settings.envelope.clone();
        let field = Stored::field(envelope.fingerprint());
        let (first_attempt, _stopped_at_the_end) = (FirstAttempt::default(), stop.clone().drop_guard());
        Self {
            servers,
            first_attempt,
            subscription,
            settings,
            envelope,
            field,
            tasks,
            stop,
            _stopped_at_the_end,
            _claim: claim,
        }
    }

    pub(crate) async fn attempted(&self) {
        if let Ok(server) = self.server(Bucket::FIRST) {
            self.first_attempt.of(&server.link).await;
        }
    }

    pub(crate) async fn read(&self, key: &Key) -> Read<V> {
        let entry = self.subscription.keys.entry(key);
        let mut command = redis::Cmd::with_capacity(3, entry.len() + self.field.len() + "HGET".len());
        command.arg("HGET").arg(entry).arg(&self.field);
        let sent = Instant::now();
        match self.command(key.bucket(), "cache_read", command).await {
            Ok(value) => {
                self.subscription.answered(sent);
                match value {
                    Value::BulkString(bytes) => self.found(key, bytes).await,
                    Value::Nil => Read::Miss,
                    _ => Read::Unreadable,
                }
            }
            // What is there is no entry: the script that gives the lease deletes it.
            Err(LinkError::Refused { code }) if code == WRONG_TYPE => Read::Miss,
            Err(error) => {
                tracing::debug!(%key, %error, "cache read failed");
                Read::Down
            }
        }
    }

    async fn found(&self, key: &Key, bytes: Vec<u8>) -> Read<V> {
        let Some(stored) = Stored::read(bytes) else {
            return Read::Unreadable;
        };
        // News of a clear stands before the reply to any read that the server took after it.
        if stored.epoch != self.subscription.epoch() {
            return Read::Miss;
        }
        match self.has_current_tags(&stored).await {
            Ok(true) => {}
            Ok(false) => return Read::Miss,
            Err(error) => {
                tracing::debug!(%key, %error, "cache read failed");
                return Read::Down;
            }
        }
        match self.entry(&stored) {
            Ok(entry) if entry.is_fresh(Instant::now()) => Read::Hit(entry),
            Ok(entry) => Read::Stale(entry),
            Err(Unreadable) => Read::Unreadable,
        }
    }

    /// The server that has the bucket.
    pub(super) fn server(&self, bucket: Bucket) -> Result<Arc<Server<()>>, LinkError> {
        self.servers.of(bucket).ok_or(LinkError::Down)
    }

    async fn command(&self, bucket: Bucket, op: &'static str, command: redis::Cmd) -> Result<Value, LinkError> {
        self.server(bucket)?.link.command(op, command).await
    }

    /// The run of the server that has the table of tags.
    fn run_id(&self) -> Option<Arc<str>> {
        self.servers.of(Bucket::FIRST)?.run_id()
    }

    /// Whether no tag of this was invalidated since it was loaded. Without tags nobody is asked.
    async fn has_current_tags(&self, stored: &Stored) -> Result<bool, LinkError> {
        if stored.tags.is_empty() {
            return Ok(true);
        }
        let Some(run) = self.run_id() else {
            return Ok(false);
        };
        let mut command = redis::cmd("ZMSCORE");
        command.arg(self.subscription.keys.tags()).arg(format!("e:{run}")).arg("f");
        for tag in stored.tags.iter() {
            command.arg(format!("t:{tag}"));
        }
        let scores = match self.command(Bucket::FIRST, "cache_tags", command).await {
            // No table of tags, as if it had been lost.
            Err(LinkError::Refused { code }) if code == WRONG_TYPE => return Ok(false),
            scores => scores?,
        };
        // Asked of a replica that was promoted in between, a table that the old primary left there would pass for its
        // own.
        Ok(self.run_id() == Some(run) && stored.stamp.holds(scores))
    }

    /// One script call on the keys of `key`. It takes its place in the write order at once; after NOSCRIPT, which means
    /// not executed, it is sent again.
    pub(super) fn call<'a>(
        &'a self,
        script: &'static Script,
        key: &Key,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send + use<'a, V> {
        self.call_on(script, key.bucket(), self.subscription.keys.of(key), args)
    }

    pub(super) fn call_on<'a>(
        &'a self,
        script: &'static Script,
        bucket: Bucket,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send + use<'a, V> {
        let sent = Instant::now();
        let first = self.server(bucket).map(|server| server.link.call(script, keys.clone(), args.clone()));
        async move {
            let value = match first?.await {
                Err(LinkError::NoScript) => self.server(bucket)?.link.call(script, keys, args).await?,
                reply => reply?,
            };
            let reply = Reply::read(script.name, value)?;
            self.subscription.clock.note(sent, reply.now);
            Ok(reply)
        }
    }

    /// The run of the server that a script is meant for. A server of another run begins its table of tags anew when it
    /// gets the script, and again at the next script that names the right run; values with tags are then loaded again.
    pub(super) fn run(&self) -> Vec<u8> {
        self.run_id().as_deref().unwrap_or("-").as_bytes().to_vec()
    }

    pub(super) fn entry(&self, stored: &Stored) -> Result<Entry<V>, Unreadable> {
        let (value, weight) = self.envelope.decode(stored.payload(), stored.null)?;
        let clock = &self.subscription.clock;
        let (Some(loaded), Some(expires)) = (clock.local(stored.loaded), clock.local(stored.expires)) else {
            return Err(Unreadable);
        };
        let took = Duration::from_micros(stored.took);
        let (version, tags) = (stored.version, stored.tags.clone());
        let (value, stored) = (value.map(Arc::new), Some(stored.loaded));
        Ok(Entry { value, loaded, stored, expires, took, version, tags, weight })
    }

    /// Trust that the server has lost no invalidation.
    pub(crate) fn trust(&self) -> Option<Trust> {
        self.subscription.trust()
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.subscription.is_trusted()
    }

    /// The run of the server that is not trusted yet.
    pub(crate) fn unsure_run(&self) -> Option<UnsureRun> {
        self.subscription.unsure_run()
    }

    /// Every invalidation that may have been lost before this run was made again.
    pub(crate) async fn trust_run(&self, run: &UnsureRun) -> Result<(), CacheError> {
        let unavailable = |error| CacheError::Unavailable(Arc::new(error));
        let (sent, keys) = (Instant::now(), vec![self.subscription.keys.marker()]);
        let reply = self
            .server(Bucket::FIRST)
            .map_err(unavailable)?
            .link
            .call(&TRUST, keys, vec![run.id.as_bytes().to_vec()])
            .await
            .map_err(unavailable)?;
        self.subscription.joined(run, sent, &Reply::read(TRUST.name, reply).map_err(unavailable)?);
        Ok(())
    }

    pub(crate) fn verified_until(&self) -> Instant {
        self.subscription.live_until()
    }

    pub(crate) fn is_verified_at(&self, now: Instant) -> bool {
        self.subscription.is_live(now)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.servers.are_well()
    }

    pub(crate) fn watch(&self, key: &Key) -> Wake {
        self.subscription.wakes.watch(key.as_str())
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.servers.shutdown(limit).await;
    }
}

/// The longest that Redis is given for anything: an expiry that it does not take would fail a script half-way, and
/// leave a value without an end.
pub(super) const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

pub(super) fn millis(duration: Duration) -> Vec<u8> {
    duration.min(LONGEST).as_millis().to_string().into_bytes()
}
