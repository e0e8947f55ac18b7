use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};

use super::Problem;
use crate::domain::Sku;

/// The path parameter `sku`, percent-decoded once.
impl<S: Send + Sync> FromRequestParts<S> for Sku {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::BadRequest("the path is not UTF-8".into()))?;
        let Some((_, text)) = params.iter().find(|(name, _)| *name == "sku") else {
            tracing::error!("the route has no parameter `sku`");
            return Err(Problem::Internal);
        };
        Self::new(text).map_err(|error| Problem::BadRequest(error.to_string().into()))
    }
}
