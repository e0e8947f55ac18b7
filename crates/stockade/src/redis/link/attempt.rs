use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use redis::Value;

use super::{pending::Pending, replicas::Replicas};
use crate::{clock::Instant, redis::LinkError};

/// An attempt that was called.
pub(crate) struct Attempt {
    pub(crate) receipt: Receipt,
    pub(crate) reply: BoxFuture<'static, Result<Value, LinkError>>,
    /// Whether as many replicas as are wanted have what it wrote; `None` when they are not asked.
    pub(crate) copies: Option<BoxFuture<'static, Result<bool, LinkError>>>,
}

/// Says whether and when a command was sent. That is certain once its reply is there or was dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipt(Arc<OnceLock<Instant>>);

impl Receipt {
    pub(super) fn sent(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Not later than it was sent; `None` when it was not.
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
