use std::sync::Arc;

use tokio::sync::Notify;

use crate::store::{LossReason, Ownership};

/// The holders and waiters to notify once the mutex is free. A waker is foreign code, and must not run under the mutex.
#[derive(Debug, Default)]
pub(super) struct Effects {
    lost: Vec<(Arc<Ownership>, LossReason)>,
    granted: Vec<Arc<Notify>>,
}

impl Effects {
    /// Records that an ownership ended. `None` stands for a grant that nobody had entered yet.
    pub(super) fn lost(&mut self, ownership: Option<Arc<Ownership>>, reason: LossReason) {
        self.lost.extend(ownership.map(|ownership| (ownership, reason)));
    }

    /// Records a waiter that has to look at the table again.
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
