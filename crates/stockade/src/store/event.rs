use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::{LossReason, Mode, Token};

/// What happened to a lock of this process. See [`LocksBuilder::on_event`](crate::lock::LocksBuilder::on_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockEvent<'a> {
    /// The encoded key, as [`Locks::list`](crate::Locks::list) gives it.
    pub resource: &'a str,
    /// How the lock is held.
    pub mode: Mode,
    /// The token of the ownership.
    pub token: Token,
    /// What happened.
    pub kind: LockEventKind,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockEventKind {
    /// The lock was granted.
    Granted {
        /// From the request to the grant.
        waited: Duration,
        /// For a lock that its previous holder handed off, from the release to the grant.
        handed_off: Option<Duration>,
    },
    /// The holder lost it, as `stockade_lock_lost_total` counts.
    Lost(LossReason),
}

/// The function that gets the events of a lock store.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(&LockEvent<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(told: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// A panic of the function ends here. It would end the task that renews all locks of the process.
    pub(super) fn tell(&self, event: &LockEvent<'_>) {
        if catch_unwind(AssertUnwindSafe(|| (self.0)(event))).is_err() {
            tracing::error!("`on_event` panicked");
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(…)")
    }
}
