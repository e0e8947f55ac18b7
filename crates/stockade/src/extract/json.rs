use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};

/// The headers of an answer, and some of other layers. The map has room for them from the start, so it need not grow.
const HEADERS: usize = 8;

/// A 200 whose body is JSON already.
pub(super) fn written(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn unwritable(error: &serde_json::Error) -> Response {
    tracing::error!(%error, "an answer can't be written as JSON");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}
