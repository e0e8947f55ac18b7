use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use redis::{Cmd, RedisError, aio::MultiplexedConnection};
use tokio::time::Instant;

use super::{flight::Flight, wire::Wire};
use crate::{
    metrics::{REDIS_COMMAND, Times, tag},
    redis::Script,
};

/// The shortest time between two reloads of the scripts, however many calls get NOSCRIPT.
const RELOAD: Duration = Duration::from_secs(1);

/// As many metric labels as there are commands that are no scripts, or more.
const LABELS: usize = 16;

/// A script that the server knows.
struct Loaded {
    script: &'static Script,
    sha: Arc<str>,
    times: Times,
}

/// The scripts that were loaded on the server of one connection, and the times of its commands.
pub(super) struct Scripts {
    loaded: Vec<Loaded>,
    /// The times of other commands by metric label, from the first reply on. Every reply looks here, and none of them
    /// waits for another.
    times: [OnceLock<(&'static str, Times)>; LABELS],
    reloaded: Mutex<Option<Instant>>,
}

impl Scripts {
    /// Loads the scripts on the server.
    pub(super) async fn load(
        scripts: &[&'static Script],
        connection: &MultiplexedConnection,
    ) -> Result<Self, RedisError> {
        // Together, because a server may be far away, and the first caller waits for the connection.
        let loads = scripts.iter().map(|&script| {
            let mut connection = connection.clone();
            async move {
                let sha: String = load(script).query_async(&mut connection).await?;
                let times = Times::of(REDIS_COMMAND, &[tag("op", script.name)]);
                Ok::<_, RedisError>(Loaded { script, sha: sha.into(), times })
            }
        });
        let loaded = try_join_all(loads).await?;
        Ok(Self { loaded, times: [const { OnceLock::new() }; LABELS], reloaded: Mutex::default() })
    }

    /// The SHA by which the server knows a script.
    pub(super) fn sha(&self, script: &'static Script) -> Arc<str> {
        // The server does not know a script that the link was not given, and answers NOSCRIPT.
        let known = self.loaded.iter().find(|known| std::ptr::eq(known.script, script));
        known.map_or_else(|| script.name.into(), |known| Arc::clone(&known.sha))
    }

    /// Notes how long a command took, by its metric label.
    pub(super) fn took(&self, op: &'static str, time: Duration) {
        if let Some(known) = self.loaded.iter().find(|known| std::ptr::eq(known.script.name, op)) {
            return known.times.observe(time);
        }
        let times = || Times::of(REDIS_COMMAND, &[tag("op", op)]);
        for place in &self.times {
            let (name, times) = place.get_or_init(|| (op, times()));
            if *name == op {
                return times.observe(time);
            }
        }
        times().observe(time);
    }

    pub(super) fn evalsha(&self, script: &'static Script, keys: Vec<String>, args: Vec<Vec<u8>>) -> Cmd {
        evalsha(&self.sha(script), keys, args)
    }

    /// Sends the scripts again, ahead of whatever is sent from now on. Does nothing if they were sent a moment ago.
    pub(super) fn reload(&self, wire: &Arc<Wire>) -> Vec<Flight> {
        let mut reloaded = self.reloaded.lock();
        if was_lately(*reloaded) {
            return Vec::new();
        }
        *reloaded = Some(Instant::now());
        self.loaded.iter().filter_map(|known| wire.start(load(known.script)).ok()).collect()
    }

    #[cfg(test)]
    pub(super) fn may_reload(&self) -> bool {
        !was_lately(*self.reloaded.lock())
    }
}

fn was_lately(reloaded: Option<Instant>) -> bool {
    reloaded.is_some_and(|at| at.elapsed() < RELOAD)
}

/// EVALSHA without the keys and arguments, which the caller adds: `words` of them, `bytes` long in all.
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
