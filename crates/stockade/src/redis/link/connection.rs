use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use redis::{Cmd, PushInfo, PushKind, Value, aio::MultiplexedConnection};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    events::{LinkEvents, Up},
    flight::Flight,
    wire::Wire,
};
use crate::{
    metrics::{REDIS_COMMAND, Times, tag},
    redis::{
        LinkError, Script,
        dial::{
            Dialer, HandshakeError, Opened, Place, PushFn,
            permissions::{self, Channel},
        },
    },
    resource::Namespace,
};

const SELF_TEST: Script = Script { name: "self_test", text: include_str!("../scripts/self_test.lua") };
/// Scripts are loaded again at most this often, however many calls find them gone.
const RELOAD: Duration = Duration::from_secs(1);

/// A script that the server knows.
struct Loaded {
    script: &'static Script,
    sha: Arc<str>,
    times: Times,
}

/// One connection that passed its handshake.
pub(super) struct Connection {
    pub(super) wire: Arc<Wire>,
    pub(super) up: Up,
    pub(super) place: Place,
    scripts: Vec<Loaded>,
    /// Of each other command, by its metric label, from its first reply on.
    times: RwLock<Vec<(&'static str, Times)>>,
    reloaded: Mutex<Option<Instant>>,
    shifted: Arc<AtomicBool>,
    /// Cancelled when the connection broke or must not be used any more.
    pub(super) ended: CancellationToken,
}

impl Connection {
    /// Connects and checks the server, subscribes and tests the subscription, and loads the scripts. With a namespace, the
    /// user is checked, too.
    pub(super) async fn establish(
        dialer: &Dialer,
        name: &str,
        channels: &[String],
        scripts: &'static [&'static Script],
        events: &Arc<dyn LinkEvents>,
        last_run: Option<&Arc<str>>,
        namespace: Option<&Namespace>,
    ) -> Result<Self, HandshakeError> {
        let ended = CancellationToken::new();
        let test = Arc::new(SelfTest::new());
        let shifted = Arc::new(AtomicBool::new(false));
        let push = on_push(Arc::clone(events), Arc::clone(&test), ended.clone(), Arc::clone(&shifted));
        let Opened { connection: mut multiplexed, run_id, succession, place } = dialer.open(Some(push)).await?;
        match redis::cmd("CLIENT").arg("SETNAME").arg(name).exec_async(&mut multiplexed).await {
            // A name is a help to people; users without leave to set one can still lock.
            Err(error) if error.code() != Some("NOPERM") => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        if !channels.is_empty() {
            multiplexed.subscribe(channels).await?;
        }
        let wanted = events.shard_channels();
        let shard_channels = subscribe_sharded(&multiplexed, &wanted).await?;
        if shard_channels.is_empty() && !wanted.is_empty() {
            return Err(HandshakeError::Prepare(LinkError::Moved));
        }
        if let Some(namespace) = namespace {
            let channel = match (channels.first(), shard_channels.first()) {
                (Some(channel), _) => Channel::Ordinary(channel),
                (None, Some(channel)) => Channel::Sharded(channel),
                (None, None) => Channel::None,
            };
            permissions::check(&mut multiplexed, scripts, namespace, channel).await?;
        }
        let counts_receivers = match (channels.first(), shard_channels.first()) {
            (Some(first), _) => test.run(&mut multiplexed, "PUBLISH", first).await?,
            (None, Some(first)) => test.run(&mut multiplexed, "SPUBLISH", first).await?,
            (None, None) => false,
        };
        let mut loaded = Vec::with_capacity(scripts.len());
        for &script in scripts {
            let sha: String = load(script).query_async(&mut multiplexed).await?;
            let times = Times::of(REDIS_COMMAND, &[tag("op", script.name)]);
            loaded.push(Loaded { script, sha: sha.into(), times });
        }
        let new_run = last_run.is_some_and(|last| *last != run_id);
        Ok(Self {
            wire: Wire::new(multiplexed, dialer.timeout(), ended.clone()),
            up: Up { run_id, new_run, succession, counts_receivers, shard_channels },
            place,
            scripts: loaded,
            times: RwLock::default(),
            reloaded: Mutex::default(),
            shifted,
            ended,
        })
    }

    /// Whether replies may have gone to other commands than their own, see [`on_push`].
    pub(super) fn is_shifted(&self) -> bool {
        self.shifted.load(Ordering::Acquire)
    }

    /// Sends a command at once, outside of the window.
    pub(super) fn start(&self, command: Cmd) -> Result<Flight, LinkError> {
        self.wire.start(command)
    }

    /// The name by which the server knows a script.
    pub(super) fn sha(&self, script: &'static Script) -> Arc<str> {
        // A script that was not given to the link can't be found by the server either, which says NOSCRIPT.
        let known = self.scripts.iter().find(|known| std::ptr::eq(known.script, script));
        known.map_or_else(|| script.name.into(), |known| Arc::clone(&known.sha))
    }

    /// Notes how long a command took, by its metric label.
    pub(super) fn took(&self, op: &'static str, time: Duration) {
        if let Some(known) = self.scripts.iter().find(|known| std::ptr::eq(known.script.name, op)) {
            return known.times.observe(time);
        }
        let find = |times: &[(&'static str, Times)]| {
            let found = times.iter().find(|(name, _)| *name == op);
            found.map(|(_, times)| times.observe(time))
        };
        if find(&self.times.read().unwrap_or_else(PoisonError::into_inner)).is_some() {
            return;
        }
        let mut times = self.times.write().unwrap_or_else(PoisonError::into_inner);
        if find(&times).is_none() {
            let new = Times::of(REDIS_COMMAND, &[tag("op", op)]);
            new.observe(time);
            times.push((op, new));
        }
    }

    pub(super) fn evalsha(&self, script: &'static Script, keys: Vec<String>, args: Vec<Vec<u8>>) -> Cmd {
        evalsha(&self.sha(script), keys, args)
    }

    /// Sends the scripts again, ahead of whatever is sent from now on; nothing when that was done a moment ago.
    pub(super) fn reload(&self) -> Vec<Flight> {
        let mut reloaded = self.reloaded.lock().unwrap_or_else(PoisonError::into_inner);
        if reloaded.is_some_and(|at| at.elapsed() < RELOAD) {
            return Vec::new();
        }
        *reloaded = Some(Instant::now());
        self.scripts.iter().filter_map(|known| self.start(load(known.script)).ok()).collect()
    }
}

/// EVALSHA, to which the keys and the arguments of the script are added yet: so many words of so many bytes together.
pub(crate) fn evalsha_of(sha: &str, keys: usize, words: usize, bytes: usize) -> Cmd {
    const NAME: &str = "EVALSHA";
    let mut command = Cmd::with_capacity(3 + words, NAME.len() + sha.len() + 8 + bytes);
    command.arg(NAME).arg(sha).arg(keys);
    command
}

pub(crate) fn evalsha(sha: &str, keys: Vec<String>, args: Vec<Vec<u8>>) -> Cmd {
    let bytes = keys.iter().map(String::len).chain(args.iter().map(Vec::len)).sum();
    let mut command = evalsha_of(sha, keys.len(), keys.len() + args.len(), bytes);
    for key in keys {
        command.arg(key);
    }
    for arg in args {
        command.arg(arg);
    }
    command
}

fn load(script: &Script) -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script.text);
    command
}

/// Subscribes all at once, each on its own since they are of different slots. Returns those that are served here.
async fn subscribe_sharded(
    connection: &MultiplexedConnection,
    channels: &[String],
) -> Result<Vec<String>, HandshakeError> {
    let subscriptions = channels.iter().map(|channel| {
        let mut connection = connection.clone();
        async move { connection.send_packed_command(redis::cmd("SSUBSCRIBE").arg(channel)).await }
    });
    let mut subscribed = Vec::with_capacity(channels.len());
    for (channel, reply) in channels.iter().zip(join_all(subscriptions).await) {
        match reply? {
            Value::ServerError(error) if error.code() == "MOVED" => {}
            Value::ServerError(error) => return Err(redis::RedisError::from(error).into()),
            _ => subscribed.push(channel.clone()),
        }
    }
    Ok(subscribed)
}

/// A server that gives a slot away ends the sharded subscriptions there, with the same push by which it confirms that a
/// client ended them. redis-rs takes it for the reply to the oldest command under way, and gives each reply from then on
/// to the command after its own. We never end one, so that it always means this: the connection can't be used any more,
/// nor any reply that is read from now on. The driver calls this before it hands the first wrong reply out.
fn on_push(
    events: Arc<dyn LinkEvents>,
    test: Arc<SelfTest>,
    ended: CancellationToken,
    shifted: Arc<AtomicBool>,
) -> PushFn {
    Box::new(move |PushInfo { kind, data }| match (kind, data.as_slice()) {
        (PushKind::Message | PushKind::SMessage, [Value::BulkString(channel), Value::BulkString(payload)]) => {
            if payload == test.payload.as_bytes() {
                test.seen.store(true, Ordering::Release);
            } else if let Ok(channel) = std::str::from_utf8(channel) {
                events.message(channel, payload);
            }
        }
        (PushKind::SUnsubscribe, _) => {
            shifted.store(true, Ordering::Release);
            ended.cancel();
        }
        (PushKind::Disconnection, _) => ended.cancel(),
        _ => {}
    })
}

/// Shows whether a message that a script publishes comes back on this connection and is counted. Where it is not (some
/// proxies and managed servers), "no receiver" must not be taken for "the waiter is dead".
struct SelfTest {
    payload: String,
    seen: AtomicBool,
}

impl SelfTest {
    fn new() -> Self {
        Self { payload: format!("T {:032x}", rand::random::<u128>()), seen: AtomicBool::new(false) }
    }

    /// The message is on the wire before the reply, so that nothing has to be waited for.
    async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        publish: &str,
        channel: &str,
    ) -> Result<bool, HandshakeError> {
        let receivers: i64 = redis::cmd("EVAL")
            .arg(SELF_TEST.text)
            .arg(0)
            .arg(publish)
            .arg(channel)
            .arg(&self.payload)
            .query_async(connection)
            .await?;
        Ok(receivers >= 1 && self.seen.load(Ordering::Acquire))
    }
}
