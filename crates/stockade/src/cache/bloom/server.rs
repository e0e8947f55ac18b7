use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use redis::Value;
use tokio::sync::Notify;

use super::{
    scripts::OPEN,
    shape::{Design, Seed, Shape},
};
use crate::redis::{Handshake, LinkError, LinkEvents, Up};

/// What is known of the server at the other end of the link.
#[derive(Debug)]
pub(super) struct Server {
    keys: Vec<String>,
    /// What this process would make it.
    wanted: Shape,
    known: Mutex<Option<(Arc<str>, Design)>>,
    pub(super) came_up: Notify,
}

impl Server {
    pub(super) fn new(keys: Vec<String>, wanted: Shape) -> Self {
        Self { keys, wanted, known: Mutex::default(), came_up: Notify::new() }
    }

    pub(super) fn opening(&self, run: &str) -> Vec<Vec<u8>> {
        [Seed::random().text(), self.wanted.text(), run.to_owned()].map(String::into_bytes).into()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Arc<str>, Design)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run of the server and the design of its filter.
    pub(super) fn known(&self) -> Option<(Arc<str>, Design)> {
        self.lock().clone()
    }

    pub(super) fn learn(&self, run: Arc<str>, reply: &Value) -> Result<(), LinkError> {
        let design = word(reply).and_then(Design::read).ok_or(LinkError::Protocol { op: OPEN.name })?;
        if design.shape != self.wanted {
            let (found, wanted) = (design.shape, self.wanted);
            tracing::warn!(
                ?found,
                ?wanted,
                "the filter has another size and keeps it: delete its keys to have it built anew"
            );
        }
        *self.lock() = Some((run, design));
        Ok(())
    }
}

impl LinkEvents for Server {
    fn message(&self, _channel: &str, _payload: &[u8]) {}

    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async {
            let reply = handshake.call(&OPEN, &self.keys, &self.opening(&up.run_id)).await?;
            self.learn(Arc::clone(&up.run_id), &reply)
        })
    }

    fn opened(&self, _up: &Up) {
        self.came_up.notify_one();
    }

    fn closed(&self) {}
}

/// The first word of a reply.
pub(super) fn word(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Array(values) => word(values.first()?),
        _ => None,
    }
}
