use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use redis::Value;

use crate::{clock::Instant, redis::LinkError};

/// A lock attempt that was started.
pub(crate) struct Attempt {
    pub(crate) receipt: Receipt,
    pub(crate) reply: BoxFuture<'static, Result<Value, LinkError>>,
}

/// Says whether and when a command was sent. The answer is final once the reply has arrived or was dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipt(Arc<OnceLock<Instant>>);

impl Receipt {
    pub(super) fn sent(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// A moment at or before the sending; `None` if the command was not sent.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
