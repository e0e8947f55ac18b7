use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use tower_service::Service;

use super::{Admitted, Keys, RequestLocks, Route, Section};

/// The service of [`RouteLock`](super::RouteLock). Its error type is that of the inner service: a refusal is a
/// response.
///
/// Dropping its future while the request waits for its lock leaves the queue. Dropping it later drops the handler of a
/// read and releases the lock. The handler of a write goes on to its end on a task of the locks.
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
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // No lock is taken here: a service may be polled ready and never called.
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The inner service was polled ready and is used up here. Its clone was not, so the clone stays for later
        // calls.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        Box::pin(Arc::clone(&self.route).serve(ready, request))
    }
}

impl Route {
    /// Runs the inner service under the lock that the request needs, or refuses the request.
    async fn serve<S>(self: Arc<Self>, inner: S, mut request: Request) -> Result<Response, S::Error>
    where
        S: Service<Request> + Send + 'static,
        S::Response: IntoResponse + 'static,
        S::Error: Send + 'static,
        S::Future: Send + 'static,
    {
        // Until it has its lock, the layer runs without: the handler must not take a lock further out for this one.
        RequestLocks::skip(request.extensions_mut());
        let Some(mode) = self.settings.mode(request.method()) else { return call(inner, request).await };
        let version = request.version();
        let mut wait = None;
        let admitted = match &self.keys {
            Keys::One(key) => self.admit(key, request, mode, &mut wait).await,
            Keys::Several(keys) => self.admit_several(keys, request, &mut wait).await,
        };
        let mut response = match admitted {
            // Under a lock further out the handler is on a task already, which keeps that lock and its limits.
            Ok(Admitted::Unlocked(request)) if !request.method().is_safe() && !RequestLocks::has_any(&request) => {
                self.detach_unlocked(call(inner, request)).await?
            }
            Ok(Admitted::Free(request) | Admitted::Unlocked(request)) => call(inner, request).await?,
            Ok(Admitted::Held(mut request, grant)) => {
                Section::new(self, grant, &mut request).run(call(inner, request)).await?
            }
            Err(refusal) => self.answer(refusal, version),
        };
        if let Some(wait) = wait {
            wait.note(&mut response);
        }
        Ok(response)
    }
}

/// Runs the inner service.
async fn call<S>(mut ready: S, request: Request) -> Result<Response, S::Error>
where
    S: Service<Request>,
    S::Response: IntoResponse,
{
    ready.call(request).await.map(IntoResponse::into_response)
}
