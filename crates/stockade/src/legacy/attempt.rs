use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};
use tokio::sync::oneshot;

use super::{SetnxError, SetnxGuard, SetnxLock, core::TAKE_OVER};
use crate::{clock::Instant, redis::LinkError};

pub(super) enum Tried {
    Held(SetnxGuard),
    /// Another client holds the lock, for this long by the clock of this process.
    Busy {
        remaining: Duration,
    },
}

/// One try to take the lock: `SETNX`, then `GET`, then a script that takes the lock over if it is expired.
impl SetnxLock {
    /// Runs on a task of the locks. If the caller is gone by the end, the guard is dropped on that task, which releases
    /// the lock.
    pub(super) async fn attempt(self) -> Result<Tried, SetnxError> {
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
        let present = match self.command("get", redis::cmd("GET").arg(&self.key)).await? {
            // The lock was released in between. The next try may take it.
            Value::Nil => return Ok(Tried::Busy { remaining: Duration::ZERO }),
            Value::BulkString(present) => present,
            _ => return Err(self.refused(&LinkError::Protocol { op: "get" })),
        };
        let time = std::str::from_utf8(&present).ok().and_then(|text| self.unit.read(text));
        if let Some(remaining) = self.unit.left(time.ok_or(SetnxError::Value(self.unit))?) {
            return Ok(Tried::Busy { remaining });
        }
        let (began, end) = (Instant::now(), self.unit.end_of(self.lease));
        match self.take_over(present, end).await? {
            true => Ok(self.held(began, end)),
            // Another client was faster. The next try finds out when its time is over.
            false => Ok(Tried::Busy { remaining: Duration::ZERO }),
        }
    }

    async fn take_over(&self, expired: Vec<u8>, end: u64) -> Result<bool, SetnxError> {
        let (keys, args) = ([self.key.clone()], [expired, end.to_string().into_bytes()]);
        let reply = self.core.link.call_again(&TAKE_OVER, &keys, &args).await;
        Ok(matches!(reply.map_err(|error| self.refused(&error))?, Value::Int(1)))
    }

    async fn command(&self, op: &'static str, command: &Cmd) -> Result<Value, SetnxError> {
        let reply = self.core.link.command(op, command.clone()).await;
        reply.map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &LinkError) -> SetnxError {
        SetnxError::of(error, self.unit, self.core.link.unfit())
    }

    fn held(self, began: Instant, end: u64) -> Tried {
        let Self { core, key, unit, lease, .. } = self;
        Tried::Held(SetnxGuard::new(core, key, unit, lease, began + lease, end))
    }
}
