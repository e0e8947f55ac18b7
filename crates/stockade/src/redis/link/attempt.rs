use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use redis::Value;

use super::{pending::Pending, replicas::Replicas};
use crate::{clock::Instant, redis::LinkError};

/// A lock attempt that was started.
pub(crate) struct Attempt {
    pub(crate) receipt: Receipt,
    pub(crate) reply: BoxFuture<'static, Result<Value, LinkError>>,
    /// Whether as many replicas as requested have the attempt's write. `None` if no replicas are requested.
    pub(crate) copies: Option<BoxFuture<'static, Result<bool, LinkError>>>,
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

/// The reply to a command, and whether enough replicas have what it wrote.
pub(super) fn replies(
    pending: Result<Pending, LinkError>,
    replicas: Option<Replicas>,
) -> (
    impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<>,
    impl Future<Output = Result<bool, LinkError>> + Send + 'static + use<>,
) {
    let (reply, copies) = match pending.map(Pending::replies) {
        Ok((reply, copies)) => (Ok(reply), Ok(copies)),
        Err(error) => (Err(error.clone()), Err(error)),
    };
    let enough = async move {
        match replicas {
            Some(replicas) => replicas.read(&copies?.await?),
            None => Ok(true),
        }
    };
    (async move { reply?.await }, enough)
}
