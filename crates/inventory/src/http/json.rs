use std::{pin::pin, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use bytes::BytesMut;
use http_body_util::BodyExt;
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

/// The largest request body, in bytes.
pub(super) const BODY_LIMIT: usize = 64 * 1024;

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

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(ProblemType::UnsupportedMediaType.into());
        }
        let read = timeout(BODY, whole(request.into_body())).await;
        let bytes = read.map_err(|_| ProblemType::BodyTimeout)??;
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

/// The whole body. It is copied: each chunk keeps the read buffer alive that it is cut from, so a body that is sent
/// byte by byte would cost many times its size.
async fn whole(body: Body) -> Result<Bytes, Problem> {
    let mut body = pin!(body);
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad_request("the body ended early"))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if chunk.len() > BODY_LIMIT - bytes.len() {
            return Err(ProblemType::BodyTooLarge.into());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
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
    use std::{convert::Infallible, sync::Arc};

    use futures_util::stream;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[expect(dead_code, reason = "only read from JSON")]
        lines: Vec<u8>,
    }

    #[tokio::test]
    async fn a_body_keeps_none_of_the_buffers_that_it_arrives_in() {
        struct Buffer(#[expect(dead_code, reason = "counted by its references")] Arc<()>);
        impl AsRef<[u8]> for Buffer {
            fn as_ref(&self) -> &[u8] {
                b" "
            }
        }
        let buffers = Arc::new(());
        let chunks = (0..100).map(move |_| {
            assert!(Arc::strong_count(&buffers) < 5, "{} buffers are kept", Arc::strong_count(&buffers));
            Ok::<_, Infallible>(Bytes::from_owner(Buffer(Arc::clone(&buffers))))
        });
        let body = Body::from_stream(stream::iter(chunks));
        assert_eq!(whole(body).await.unwrap().len(), 100);
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
