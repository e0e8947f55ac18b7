use axum::{
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// An answer with `value` as its body; 500 without one when it can't be written as JSON.
pub(super) fn json<T: Serialize + ?Sized>(status: StatusCode, content_type: &'static str, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(CONTENT_TYPE, HeaderValue::from_static(content_type))], body).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer can't be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
