use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use redis::{Cmd, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    connection::Connection,
    flight::{Flight, Started},
    joined::Joins,
    ledger::Ledger,
    look_around::look_around,
    notice::Told,
    shared::Shared,
    wire::{Entered, Ticket, Turn},
};
use crate::{breaker::Permit, redis::LinkError};

/// The longest wait for one reply, in time-outs, on a connection that still answers other commands.
const MOST: u32 = 4;

/// How a command is sent, and what it is for.
pub(super) struct Terms {
    /// Its metric label.
    pub(super) op: &'static str,
    pub(super) turn: Turn,
    /// How long it may wait for a place, see [`Shared::limit`].
    pub(super) wait: Duration,
    /// Whether the command is taken back if its caller gives up before it was sent. Otherwise it keeps its place.
    pub(super) revocable: bool,
    pub(super) joins: Option<Joins>,
    pub(super) permit: Option<Permit>,
}

/// A command that was called, with the caller's side of its reply. If the caller gives up, by time-out or drop, a task
/// of the link waits for the reply instead.
pub(super) struct Pending {
    stage: Stage,
    revocable: bool,
    permit: Option<Permit>,
    ledger: Ledger,
}

enum Stage {
    /// For a place, until then.
    Waiting(Ticket, Told, Instant),
    Sent(Flight),
    Ended,
}

impl Pending {
    pub(super) fn start(
        shared: &Arc<Shared>,
        connection: Arc<Connection>,
        terms: Terms,
        make: impl FnOnce() -> Cmd + Send + 'static,
    ) -> Result<Self, LinkError> {
        let Terms { op, turn, wait, revocable, joins, permit } = terms;
        let entered = match connection.wire.enter(turn, make, joins) {
            Ok(entered) => entered,
            Err(error) => {
                if let Some(permit) = permit.filter(|_| !matches!(error, LinkError::Unsent { .. })) {
                    permit.failed();
                }
                return Err(error);
            }
        };
        let (stage, sent) = match entered {
            Entered::Started(Started { at, flight }) => (Stage::Sent(flight), at),
            Entered::Waiting(ticket, told) => {
                let now = Instant::now();
                (Stage::Waiting(ticket, told, shared.limit(now, wait)), now)
            }
        };
        let ledger = Ledger { shared: Arc::clone(shared), connection, op, sent };
        Ok(Self { stage, revocable, permit, ledger })
    }

    fn sent(&mut self, Started { at, flight }: Started) {
        self.ledger.sent = at;
        self.stage = Stage::Sent(flight);
    }

    pub(super) async fn reply(mut self) -> Result<Value, LinkError> {
        self.placed().await?;
        self.answered().await
    }

    /// Waits for a place on the wire: until its limit, or until the connection is silent or ends.
    async fn placed(&mut self) -> Result<(), LinkError> {
        let Stage::Waiting(ticket, told, limit) = &mut self.stage else { return Ok(()) };
        let ticket = *ticket;
        // No command is answered before it was sent, so looking that often is enough for the time-out of its reply.
        let period = self.ledger.shared.redis.timeout();
        let mut outcome = told.until(Some(*limit), period).await;
        if outcome.is_err() && !self.ledger.connection.wire.take_back(ticket) {
            // The command was sent just now, or its wait has just failed.
            outcome = Ok(told.await);
        }
        let error = match outcome {
            Ok(Some(Ok(started))) => {
                self.sent(started);
                return Ok(());
            }
            Ok(Some(Err(error))) => error,
            Ok(None) => LinkError::Down,
            Err(_) => LinkError::Unsent { silent: false },
        };
        self.stage = Stage::Ended;
        match error {
            LinkError::Unsent { silent: false } => self.ledger.count("crowded"),
            LinkError::Unsent { silent: true } => {
                self.ledger.count("timeout");
                self.settle(Some(false));
            }
            _ => self.settle(Some(false)),
        }
        Err(error)
    }

    /// Waits for the reply. The time-out starts again with each reply on the connection: replies come in the order of
    /// the commands, so a connection that answers others will soon answer this one.
    async fn answered(&mut self) -> Result<Value, LinkError> {
        let timeout = self.ledger.shared.redis.timeout();
        let sent = self.ledger.sent;
        let (mut until, most) = (sent + timeout, sent + timeout * MOST);
        loop {
            let Stage::Sent(flight) = &mut self.stage else { return Err(LinkError::Lost) };
            if let Ok(reply) = timeout_at(until, &mut *flight).await {
                return self.read(reply);
            }
            look_around().await;
            if let Some(reply) = flight.now_or_never() {
                return self.read(reply);
            }
            let (now, dead_from) = (Instant::now(), self.ledger.connection.wire.progress().max(sent) + timeout);
            until = dead_from.min(most);
            if until <= now {
                self.settle((dead_from <= now).then_some(false));
                self.ledger.count("timeout");
                return Err(LinkError::Timeout);
            }
        }
    }

    fn read(&mut self, reply: RedisResult<Value>) -> Result<Value, LinkError> {
        self.stage = Stage::Ended;
        let result = self.ledger.read(reply);
        self.settle(Some(!matches!(result, Err(LinkError::Lost))));
        result
    }

    /// Tells the breaker. `None` means neither success nor failure.
    fn settle(&mut self, answered: Option<bool>) {
        match self.permit.take().zip(answered) {
            Some((permit, true)) => permit.succeeded(),
            Some((permit, false)) => permit.failed(),
            None => {}
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let ledger = &self.ledger;
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Sent(flight) => ledger.spawn(ledger.clone().outlive_caller(flight)),
            Stage::Waiting(ticket, ..) if self.revocable && ledger.connection.wire.take_back(ticket) => {}
            Stage::Waiting(_, told, _) => ledger.spawn(ledger.clone().outlive_waiting(told)),
            Stage::Ended => {}
        }
    }
}
