use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use axum::response::Response;
use futures_util::future::BoxFuture;

/// The future of [`RouteLockService`](super::RouteLockService).
///
/// Dropping it while the request waits for its lock leaves the queue. Dropping it later drops the handler of a read and
/// releases the lock. The handler of a write goes on to its end on a task of the locks.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<E> {
    inner: BoxFuture<'static, Result<Response, E>>,
}

impl<E> ResponseFuture<E> {
    pub(crate) fn new(future: impl Future<Output = Result<Response, E>> + Send + 'static) -> Self {
        Self { inner: Box::pin(future) }
    }
}

impl<E> Future for ResponseFuture<E> {
    type Output = Result<Response, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.as_mut().poll(cx)
    }
}

impl<E> fmt::Debug for ResponseFuture<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
