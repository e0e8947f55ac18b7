//! The ways to send a command.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};

use super::{
    attempt::{Attempt, Receipt},
    connection::Connection,
    handle::Link,
    joined::Joins,
    pending::{Pending, Terms},
    wire::Turn,
};
use crate::{
    breaker::Permit,
    redis::{LinkError, Script, dial::process_of},
};

impl Link {
    /// EVALSHA on the command connection, in the order of the calls.
    ///
    /// Waits for its place on the wire for twenty command time-outs at most. Dropping the future leaves the command in
    /// its place.
    pub(crate) fn call(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending =
            self.sent(Turn::Ordinary, script.name, |connection| connection.scripts.evalsha(script, keys, args));
        async move { pending?.reply().await }
    }

    /// Like [`Link::call`], but calls once more if the server had lost its scripts. Takes its place in the order only
    /// when it is polled.
    pub(crate) async fn call_again(
        &self,
        script: &'static Script,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<Value, LinkError> {
        match self.call(script, keys.to_vec(), args.to_vec()).await {
            Err(LinkError::NoScript) => self.call(script, keys.to_vec(), args.to_vec()).await,
            reply => reply,
        }
    }

    /// Like [`Link::call`], but never waits for a place: for commands that are useless a moment later.
    #[cfg(feature = "redlock")]
    pub(crate) fn call_at_once(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.sent(Turn::Now, script.name, |connection| connection.scripts.evalsha(script, keys, args));
        async move { pending?.reply().await }
    }

    /// EVALSHA on the command connection, for an attempt with a limit of its own. `make` is called when the command is
    /// sent, with the SHA of the script. With `joins`, other calls of the script may become one with it.
    ///
    /// Dropping the reply takes the command back if it was not sent yet. [`Attempt::receipt`] then says so.
    pub(crate) fn attempt(
        &self,
        script: &'static Script,
        make: impl FnOnce(&str) -> Cmd + Send + 'static,
        wait: Duration,
        joins: Option<Joins>,
    ) -> Attempt {
        let receipt = Receipt::default();
        let pending = self.permitted(|connection, permit| {
            let (sha, receipt) = (connection.scripts.sha(script), receipt.clone());
            let make = move || {
                receipt.sent();
                make(&sha)
            };
            let terms =
                Terms { op: script.name, turn: Turn::Ordinary, wait, revocable: true, joins, permit: Some(permit) };
            Pending::start(&self.shared, connection, terms, make)
        });
        Attempt { receipt, reply: Box::pin(async move { pending?.reply().await }) }
    }

    /// EVALSHA for commands that undo others: neither the breaker nor waiting commands of other kinds hold it back.
    /// `make` is given the SHA of the script.
    pub(crate) fn call_regardless(
        &self,
        script: &'static Script,
        make: &dyn Fn(&str) -> Cmd,
        joins: Option<Joins>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        self.regardless(script, make, Terms { joins, ..terms(script.name, Turn::Undoing) })
    }

    /// Like [`Link::call_regardless`], but never waits for a place: what it undoes did not, either.
    #[cfg(feature = "redlock")]
    pub(crate) fn undo_at_once(
        &self,
        script: &'static Script,
        make: &dyn Fn(&str) -> Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        self.regardless(script, make, terms(script.name, Turn::Now))
    }

    fn regardless(
        &self,
        script: &'static Script,
        make: &dyn Fn(&str) -> Cmd,
        terms: Terms,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.shared.commands.get().ok_or(LinkError::Down).and_then(|connection| {
            let command = make(&connection.scripts.sha(script));
            Pending::start(&self.shared, connection, terms, || command)
        });
        // Boxed, because many of these may run at once, each on a task.
        async move { Box::pin(pending?.reply()).await }
    }

    /// Like [`Link::call`], on the renewal connection, ahead of all waiting commands. While that connection is down or
    /// stands still, the command connection is used, so that a lease never depends on a single connection.
    pub(crate) fn call_renewal(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let mut ended = None;
        let pending = self.renewing().ok_or(LinkError::Down).and_then(|connection| {
            ended = Some(connection.ended.clone());
            let command = connection.scripts.evalsha(script, keys, args);
            Pending::start(&self.shared, connection, terms(script.name, Turn::Now), || command)
        });
        async move {
            let reply = pending?.reply().await?;
            // The connection may have been given up because the server is not the primary any more.
            if ended.is_some_and(|ended| ended.is_cancelled()) { Err(LinkError::Lost) } else { Ok(reply) }
        }
    }

    /// A plain command on the command connection; `op` is its metric label. Otherwise like [`Link::call`].
    pub(crate) fn command(
        &self,
        op: &'static str,
        command: Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.sent(Turn::Ordinary, op, |_| command);
        async move { pending?.reply().await }
    }

    /// Like [`Link::command`], but never waits for a place. For subscriptions: there are few, and many callers wait for
    /// each.
    pub(crate) fn subscribe(
        &self,
        op: &'static str,
        command: Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
        let pending = self.sent(Turn::Now, op, |_| command);
        async move { pending?.reply().await }
    }

    fn sent(&self, turn: Turn, op: &'static str, make: impl FnOnce(&Connection) -> Cmd) -> Result<Pending, LinkError> {
        self.permitted(|connection, permit| {
            let command = make(&connection);
            let terms = Terms { permit: Some(permit), ..terms(op, turn) };
            Pending::start(&self.shared, connection, terms, || command)
        })
    }

    fn permitted<T>(
        &self,
        start: impl FnOnce(Arc<Connection>, Permit) -> Result<T, LinkError>,
    ) -> Result<T, LinkError> {
        let permit = self.shared.breaker.permit().map_err(|retry_after| LinkError::Open { retry_after })?;
        match self.shared.commands.get() {
            Some(connection) => start(connection, permit),
            None => {
                permit.failed();
                Err(LinkError::Down)
            }
        }
    }

    /// The renewal connection, if it answers and leads to the same process of the server as the command connection;
    /// otherwise the command connection. For a moment the two may lead to different ones, and a renewal that another
    /// process answers says nothing about the lease. The rest of the run's name says what the process called its data
    /// when each was made, and both have the same data now.
    fn renewing(&self) -> Option<Arc<Connection>> {
        self.shared.renewals_wanted.notify_one();
        let commands = self.shared.commands.get()?;
        let is_same = |renewals: &Arc<Connection>| process_of(&renewals.up.run_id) == process_of(&commands.up.run_id);
        let renewals = self.shared.renewals.get().filter(is_same);
        Some(renewals.filter(|renewals| !renewals.wire.stands_still()).unwrap_or(commands))
    }
}

fn terms(op: &'static str, turn: Turn) -> Terms {
    Terms { op, turn, wait: Duration::ZERO, revocable: false, joins: None, permit: None }
}
