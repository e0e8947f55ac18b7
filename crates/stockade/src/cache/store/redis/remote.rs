use std::{sync::Arc, time::Duration};

use redis::Value;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
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
    tasks::{heartbeat, subscription_gauges, trust_gauge, write_probe},
};
use crate::{
    Redis,
    cache::{
        CacheError, LoadError,
        local::Local,
        settings::Settings,
        store::{FirstAttempt, REPEATABLE, Read, UnsureRun},
        value::{Entry, Envelope, Unreadable},
    },
    clock::Instant,
    redis::{Claim, LinkError, RoutedEvents, RoutedLink, Script, Server},
    resource::{Bucket, Key},
};

/// How far in the future a value may seem to have been loaded. The clock of the server is known to a round trip.
const FUTURE: Duration = Duration::from_secs(1);

/// The error code of a command on a key of another type.
const WRONG_TYPE: &str = "WRONGTYPE";

/// The client side of the lease protocol.
#[derive(Debug)]
pub(crate) struct Remote<V> {
    pub(in crate::cache::store) servers: Arc<RoutedLink<()>>,
    first_attempt: FirstAttempt,
    pub(in crate::cache::store) subscription: Arc<Subscription<V>>,
    pub(super) settings: Arc<Settings>,
    pub(super) envelope: Envelope,
    field: String,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    _stopped_at_the_end: DropGuard,
    _claim: Claim,
}

impl<V: DeserializeOwned + Send + Sync + 'static> Remote<V> {
    pub(crate) fn open(redis: &Redis, claim: Claim, settings: Arc<Settings>, local: Arc<Local<V>>) -> Self {
        let keys = Keys::new(redis.key_prefix(), settings.name);
        let channels = vec![keys.channel(), keys.inbox()];
        let strict = settings.strict.is_some();
        let longest = (*settings.ttl.end()).max(settings.null_ttl).saturating_add(settings.grace);
        let longest = trusted_by_age(strict, longest);
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
        let shown = subscription_gauges::show(Arc::clone(&subscription), settings.name, serves, stop.clone());
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

    pub(crate) async fn read(&self, key: &Key, called: Instant) -> Read<V> {
        let entry = self.subscription.keys.entry(key);
        let mut command = redis::Cmd::with_capacity(3, entry.len() + self.field.len() + "HGET".len());
        command.arg("HGET").arg(entry).arg(&self.field);
        match self.command(key.bucket(), "cache_read", command).await {
            Ok(value) => {
                self.subscription.liveness.answered(called);
                match value {
                    Value::BulkString(bytes) => self.found(key, bytes).await,
                    Value::Nil => Read::Miss,
                    _ => Read::Unreadable,
                }
            }
            // The key holds no entry. The script that gives the lease deletes it.
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
        // The message of a clear arrives before the reply to any read that the server ran after the clear.
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
        let now = Instant::now();
        match self.entry(&stored) {
            // The server's clock was set back since, which would prolong its life, or forward since the last exchange.
            Ok(entry) if entry.loaded.since(now) > FUTURE => Read::Miss,
            Ok(entry) if entry.is_fresh(now) => Read::Hit(entry, now),
            Ok(entry) => Read::Stale(entry),
            Err(Unreadable) => Read::Unreadable,
        }
    }

    pub(super) fn server(&self, bucket: Bucket) -> Result<Arc<Server<()>>, LinkError> {
        self.servers.of(bucket).ok_or(LinkError::Down)
    }

    pub(super) async fn command(
        &self,
        bucket: Bucket,
        op: &'static str,
        command: redis::Cmd,
    ) -> Result<Value, LinkError> {
        self.server(bucket)?.link.command(op, command).await
    }

    /// The run of the server with the table of tags.
    fn run_id(&self) -> Option<Arc<str>> {
        self.servers.of(Bucket::FIRST)?.run_id()
    }

    /// Whether no tag of the value was invalidated since it was loaded. A value without tags needs no command.
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
            // The key holds no table of tags: the same as a lost table.
            Err(LinkError::Refused { code }) if code == WRONG_TYPE => return Ok(false),
            scores => scores?,
        };
        // The run is checked again: if a replica was promoted in between, it may have answered from the table that the
        // old primary left there.
        Ok(self.run_id() == Some(run) && stored.stamp.holds(scores))
    }

    /// Calls a script. The command is queued at once, before the future is polled. If the server does not know the
    /// script, and so has not run it, the command is sent again.
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

    /// The run of the server that a script is meant for. If a server of another run gets the script, it begins a new
    /// table of tags, and another one at the next script that names its own run. Each time all values with tags are
    /// loaded again.
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

    /// Marks the run as trusted, after every invalidation that it may lack was repeated.
    pub(crate) async fn trust_run(&self, run: &UnsureRun) -> Result<(), CacheError> {
        let unavailable = |error| CacheError::Unavailable(LoadError::new(error));
        let (sent, keys) = (Instant::now(), vec![self.subscription.keys.marker()]);
        let server = self.server(Bucket::FIRST).map_err(unavailable)?;
        let reply = server.link.call(&TRUST, keys, vec![run.id.as_bytes().to_vec()]).await.map_err(unavailable)?;
        self.subscription.joined(run, sent, &Reply::read(TRUST.name, reply).map_err(unavailable)?);
        Ok(())
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        let began = Instant::now();
        // A task that waits for the reply to a command ends with the connection.
        let _ = timeout(limit, self.tasks.wait()).await;
        self.servers.shutdown(limit.saturating_sub(began.elapsed())).await;
    }
}

/// How old a run must be to be trusted without the word of a relay. By then no value from before the run is left. In a
/// strict cache a run is never trusted because of its age, since a loader may give its values any lifetime. In an
/// eventual cache it takes at least as long as a relay keeps invalidations to repeat, and a minute more.
fn trusted_by_age(strict: bool, longest: Duration) -> Duration {
    if strict { Duration::MAX } else { longest.max(REPEATABLE + Duration::from_secs(60)) }
}

/// The longest time that Redis is given. With an expiry that Redis refuses, a script would fail half-way and leave a
/// value that never expires.
pub(super) const LONGEST: Duration = Duration::from_secs(90 * 366 * 86_400);

/// Scripts add a lifetime, a grace and a lease in doubles, in microseconds.
const _: () = assert!(3 * LONGEST.as_micros() < 1 << 53, "the sum is not exact");

pub(super) fn millis(duration: Duration) -> Vec<u8> {
    duration.min(LONGEST).as_millis().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::store::OLD_PRIMARY_WRITES;

    #[test]
    fn a_young_run_of_an_eventual_cache_is_not_trusted_by_its_age() {
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
        assert!(trusted_by_age(false, second) > REPEATABLE + 2 * OLD_PRIMARY_WRITES);
        assert_eq!(trusted_by_age(false, day), day);
        assert_eq!(trusted_by_age(true, second), Duration::MAX);
    }
}
