use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;

pub(super) const JSON: &str = "application/json";
/// The headers of an answer, and some of other layers. The map has room for them from the start, so it need not grow.
const HEADERS: usize = 8;
pub(super) const PROBLEM: &str = "application/problem+json";

/// An answer with `value` as its body. If it can't be written as JSON, the answer is 500 without a body.
pub(super) fn json<T: Serialize + ?Sized>(status: StatusCode, content_type: &'static str, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => written(status, content_type, body),
        Err(error) => unwritable(&error),
    }
}

/// An answer whose body is JSON already.
pub(super) fn written(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(super) fn unwritable(error: &serde_json::Error) -> Response {
    tracing::error!(%error, "an answer can't be written as JSON");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}
