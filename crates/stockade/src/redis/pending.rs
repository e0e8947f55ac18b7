use std::{sync::Arc, time::Duration};

use redis::{Cmd, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::{LinkError, connection::Connection, flight::Flight, link::Shared};
use crate::{
    breaker::Permit,
    metrics::{self, REDIS_COMMAND, REDIS_ERRORS, tag},
};

/// How long after its time-out a reply may still come. A connection that owes one for longer is given up: the server is
/// frozen or the network swallows packets.
const OVERDUE: Duration = Duration::from_secs(5);

/// A started command with the caller's side of its reply. When the caller goes, by time-out or drop, a task of the link
/// takes over and waits for the reply.
pub(super) struct Pending {
    flight: Option<Flight>,
    permit: Option<Permit>,
    ledger: Ledger,
}

/// What belongs to a command until its reply is there, whoever waits for it.
struct Ledger {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    op: &'static str,
    started: Instant,
}

impl Pending {
    pub(super) fn start(
        shared: &Arc<Shared>,
        connection: Arc<Connection>,
        command: Cmd,
        op: &'static str,
        permit: Option<Permit>,
    ) -> Result<Self, LinkError> {
        let started = Instant::now();
        match connection.start(command) {
            Ok(flight) => {
                let ledger = Ledger { shared: Arc::clone(shared), connection, op, started };
                Ok(Self { flight: Some(flight), permit, ledger })
            }
            Err(error) => {
                if let Some(permit) = permit {
                    permit.failed();
                }
                Err(error)
            }
        }
    }

    pub(super) async fn reply(mut self) -> Result<Value, LinkError> {
        let Some(flight) = self.flight.as_mut() else { return Err(LinkError::Lost) };
        let limit = self.ledger.started + self.ledger.shared.redis.timeout();
        let Ok(reply) = timeout_at(limit, flight).await else {
            self.settle(false);
            count("timeout");
            return Err(LinkError::Timeout);
        };
        self.flight = None;
        let result = self.ledger.read(reply);
        self.settle(!matches!(result, Err(LinkError::Lost)));
        result
    }

    fn settle(&mut self, answered: bool) {
        match self.permit.take() {
            Some(permit) if answered => permit.succeeded(),
            Some(permit) => permit.failed(),
            None => {}
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            let Ledger { shared, connection, op, started } = &self.ledger;
            let ledger =
                Ledger { shared: Arc::clone(shared), connection: Arc::clone(connection), op, started: *started };
            shared.tasks.spawn_on(ledger.outlive_caller(flight), &shared.runtime);
        }
    }
}

impl Ledger {
    async fn outlive_caller(self, flight: Flight) {
        let limit = self.started + self.shared.redis.timeout() + OVERDUE;
        tokio::select! {
            reply = timeout_at(limit, flight) => match reply {
                Ok(reply) => {
                    if self.read(reply).is_ok() {
                        self.shared.breaker.alive();
                    }
                }
                Err(_) => {
                    if !self.connection.ended.is_cancelled() {
                        tracing::warn!(role = self.shared.role, op = self.op, "a reply is overdue; giving the connection up");
                    }
                    self.connection.ended.cancel();
                }
            },
            () = self.connection.ended.cancelled() => {}
        }
    }

    /// Reads the reply and does what the connection needs done after it.
    fn read(&self, reply: RedisResult<Value>) -> Result<Value, LinkError> {
        metrics::observe(REDIS_COMMAND, &[tag("op", self.op)], self.started.elapsed());
        if self.connection.is_shifted() {
            // It may be the reply to another command.
            count("io");
            return Err(LinkError::Lost);
        }
        let code = match reply {
            Ok(Value::ServerError(error)) => error.code().to_owned(),
            Ok(value) => return Ok(value),
            Err(_) => {
                count("io");
                self.connection.ended.cancel();
                return Err(LinkError::Lost);
            }
        };
        match code.as_str() {
            "NOSCRIPT" => {
                count("noscript");
                for flight in self.connection.reload() {
                    let ledger = Self {
                        shared: Arc::clone(&self.shared),
                        connection: Arc::clone(&self.connection),
                        op: "script_load",
                        started: Instant::now(),
                    };
                    self.shared.tasks.spawn_on(ledger.outlive_caller(flight), &self.shared.runtime);
                }
                return Err(LinkError::NoScript);
            }
            "MOVED" => {
                count("moved");
                return Err(LinkError::Moved);
            }
            "ASK" | "TRYAGAIN" => {
                count("moving");
                return Err(LinkError::Moving);
            }
            "LOADING" => count("loading"),
            "READONLY" => {
                // The server became a replica: another is the primary now.
                count("readonly");
                self.connection.ended.cancel();
            }
            "NOPERM" => {
                count("other");
                let op = self.op;
                tracing::error!(
                    op,
                    "Redis refuses this user a command (NOPERM): grant what the documentation of `stockade::redis` lists"
                );
            }
            _ => count("other"),
        }
        Err(LinkError::Refused { code })
    }
}

/// Shows the errors as zero before the first.
pub(super) fn announce() {
    for kind in ["timeout", "io", "noscript", "loading", "readonly", "moved", "moving", "other"] {
        metrics::announce(REDIS_ERRORS, &[tag("kind", kind)]);
    }
}

fn count(kind: &'static str) {
    metrics::count(REDIS_ERRORS, &[tag("kind", kind)]);
}
