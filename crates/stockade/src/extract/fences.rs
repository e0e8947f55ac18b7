use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::request::Parts,
    response::{IntoResponseParts, ResponseParts},
};

use crate::{lock::Fence, route_lock::RequestLocks};

/// The fences of all locks that a handler runs under, outermost first. Empty without a lock.
#[derive(Clone, Debug, Default)]
pub struct Fences(pub Vec<Fence>);

impl<S: Sync> FromRequestParts<S> for Fences {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(RequestLocks::of(&parts.extensions).into_iter().flat_map(RequestLocks::fences).cloned().collect()))
    }
}

/// Adds one `Fencing-Token` header for each, outermost first.
impl IntoResponseParts for Fences {
    type Error = Infallible;

    fn into_response_parts(self, response: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.0.into_iter().try_fold(response, |response, fence| fence.into_response_parts(response))
    }
}
