use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::Value;
use tokio::sync::Notify;

use super::{
    geometry::{Design, Geometry, Seed},
    scripts::OPEN,
};
use crate::{
    cache::store::OLD_PRIMARY_WRITES,
    clock::Instant,
    redis::{Handshake, LinkError, LinkEvents, Succession, Up, text},
};

/// The server of the filter, as far as this process knows it.
#[derive(Debug)]
pub(super) struct Server {
    keys: Vec<String>,
    /// The size that this process was built with.
    wanted: Geometry,
    known: Mutex<Option<Known>>,
    pub(super) came_up: Notify,
}

/// The state of the server and its filter, as one connection has found it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) run: Arc<str>,
    pub(super) design: Design,
    /// Whether the server goes on accepting writes after another server has taken its place.
    pub(super) is_unbounded: bool,
    /// Whether the server may itself have replaced a server that accepts writes for a while.
    pub(super) may_have_rival: bool,
    /// When the server had accepted the first write on this connection.
    since: Instant,
}

impl Known {
    /// Whether ids may still be added on another server, of which this one never hears.
    pub(super) fn has_rival(&self) -> bool {
        self.may_have_rival && self.since.elapsed() < OLD_PRIMARY_WRITES
    }
}

impl Server {
    pub(super) fn new(keys: Vec<String>, wanted: Geometry) -> Self {
        Self { keys, wanted, known: Mutex::default(), came_up: Notify::new() }
    }

    pub(super) fn opening(&self, run: &str) -> Vec<Vec<u8>> {
        [Seed::random().text(), self.wanted.text(), run.to_owned()].map(String::into_bytes).into()
    }

    pub(super) fn known(&self) -> Option<Known> {
        self.known.lock().clone()
    }

    /// Notes the design of this run's filter, which may have changed.
    pub(super) fn reopened(&self, run: &str, reply: &Value) -> Result<(), LinkError> {
        let design = self.design(reply)?;
        if let Some(known) = self.known.lock().as_mut().filter(|known| *known.run == *run) {
            known.design = design;
        }
        Ok(())
    }

    /// Notes what this run does when it is replaced. The setting can change while the server runs.
    pub(super) fn looked(&self, run: &str, succession: Succession) {
        if let Some(known) = self.known.lock().as_mut().filter(|known| *known.run == *run) {
            // A server that may have a rival may still have it after the settings are removed.
            known.is_unbounded = known.may_have_rival && succession != Succession::Bounded;
        }
    }

    fn design(&self, reply: &Value) -> Result<Design, LinkError> {
        let design = word(reply).and_then(Design::read).ok_or(LinkError::Protocol { op: OPEN.name })?;
        if design.geometry != self.wanted {
            let (found, wanted) = (design.geometry, self.wanted);
            tracing::warn!(
                ?found,
                ?wanted,
                "the filter has another size and keeps it: call `Bloom::resize` in the newest version of the program"
            );
        }
        Ok(design)
    }
}

impl LinkEvents for Server {
    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async {
            let reply = handshake.call(&OPEN, &self.keys, &self.opening(&up.run_id)).await?;
            let known = Known {
                run: Arc::clone(&up.run_id),
                design: self.design(&reply)?,
                is_unbounded: up.succession == Succession::Unbounded,
                may_have_rival: up.succession.has_rival(),
                since: Instant::now(),
            };
            *self.known.lock() = Some(known);
            Ok(())
        })
    }

    fn opened(&self, _up: &Up) {
        self.came_up.notify_one();
    }
}

/// The first word of a reply.
pub(super) fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Array(values) => word(values.first()?),
        other => text(other),
    }
}
