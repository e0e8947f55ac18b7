use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use futures_util::stream::BoxStream;
use redis::Value;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    geometry::{Design, Geometry},
    scripts::{ADD, CHECK, OPEN},
    server::{Known, Server, word},
};
use crate::{
    cache::{LoadError, store::FirstAttempt},
    redis::{Link, LinkError, Script},
    resource::Key,
};

/// How many keys go into one script call. The limit keeps a call from blocking the server for long.
pub(super) const AT_ONCE: usize = 500;

/// How long a building process may be silent before another one takes over.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The application's source of all ids.
pub(super) type SourceFn = Box<dyn Fn() -> BoxStream<'static, Result<Key, LoadError>> + Send + Sync>;

/// The state that the handles of a filter and its keeper share.
pub(super) struct Shared {
    pub(super) name: &'static str,
    /// The kind of the keys that its source gives.
    pub(super) kind: &'static str,
    pub(super) expected: u64,
    pub(super) geometry: Geometry,
    pub(super) link: Link,
    pub(super) first_attempt: FirstAttempt,
    pub(super) keys: Vec<String>,
    pub(super) server: Arc<Server>,
    pub(super) source: SourceFn,
    pub(super) held: AtomicU64,
    pub(super) ready: AtomicBool,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Shared {
    /// For each key, whether it may be in the filter. `None` if the filter can't tell. If `bounded`, "absent" is
    /// believed only of a server that rejects writes once another one has taken its place.
    pub(super) async fn check(&self, keys: &[&Key], bounded: bool) -> Result<Option<Vec<bool>>, LinkError> {
        let Some(Known { run, design, is_unbounded, .. }) = self.server.known() else { return Ok(None) };
        if is_unbounded && bounded {
            return Ok(None);
        }
        let mut args = vec![run.as_bytes().to_vec(), design.seed.text().into_bytes(), text(design.geometry.hashes)];
        append(&mut args, design, keys.iter().copied());
        let Value::Array(reply) = self.call(&CHECK, args).await? else {
            return Err(LinkError::Protocol { op: CHECK.name });
        };
        if reply.len() != keys.len() + 1 {
            return Ok(None);
        }
        Ok(Some(reply[1..].iter().map(|answer| *answer != Value::Int(0)).collect()))
    }

    /// Returns `false` if another process has taken over the building. Not for an empty `builder`, who builds nothing.
    pub(super) async fn add(&self, keys: &[Key], builder: &str) -> Result<bool, LinkError> {
        for _ in 0..2 {
            let Known { design, .. } = self.server.known().ok_or(LinkError::Down)?;
            let mut args = vec![
                design.seed.text().into_bytes(),
                builder.as_bytes().to_vec(),
                text(LEASE.as_millis()),
                text(design.geometry.hashes),
            ];
            append(&mut args, design, keys);
            match word(&self.call(&ADD, args).await?) {
                Some("ADDED") => return Ok(true),
                Some("LOST") if !builder.is_empty() => return Ok(false),
                // The server was emptied, or the filter was cleared or resized.
                Some("RESEED") => self.reopen().await?,
                _ => break,
            }
        }
        Err(LinkError::Protocol { op: ADD.name })
    }

    /// Asks the server for the seed again, because the filter was cleared or resized.
    pub(super) async fn reopen(&self) -> Result<(), LinkError> {
        let Known { run, .. } = self.server.known().ok_or(LinkError::Down)?;
        let reply = self.call(&OPEN, self.server.opening(&run)).await?;
        self.server.reopened(&run, &reply)
    }

    pub(super) async fn call(&self, script: &'static Script, args: Vec<Vec<u8>>) -> Result<Value, LinkError> {
        self.link.call_again(script, &self.keys, &args).await
    }
}

pub(super) fn text(number: impl Into<u128>) -> Vec<u8> {
    number.into().to_string().into_bytes()
}

fn append<'a>(args: &mut Vec<Vec<u8>>, design: Design, keys: impl IntoIterator<Item = &'a Key>) {
    for key in keys {
        args.extend(design.geometry.bits_of(design.seed, key.as_str()).map(text));
    }
}
