use std::{sync::Arc, time::Duration};

use redis::{RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    connection::Connection,
    flight::{Flight, Started},
    notice::Told,
    shared::Shared,
    window::bytes,
};
use crate::{
    metrics::{self, REDIS_ERRORS, tag},
    redis::LinkError,
};

/// How long after its time-out a reply may still come. A connection that owes a reply for longer, and delivers no
/// other, is given up: the server is frozen or the network drops packets.
const OVERDUE: Duration = Duration::from_secs(5);

/// What belongs to a command until its reply arrives, whichever task waits for the reply.
#[derive(Clone)]
pub(super) struct Ledger {
    pub(super) shared: Arc<Shared>,
    pub(super) connection: Arc<Connection>,
    pub(super) op: &'static str,
    pub(super) sent: Instant,
}

impl Ledger {
    /// Runs a task of the link. May be called inside or outside of a runtime.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn_on(task, &self.shared.runtime);
    }

    /// Waits in place of a caller that gave up before its command was sent. The command keeps its place.
    pub(super) async fn outlive_waiting(mut self, mut told: Told) {
        // The wire ends with its connection, and then tells all waiting commands.
        let period = self.shared.redis.timeout();
        let Ok(Some(Ok(Started { at, flight }))) = told.until(None, period).await else { return };
        self.sent = at;
        self.outlive_caller(flight).await;
    }

    /// Waits for the reply in place of a caller that gave up.
    pub(super) async fn outlive_caller(self, mut flight: Flight) {
        let patience = self.shared.redis.timeout() + OVERDUE;
        let mut limit = self.sent + patience;
        loop {
            let reply = tokio::select! {
                reply = timeout_at(limit, &mut flight) => reply,
                () = self.connection.ended.cancelled() => return,
            };
            if let Ok(reply) = reply {
                if self.read(reply).is_ok() {
                    self.shared.breaker.alive();
                }
                return;
            }
            // Replies come in the order of the commands: while others arrive, this one will, too.
            limit = self.connection.wire.progress().max(self.sent) + patience;
            if limit <= Instant::now() {
                break;
            }
        }
        if !self.connection.ended.is_cancelled() {
            tracing::warn!(role = self.shared.role, op = self.op, "a reply is overdue; giving the connection up");
        }
        self.connection.ended.cancel();
    }

    /// Counts a command that got no usable reply.
    pub(super) fn count(&self, kind: &'static str) {
        metrics::count(REDIS_ERRORS, &[tag("role", self.shared.role), tag("kind", kind)]);
    }

    /// Reads the reply and does what the connection needs after it.
    pub(super) fn read(&self, reply: RedisResult<Value>) -> Result<Value, LinkError> {
        self.connection.scripts.took(self.op, self.sent.elapsed());
        if self.connection.is_shifted() {
            // The reply may belong to another command.
            self.count("io");
            return Err(LinkError::Lost);
        }
        let code = match reply {
            Ok(Value::ServerError(error)) => error.code().to_owned(),
            Ok(value) => {
                self.shared.ceiling.read(bytes(&value));
                self.connection.wire.read();
                return Ok(value);
            }
            Err(_) => {
                self.count("io");
                self.connection.ended.cancel();
                return Err(LinkError::Lost);
            }
        };
        match code.as_str() {
            "NOSCRIPT" => {
                self.count("noscript");
                for flight in self.connection.scripts.reload(&self.connection.wire) {
                    let ledger = Self { op: "script_load", sent: Instant::now(), ..self.clone() };
                    self.spawn(ledger.outlive_caller(flight));
                }
                return Err(LinkError::NoScript);
            }
            "MOVED" => {
                self.count("moved");
                return Err(LinkError::Moved);
            }
            "ASK" | "TRYAGAIN" => {
                self.count("moving");
                return Err(LinkError::Moving);
            }
            "LOADING" => self.count("loading"),
            "READONLY" => {
                // The server became a replica: another is the primary now.
                self.count("readonly");
                self.connection.ended.cancel();
            }
            "NOPERM" => {
                self.count("other");
                self.shared.refusals.tell_forbidden(self.op);
            }
            code => {
                self.count("other");
                self.shared.refusals.tell(self.shared.role, code);
            }
        }
        Err(LinkError::Refused { code })
    }
}

/// Shows every kind of error of a role as zero before the first error.
pub(super) fn announce(role: &'static str) {
    for kind in ["timeout", "crowded", "io", "noscript", "loading", "readonly", "moved", "moving", "other"] {
        metrics::announce(REDIS_ERRORS, &[tag("role", role), tag("kind", kind)]);
    }
}
