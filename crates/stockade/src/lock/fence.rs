use std::{sync::Arc, time::Duration};

use crate::{
    lock::{LossReason, Mode, Token},
    resource::Key,
    store::{LockStore, Ownership},
};

/// The fencing side of an ownership: what a handler needs to write safely and to hear of a loss.
///
/// Cheap to clone; it does not keep the lock, the [`Guard`](super::Guard) does.
#[derive(Clone, Debug)]
pub struct Fence {
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) store: Arc<dyn LockStore>,
}

impl Fence {
    /// The locked resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.ownership.key
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.ownership.mode
    }

    /// The fencing token of this ownership.
    #[must_use]
    pub fn token(&self) -> Token {
        self.ownership.token
    }

    /// Why the ownership ended, if it did; judged by the local clock, without asking the store.
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.ownership.loss()
    }

    /// Resolves when the ownership is lost. Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.ownership.lost().await
    }

    /// The time for which the holder may still believe in its lease; zero when lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.loss().is_some() { Duration::ZERO } else { self.ownership.deadline().remaining() }
    }
}
