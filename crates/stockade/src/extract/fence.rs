use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{HeaderName, request::Parts},
    response::{IntoResponseParts, ResponseParts},
};

use crate::{
    lock::{Fence, MultiFence},
    route_lock::{Degraded, Problem, Rejection, RequestLocks, Unlocked},
};

/// The response header that carries the fencing token of the lock an answer was made under.
pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// The fence of the innermost [`RouteLock`](crate::route_lock::RouteLock) around the handler, never that of one further
/// out.
///
/// | the route | answer | `Option<Fence>` |
/// |---|---|---|
/// | has no lock | 500 | `None` |
/// | locks several resources: take [`MultiFence`] | 500 | `None` |
/// | runs without its lock, because the lock store is unavailable | 503 | `None` |
/// | runs without its lock after its [`read_wait`](crate::route_lock::RouteLock::read_wait) | 423 | `None` |
impl<S: Sync> FromRequestParts<S> for Fence {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Rejection> {
        match innermost(parts) {
            Some(Ok(fence)) => Ok(fence.clone()),
            Some(Err(_)) => {
                let path = parts.uri.path();
                tracing::error!(
                    path,
                    "a handler takes a `Fence` where several resources are locked: take a `MultiFence`"
                );
                Err(Problem::Internal.into())
            }
            None => Err(unlocked(parts, "Fence")),
        }
    }
}

/// The fences of the innermost [`RouteLock`](crate::route_lock::RouteLock) around the handler, whether it locks one
/// resource or several ([`RouteLock::write_all`](crate::route_lock::RouteLock::write_all)).
///
/// Rejected as [`Fence`] is, except where several resources are locked.
impl<S: Sync> FromRequestParts<S> for MultiFence {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Rejection> {
        match innermost(parts) {
            Some(Ok(fence)) => Ok(Self::of_one(fence.clone())),
            Some(Err(fences)) => Ok(fences.clone()),
            None => Err(unlocked(parts, "MultiFence")),
        }
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Fence {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Self>, Infallible> {
        Ok(innermost(parts).and_then(Result::ok).cloned())
    }
}

fn innermost(parts: &Parts) -> Option<Result<&Fence, &MultiFence>> {
    RequestLocks::of(&parts.extensions)?.innermost()
}

fn unlocked(parts: &Parts, extractor: &str) -> Rejection {
    if parts.extensions.get::<Degraded>().is_some() {
        return Problem::LockStoreUnavailable.into();
    }
    if parts.extensions.get::<Unlocked>().is_some() {
        return Problem::LockTimeout.into();
    }
    tracing::error!(
        path = parts.uri.path(),
        extractor,
        "a handler takes the fence of its lock, but no `RouteLock` took one for this request: put one on its route that \
         finds a key in every request"
    );
    Problem::Internal.into()
}

/// Adds the header `Fencing-Token`. An answer made under several locks has one value for each.
impl IntoResponseParts for Fence {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        response.headers_mut().append(FENCING_TOKEN, self.token().get().into());
        Ok(response)
    }
}

/// Adds one header `Fencing-Token` for each, in the order in which the resources were named.
impl IntoResponseParts for MultiFence {
    type Error = Infallible;

    fn into_response_parts(self, response: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.iter().cloned().try_fold(response, |response, fence| fence.into_response_parts(response))
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::FENCING_TOKEN;
    use crate::{Locks, resource::Key};

    #[tokio::test]
    async fn an_answer_under_several_locks_carries_their_tokens_in_the_order_of_the_request() {
        let keys = ["b", "a", "c"].map(|id| Key::new("stock", id).unwrap());
        let held = Locks::memory().write_keys(keys.clone()).acquire().await.unwrap();
        let response = (held.fences(), "moved").into_response();
        let sent: Vec<_> =
            response.headers().get_all(FENCING_TOKEN).iter().map(|token| token.to_str().unwrap()).collect();
        let fences = held.fences();
        let tokens: Vec<_> = keys.iter().map(|key| fences.of_key(key).unwrap().token().to_string()).collect();
        assert_eq!(sent, tokens);
    }
}
