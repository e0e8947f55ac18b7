use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use tower_service::Service;

use super::{ResponseFuture, Route};

/// The service of [`RouteLock`](super::RouteLock). Its error is that of the inner service: a refusal is a response.
#[derive(Clone, Debug)]
pub struct RouteLockService<S> {
    inner: S,
    route: Arc<Route>,
}

impl<S> RouteLockService<S> {
    pub(crate) fn new(inner: S, route: Arc<Route>) -> Self {
        Self { inner, route }
    }
}

impl<S> Service<Request> for RouteLockService<S>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Response: IntoResponse + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // No lock is taken here: a service may be polled ready and never called.
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The clone has not been polled ready, so it is the one that stays behind.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::new(Arc::clone(&self.route).serve(ready, request))
    }
}
