use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{FromRequest, Request, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
};
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::{
    Problem, ProblemType,
    openapi::{Operation, Takes},
};

/// How long a body may take to arrive, as under a route lock.
const BODY: Duration = Duration::from_secs(5);

/// How much of a client's own text a problem repeats.
const MAX_DETAIL: usize = 200;

/// A JSON request body: its value, and its bytes as they came.
///
/// Not JSON is 400, JSON that is no object or not `T` is 422, another media type or an encoded body 415, too large 413,
/// too slow 408.
#[derive(Clone, Debug)]
pub struct JsonBody<T> {
    /// The value that the bytes encode.
    pub value: T,
    /// The bytes.
    pub bytes: Bytes,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(ProblemType::UnsupportedMediaType.into());
        }
        let read = timeout(BODY, Bytes::from_request(request, state)).await;
        let bytes = read.map_err(|_| ProblemType::BodyTimeout)?.map_err(unreadable)?;
        Ok(Self { value: parse(&bytes)?, bytes })
    }
}

impl<T: ToSchema> Takes for JsonBody<T> {
    fn takes(operation: &mut Operation) {
        operation.body::<T>();
        operation.problems([
            ProblemType::BadRequest,
            ProblemType::BodyTimeout,
            ProblemType::BodyTooLarge,
            ProblemType::UnsupportedMediaType,
            ProblemType::Unprocessable,
        ]);
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let identity = |encoding: &axum::http::HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    essence.eq_ignore_ascii_case("application/json") && headers.get_all(header::CONTENT_ENCODING).iter().all(identity)
}

#[expect(clippy::needless_pass_by_value, reason = "it is called by `map_err`")]
fn unreadable(rejection: BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ProblemType::BodyTooLarge.into(),
        _ => Problem::bad_request("the body ended early"),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let malformed = |_| Problem::bad_request("the body is not JSON");
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::bad_request("the body is not UTF-8"))?;
    // A first pass over the whole text: without it a wrong value would hide a syntax error behind it.
    serde_json::from_str::<IgnoredAny>(text).map_err(malformed)?;
    // Serde would take an array for a struct, its elements for the fields in their order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Problem::unprocessable("the body must be a JSON object"));
    }
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let message = error.inner().to_string();
        match error.path().to_string() {
            // The message names the field that is missing, unknown or there twice.
            whole if whole == "." => Problem::unprocessable(shorten(&message)),
            field => Problem::unprocessable(shorten(&format!("{field}: {message}"))),
        }
    })
}

/// The message in the words of the types; the position means nothing to a client.
fn shorten(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    match message.char_indices().nth(MAX_DETAIL) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// The bytes of an answer; the types that come here can't fail to serialize.
pub(crate) fn to_string<T: Serialize>(value: &T) -> Result<String, Problem> {
    serde_json::to_string(value).map_err(|error| {
        tracing::error!(%error, "an answer could not be serialized");
        ProblemType::Internal.into()
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[expect(dead_code, reason = "only read from JSON")]
        lines: Vec<u8>,
    }

    #[test]
    fn what_is_wrong_is_said_of_the_field() {
        for (body, told) in [
            (r#"{"lines":"one"}"#, "lines: invalid type: string \"one\", expected a sequence"),
            (r#"{"lines":[1,-2]}"#, "lines[1]: invalid value: integer `-2`, expected u8"),
            (r"{}", "missing field `lines`"),
            (r#"{"more":1}"#, "more: unknown field `more`, expected `lines`"),
        ] {
            assert_eq!(parse::<Order>(body.as_bytes()).unwrap_err(), Problem::unprocessable(told), "{body}");
        }
    }
}
