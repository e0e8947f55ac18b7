use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{connection::Connection, events::LinkEvents, refusals::Refusals, window::Ceiling};
use crate::{
    breaker::Breaker,
    redis::{Redis, Script},
};

/// How many command time-outs a command without a limit of its own waits for its place. If the server is silent, the
/// wait ends after one.
const PLACE: u32 = 20;
/// Practically without limit.
pub(super) const LONGEST: Duration = Duration::from_secs(86_400 * 365);

/// What the tasks and the commands of a link share.
pub(super) struct Shared {
    pub(super) redis: Redis,
    pub(super) role: &'static str,
    pub(super) channels: Vec<String>,
    pub(super) scripts: &'static [&'static Script],
    pub(super) events: Arc<dyn LinkEvents>,
    pub(super) breaker: Breaker,
    pub(super) commands: Slot,
    pub(super) renewals: Slot,
    /// Why the server can't be used, as found by the latest attempt.
    pub(super) unfit: Mutex<Option<Arc<str>>>,
    pub(super) refusals: Refusals,
    pub(super) ceiling: Arc<Ceiling>,
    pub(super) generation: AtomicU64,
    /// The first renewal asks for the second connection. A cache never renews, so it never opens one.
    pub(super) renewals_wanted: Notify,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    pub(super) closing: CancellationToken,
    /// Cancelled once the first attempt to connect has ended, either way.
    pub(super) attempted: CancellationToken,
    /// When the last command connection ended.
    pub(super) ended: Mutex<Option<Instant>>,
}

/// Holds the open connection.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Arc<Connection>>>);

impl Slot {
    pub(super) fn get(&self) -> Option<Arc<Connection>> {
        self.0.lock().clone()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Commands that wait for a place on the previous connection are told that it is gone.
    pub(super) fn set(&self, connection: Option<Arc<Connection>>) {
        let before = std::mem::replace(&mut *self.0.lock(), connection);
        if let Some(before) = before {
            before.wire.close();
        }
    }
}

impl Shared {
    /// Until when a command that is called now may wait for its place: as long as its attempt may wait, or some command
    /// time-outs if it has no wait of its own.
    pub(super) fn limit(&self, now: Instant, wait: Duration) -> Instant {
        let wait = if wait.is_zero() { self.redis.timeout() * PLACE } else { wait.max(self.redis.timeout()) };
        now + wait.min(LONGEST)
    }

    pub(super) fn set_unfit(&self, said: Option<Arc<str>>) {
        *self.unfit.lock() = said;
    }
}
