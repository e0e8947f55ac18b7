use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use redis::Value;

use super::{LinkError, Redis, Script};
use crate::breaker::Breaker;

/// What a connection that just came up is.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    /// The server's `run_id`.
    pub(crate) run_id: Arc<str>,
    /// Whether it differs from that of the connection before: state may be gone. False for the first.
    pub(crate) new_run: bool,
    /// Whether the self-test saw a message published by a script and counted a receiver.
    pub(crate) counts_receivers: bool,
}

/// Commands on a connection that is not open to callers yet.
#[derive(Debug)]
pub(crate) struct Handshake {}

impl Handshake {
    /// One script call within the command time-out.
    pub(crate) async fn call(
        &mut self,
        _script: &'static Script,
        _keys: &[String],
        _args: &[Vec<u8>],
    ) -> Result<Value, LinkError> {
        todo!()
    }
}

/// What the owner of a link wants to know.
pub(crate) trait LinkEvents: Send + Sync + 'static {
    /// A message on a subscribed channel. Runs in the connection's driver: it only posts to cells and channels.
    fn message(&self, channel: &str, payload: &[u8]);

    /// Subscribed and self-tested, not open yet: the place for JOIN and SEED. An error closes the connection.
    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>>;

    /// Open to callers again.
    fn opened(&self, up: &Up);

    /// The connection ended; callers get [`LinkError::Down`] until the next `opened`.
    fn closed(&self);
}

/// The connections of one role (`lock` or `cache`) to one server: one for commands and the inbox, one for renewals.
///
/// Commands are written in the order of the calls; the reply of each is awaited on a task of the link, so that a caller
/// that gives up leaves a running command in its place in the order. Reconnects by itself with jittered backoff.
#[derive(Clone, Debug)]
pub(crate) struct Link {}

impl Link {
    /// Starts connecting. `role` is `lock` or `cache` (connection name and breaker label); `channels` are subscribed on
    /// every connection before it opens; `scripts` are loaded.
    pub(crate) fn open(
        _redis: &Redis,
        _role: &'static str,
        _channels: Vec<String>,
        _scripts: &'static [&'static Script],
        _events: Arc<dyn LinkEvents>,
    ) -> Self {
        todo!()
    }

    /// EVALSHA on the command connection.
    ///
    /// The command takes its place in the write order when this is *called*, not when the future is first polled.
    pub(crate) fn call(
        &self,
        _script: &'static Script,
        _keys: Vec<String>,
        _args: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static {
        async { todo!() }
    }

    /// EVALSHA on the renewal connection, several scripts in one pipeline; one result each.
    pub(crate) async fn call_renewal(
        &self,
        _script: &'static Script,
        _calls: Vec<(Vec<String>, Vec<Vec<u8>>)>,
    ) -> Result<Vec<Result<Value, LinkError>>, LinkError> {
        todo!()
    }

    /// A plain command on the command connection; `op` is its metric label.
    pub(crate) fn command(
        &self,
        _op: &'static str,
        _command: redis::Cmd,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static {
        async { todo!() }
    }

    /// Whether the command connection is open.
    pub(crate) fn is_up(&self) -> bool {
        todo!()
    }

    /// Counts connections: grows by one at every `opened`.
    pub(crate) fn generation(&self) -> u64 {
        todo!()
    }

    pub(crate) fn breaker(&self) -> &Breaker {
        todo!()
    }

    pub(crate) fn timeout(&self) -> Duration {
        todo!()
    }

    /// Closes both connections and ends the link's tasks.
    pub(crate) async fn shutdown(&self, _limit: Duration) {
        todo!()
    }
}
