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
    scripts::{ABORT, ALL, ANNOUNCED, BEGIN, CLEAR, END, FILL, INVALIDATE, INVALIDATE_TAG, LEASE, TRUST},
    stored::Stored,
    subscription::Subscription,
    tasks::{heartbeat, staleness_gauge, trust_gauge},
    write_probe,
};
use crate::{
    Redis,
    cache::{
        CacheError,
        invalidation::{NotTaken, Outcomes},
        local::{Local, Reservation},
        settings::Settings,
        store::{
            Assurance, Filled, Filling, FirstAttempt, Hold, Lease, Read, Token, UnsureRun, Wake, Want, some_at_a_time,
        },
        strict::Intent,
        tags::Tag,
        value::{Entry, Envelope, Unreadable},
    },
    clock::Instant,
    redis::{Claim, Link, LinkError, LinkEvents, Script, evalsha},
    resource::{Bucket, Key, Label},
};

/// What a server says of a key that holds another type than the command is for.
const WRONG_TYPE: &str = "WRONGTYPE";

/// The client side of the lease protocol.
#[derive(Debug)]
pub(crate) struct Remote<V> {
    link: Link,
    first_attempt: FirstAttempt,
    subscription: Arc<Subscription<V>>,
    settings: Arc<Settings>,
    envelope: Envelope,
    field: String,
    tasks: TaskTracker,
    beats: CancellationToken,
    _beats: DropGuard,
    _claim: Claim,
}

impl<V: DeserializeOwned + Send + Sync + 'static> Remote<V> {
    pub(crate) fn open(redis: &Redis, claim: Claim, settings: Arc<Settings>, local: Arc<Local<V>>) -> Self {
        let keys = Keys::new(redis.key_prefix(), settings.name);
        let channels = vec![keys.channel(), keys.inbox()];
        let strict = settings.strict.is_some();
        // A loader may give its values any lifetime, so that age alone vouches for no run where that matters.
        let longest = if strict { Duration::MAX } else { settings.ttl.end().saturating_add(settings.grace) };
        let subscription = Arc::new(Subscription::new(keys, local, longest, strict));
        let events = Arc::clone(&subscription) as Arc<dyn LinkEvents>;
        let link = Link::open(redis, "cache", channels, ALL, events);
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(heartbeat::keep(link.clone(), Arc::clone(&subscription), stop.clone()));
        if strict {
            let has_sentinels = redis.has_sentinels();
            tasks.spawn(write_probe::keep(link.clone(), Arc::clone(&subscription), has_sentinels, stop.clone()));
        }
        let serves = settings.serve_local || settings.under_locks;
        let shown = staleness_gauge::show(Arc::clone(&subscription), settings.name, serves, stop.clone());
        tasks.spawn(shown);
        let vouched =
            trust_gauge::show(Arc::clone(&subscription), settings.name, settings.strict.clone(), stop.clone());
        tasks.spawn(vouched);
        let envelope = settings.envelope.clone();
        let field = Stored::field(envelope.shape());
        let beats = stop.clone();
        let (first_attempt, _beats) = (FirstAttempt::default(), stop.drop_guard());
        Self { link, first_attempt, subscription, settings, envelope, field, tasks, beats, _beats, _claim: claim }
    }

    pub(crate) async fn attempted(&self) {
        self.first_attempt.of(&self.link).await;
    }

    pub(crate) async fn read(&self, key: &Key) -> Read<V> {
        let entry = self.subscription.keys.entry(key);
        let mut command = redis::Cmd::with_capacity(3, entry.len() + self.field.len() + "HGET".len());
        command.arg("HGET").arg(entry).arg(&self.field);
        let sent = Instant::now();
        match self.link.command("cache_read", command).await {
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
        match self.hold(&stored).await {
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

    /// Whether no tag of this was invalidated since it was loaded. Without tags nobody is asked.
    async fn hold(&self, stored: &Stored) -> Result<bool, LinkError> {
        if stored.tags.is_empty() {
            return Ok(true);
        }
        let Some(run) = self.subscription.run() else {
            return Ok(false);
        };
        let mut command = redis::cmd("ZMSCORE");
        command.arg(self.subscription.keys.tags()).arg(format!("e:{run}")).arg("f");
        for tag in stored.tags.iter() {
            command.arg(format!("t:{tag}"));
        }
        let scores = match self.link.command("cache_tags", command).await {
            // No table of tags, as if it had been lost.
            Err(LinkError::Refused { code }) if code == WRONG_TYPE => return Ok(false),
            scores => scores?,
        };
        // Asked of a replica that was promoted in between, a table that the old primary left there would pass for its own.
        Ok(self.subscription.run() == Some(run) && stored.stamp.holds(scores))
    }

    pub(crate) async fn lease(&self, key: &Key, token: &Token, want: Want, content: bool) -> Lease<V> {
        let kind: &[u8] = match want {
            Want::Value => b"miss",
            Want::Load => b"early",
        };
        let args = vec![
            token.as_bytes().to_vec(),
            millis(self.settings.lease),
            self.subscription.keys.process().as_bytes().to_vec(),
            kind.to_vec(),
            u8::from(content).to_string().into_bytes(),
            millis(self.settings.hold_off),
            self.run(),
            self.shape(),
            self.subscription.keys.channel().into_bytes(),
            self.subscription.known_epoch(),
        ];
        let replied =
            self.call_on(&LEASE, self.subscription.keys.of_load(key), args).await.and_then(|reply| self.leased(reply));
        replied.unwrap_or_else(|error| {
            tracing::debug!(%key, %error, "cache lease failed");
            // It may still be executed. Behind it on the same connection goes its undoing, for which nobody waits, so
            // that the others are not kept waiting for a load that will not be stored.
            if !error.is_never_executed() {
                self.undo(key, token);
            }
            Lease::Down
        })
    }

    fn leased(&self, mut reply: Reply) -> Result<Lease<V>, LinkError> {
        match reply.word() {
            "HIT" => {
                let entry = reply.stored().and_then(|stored| self.entry(&stored).ok());
                Ok(entry.map_or(Lease::Unreadable, Lease::Hit))
            }
            "WAIT" => Ok(Lease::Wait(Duration::from_micros(reply.number()?))),
            "LEASED" => Ok(Lease::Granted(reply.stored().and_then(|stored| self.entry(&stored).ok()))),
            "HELD" => Ok(Lease::Held(reply.stored().and_then(|stored| self.entry(&stored).ok()))),
            "FAILING" => Ok(Lease::Failing(Duration::from_micros(reply.number()?))),
            "BYPASS" => Ok(Lease::Bypass(reply.intents())),
            _ => Err(reply.unexpected()),
        }
    }

    pub(crate) async fn fill(
        &self,
        key: &Key,
        token: &Token,
        reservation: Reservation,
        filling: Filling<'_, V>,
    ) -> Filled {
        let Entry { value, version, took, .. } = filling.entry;
        let args = vec![
            token.as_bytes().to_vec(),
            filling.bytes,
            Stored::words(value.is_none(), *version, took.as_micros()).into_bytes(),
            millis(filling.ttl),
            millis(self.settings.grace),
            key.as_str().as_bytes().to_vec(),
            self.subscription.keys.inbox_prefix().into_bytes(),
            self.run(),
            filling.entry.tags.as_packed().as_bytes().to_vec(),
            millis(self.settings.lease),
            self.shape(),
        ];
        match self.call_on(&FILL, self.subscription.keys.of_load(key), args).await {
            Ok(reply) if reply.word() == "ACCEPTED" => {
                let entry = Entry { stored: Some(reply.now), ..filling.entry.clone() };
                self.subscription.local.put(reservation, key, entry);
                Filled::Accepted
            }
            Ok(reply) => {
                if reply.word() == "OUTDATED" {
                    // Nobody waits for this: who waits for the load is told by it.
                    self.undo(key, token);
                }
                Filled::Refused
            }
            Err(error) => {
                tracing::debug!(%key, %error, "cache fill failed");
                Filled::Unknown
            }
        }
    }

    fn undo(&self, key: &Key, token: &Token) {
        let make = |sha: &str| evalsha(sha, self.subscription.keys.of(key), self.aborting(key, token, Hold::NONE));
        drop(self.link.call_regardless(&ABORT, &make));
    }

    fn shape(&self) -> Vec<u8> {
        self.envelope.shape().as_bytes().to_vec()
    }

    fn aborting(&self, key: &Key, token: &Token, hold: Hold) -> Vec<Vec<u8>> {
        vec![
            token.as_bytes().to_vec(),
            key.as_str().as_bytes().to_vec(),
            self.subscription.keys.inbox_prefix().into_bytes(),
            millis(hold.window),
            self.shape(),
            u8::from(hold.counts).to_string().into_bytes(),
        ]
    }

    pub(crate) async fn abort(&self, key: &Key, token: &Token, hold: Hold) {
        if let Err(error) = self.call(&ABORT, key, self.aborting(key, token, hold)).await {
            // The token then ends with its lease.
            tracing::debug!(%key, %error, "cache abort failed");
        }
    }

    pub(crate) async fn invalidate(&self, keys: &[Key]) -> Outcomes<()> {
        self.drop_each(&INVALIDATE, keys, &[])
            .await
            .into_iter()
            .map(|reply| reply.map(drop).map_err(NotTaken::from))
            .collect()
    }

    pub(crate) async fn invalidate_tags(&self, tags: &[Tag]) -> Outcomes<()> {
        self.attempted().await;
        let keys = || vec![self.subscription.keys.tags(), self.subscription.keys.sequence(Bucket::FIRST)];
        let Settings { lease, ttl, null_ttl, grace, .. } = &*self.settings;
        let longest = lease.saturating_add(*ttl.end().max(null_ttl)).saturating_add(*grace);
        let longest = longest.min(LONGEST).as_micros().to_string();
        let calls: Vec<_> = tags
            .iter()
            .map(|tag| {
                let (channel, random) = (self.subscription.keys.channel(), Token::random());
                let (script, keys, args) = if tag.is_all() {
                    let args = vec![channel.into_bytes(), self.subscription.known_epoch()];
                    (&CLEAR, vec![self.subscription.keys.epoch()], args)
                } else {
                    let (tag, run) = (tag.as_str().as_bytes().to_vec(), self.run());
                    let args =
                        vec![tag, channel.into_bytes(), run, random.as_bytes().to_vec(), longest.clone().into_bytes()];
                    (&INVALIDATE_TAG, keys(), args)
                };
                async move { self.call_on(script, keys, args).await }
            })
            .collect();
        some_at_a_time(calls).await.into_iter().map(|reply| reply.map(drop).map_err(NotTaken::from)).collect()
    }

    pub(crate) async fn begin(&self, keys: &[Key], intent: &Intent) -> Result<(), CacheError> {
        let replies = self.drop_each(&BEGIN, keys, &[&intent.id, &intent.xid]).await;
        let begun: Result<Vec<_>, LinkError> = replies.into_iter().collect();
        begun.map(drop).map_err(|error| CacheError::Unavailable(Arc::new(error)))
    }

    pub(crate) async fn end(&self, keys: &[Key], id: &str) -> Outcomes<bool> {
        let replies = self.drop_each(&END, keys, &[id]).await;
        replies.into_iter().map(|reply| Ok(reply?.word() == "ENDED")).collect()
    }

    /// So many of the announcements that stand, from this rank on.
    pub(crate) async fn announced(&self, from: usize, count: usize) -> Result<Vec<(Key, Intent)>, CacheError> {
        let unavailable = |error| CacheError::Unavailable(Arc::new(error));
        let ranks = [from, from + count - 1].map(|rank| rank.to_string().into_bytes()).into();
        let keys = vec![self.subscription.keys.announcements()];
        let mut reply = self.call_on(&ANNOUNCED, keys, ranks).await.map_err(unavailable)?;
        let announced = reply.announced();
        let key = |resource| Key::encoded(Label::Borrowed(self.settings.name), resource);
        Ok(announced.into_iter().filter_map(|(resource, intent)| Some((key(resource).ok()?, intent))).collect())
    }

    /// One of the scripts that drop a value, for each key, with what it wants beside: the reply for each. Many are on the
    /// wire at a time.
    async fn drop_each(&self, script: &'static Script, keys: &[Key], beside: &[&str]) -> Vec<Result<Reply, LinkError>> {
        self.attempted().await;
        let (channel, inbox_prefix) = (self.subscription.keys.channel(), self.subscription.keys.inbox_prefix());
        let calls: Vec<_> = keys
            .iter()
            .map(|key| {
                let bucket = key.bucket().index().to_string();
                let mut args: Vec<Vec<u8>> =
                    [key.as_str(), &bucket, &channel, &inbox_prefix].map(|arg| arg.as_bytes().to_vec()).into();
                args.extend(beside.iter().map(|arg| arg.as_bytes().to_vec()));
                async move { self.call_on(script, self.subscription.keys.of_write(key), args).await }
            })
            .collect();
        // One that fails keeps none of the others back.
        some_at_a_time(calls).await
    }

    /// One script call on the keys of `key`. It takes its place in the write order at once; after NOSCRIPT, which means
    /// not executed, it is sent again.
    fn call<'a>(
        &'a self,
        script: &'static Script,
        key: &Key,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send + use<'a, V> {
        self.call_on(script, self.subscription.keys.of(key), args)
    }

    fn call_on<'a>(
        &'a self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send + use<'a, V> {
        let first = self.link.call(script, keys.clone(), args.clone());
        async move {
            let value = match first.await {
                Err(LinkError::NoScript) => self.link.call(script, keys, args).await?,
                reply => reply?,
            };
            let reply = Reply::read(script.name, value)?;
            self.subscription.clock.saw(reply.now);
            Ok(reply)
        }
    }

    /// The run that a script is sent to. Should it reach another one, that begins its table of tags anew, and once more for
    /// the next who knows better: what has tags is then loaded again.
    fn run(&self) -> Vec<u8> {
        self.subscription.run().as_deref().unwrap_or("-").as_bytes().to_vec()
    }

    fn entry(&self, stored: &Stored) -> Result<Entry<V>, Unreadable> {
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

    /// What stands for the server having lost no invalidation.
    pub(crate) fn assurance(&self) -> Option<Assurance> {
        self.subscription.assurance()
    }

    pub(crate) fn is_vouched_for(&self) -> bool {
        self.subscription.is_vouched_for()
    }

    /// The run of the server for which nobody has vouched yet.
    pub(crate) fn unsure_run(&self) -> Option<UnsureRun> {
        self.subscription.unsure_run()
    }

    /// Every invalidation that may have been lost before this run was made again.
    pub(crate) async fn trust(&self, run: &UnsureRun) -> Result<(), CacheError> {
        let unavailable = |error| CacheError::Unavailable(Arc::new(error));
        let keys = vec![self.subscription.keys.marker()];
        let reply = self.link.call(&TRUST, keys, vec![run.id.as_bytes().to_vec()]).await.map_err(unavailable)?;
        self.subscription.joined(run, &Reply::read(TRUST.name, reply).map_err(unavailable)?);
        Ok(())
    }

    pub(crate) fn verified_until(&self) -> Instant {
        self.subscription.live_until()
    }

    pub(crate) fn is_verified_at(&self, now: Instant) -> bool {
        self.subscription.is_live(now)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up() && self.link.breaker().refusing().is_none()
    }

    pub(crate) fn watch(&self, key: &Key) -> Wake {
        self.subscription.wakes.watch(key.as_str())
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.beats.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.link.shutdown(limit).await;
    }
}

impl From<LinkError> for NotTaken {
    fn from(error: LinkError) -> Self {
        // What concerns one key: no permission, a script that failed over what it found, a reply that can't be read. Of other
        // codes the server says that it takes nothing now: LOADING, READONLY, MISCONF and the like.
        let refused = match &error {
            LinkError::Refused { code } => ["NOPERM", "WRONGTYPE", "ERR"].contains(&code.as_str()),
            LinkError::Protocol { .. } => true,
            _ => false,
        };
        Self { error: CacheError::Unavailable(Arc::new(error)), refused }
    }
}

/// The longest that Redis is given for anything: an expiry that it does not take would fail a script half-way, and leave a value
/// without an end.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

fn millis(duration: Duration) -> Vec<u8> {
    duration.min(LONGEST).as_millis().to_string().into_bytes()
}
