use std::sync::Arc;

use tokio::sync::Notify;

use crate::store::{LossReason, Ownership};

/// Whom to tell once the mutex is free: a waker is foreign code and must not run under it.
#[derive(Debug, Default)]
pub(super) struct Effects {
    lost: Vec<(Arc<Ownership>, LossReason)>,
    granted: Vec<Arc<Notify>>,
}

impl Effects {
    /// An ownership ended; `None` stands for a grant that nobody had entered yet.
    pub(super) fn lost(&mut self, ownership: Option<Arc<Ownership>>, reason: LossReason) {
        self.lost.extend(ownership.map(|ownership| (ownership, reason)));
    }

    /// A waiter has something to look at.
    pub(super) fn wake(&mut self, waiter: Arc<Notify>) {
        self.granted.push(waiter);
    }

    /// Tells the losers first, so that they know before their successors start.
    pub(super) fn apply(self) {
        for (ownership, reason) in self.lost {
            ownership.lose(reason);
        }
        for waiter in self.granted {
            waiter.notify_one();
        }
    }
}
