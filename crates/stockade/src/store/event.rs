use std::{fmt, sync::Arc, time::Duration};

use super::{LossReason, Mode, Ownership, Token};

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

/// Whom events are told to.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(&LockEvent<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(told: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(super) fn tell(&self, ownership: &Ownership, kind: LockEventKind) {
        let (resource, mode, token) = (ownership.key.as_str(), ownership.mode(), ownership.token);
        (self.0)(&LockEvent { resource, mode, token, kind });
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(…)")
    }
}
