use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};
use tokio::sync::oneshot;

use super::{SetnxError, SetnxGuard, Unit, core::Core};
use crate::{clock::Instant, redis::LinkError};

/// One try to take the lock: `SETNX`, then `GET`, then `GETSET` if the lock is expired.
pub(super) struct Attempt {
    core: Arc<Core>,
    key: String,
    unit: Unit,
    lease: Duration,
}

/// The result of one try.
pub(super) enum Tried {
    Held(SetnxGuard),
    /// Another client holds the lock, for this long by the clock of this process.
    Busy {
        remaining: Duration,
    },
}

impl Attempt {
    pub(super) fn new(core: Arc<Core>, key: String, unit: Unit, lease: Duration) -> Self {
        Self { core, key, unit, lease }
    }

    /// Runs on a task of the locks. If the caller is gone by the end, the guard is dropped on that task, which releases
    /// the lock.
    pub(super) async fn run(self) -> Result<Tried, SetnxError> {
        let (done, outcome) = oneshot::channel();
        let core = Arc::clone(&self.core);
        core.spawn(async move {
            let tried = self.try_once().await;
            // If the caller is gone, the guard is dropped here.
            let _ = done.send(tried);
        });
        outcome.await.unwrap_or(Err(SetnxError::ShuttingDown))
    }

    async fn try_once(self) -> Result<Tried, SetnxError> {
        let (began, end) = (Instant::now(), self.unit.end_of(self.lease));
        let set = self.command("setnx", redis::cmd("SETNX").arg(&self.key).arg(end)).await?;
        if matches!(set, Value::Int(1)) {
            return Ok(self.held(began, end));
        }
        let present = self.command("get", redis::cmd("GET").arg(&self.key)).await?;
        // The lock was released in between. The next try may take it.
        let Some(present) = self.time(&present)? else { return Ok(Tried::Busy { remaining: Duration::ZERO }) };
        if let Some(remaining) = self.unit.left(present) {
            return Ok(Tried::Busy { remaining });
        }
        let (began, end) = (Instant::now(), self.unit.end_of(self.lease));
        let before = self.command("getset", redis::cmd("GETSET").arg(&self.key).arg(end)).await?;
        let Some(before) = self.time(&before)? else { return Ok(self.held(began, end)) };
        match self.unit.left(before) {
            None => Ok(self.held(began, end)),
            // Another client was faster, and our GETSET has moved the end of its lock to our time.
            Some(_) => Ok(Tried::Busy { remaining: self.unit.left(end).unwrap_or_default() }),
        }
    }

    async fn command(&self, op: &'static str, command: &Cmd) -> Result<Value, SetnxError> {
        let reply = self.core.link.command(op, command.clone()).await;
        reply.map_err(|error| SetnxError::of(&error, self.unit, self.core.link.unfit()))
    }

    /// The time in a reply; `None` if the key does not exist.
    fn time(&self, reply: &Value) -> Result<Option<u64>, SetnxError> {
        let text = match reply {
            Value::Nil => return Ok(None),
            Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
            Value::SimpleString(text) => Some(text.as_str()),
            _ => return Err(SetnxError::of(&LinkError::Protocol { op: "get" }, self.unit, None)),
        };
        text.and_then(|text| self.unit.read(text)).map(Some).ok_or(SetnxError::Value(self.unit))
    }

    fn held(self, began: Instant, end: u64) -> Tried {
        let Self { core, key, unit, lease } = self;
        Tried::Held(SetnxGuard::new(core, key, unit, lease, began + lease, end))
    }
}
