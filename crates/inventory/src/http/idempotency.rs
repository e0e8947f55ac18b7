use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::openapi::{ObjectBuilder, Type};

use super::{
    Problem, ProblemType,
    openapi::{Header, Operation, Takes, header_parameter},
    problem::NOT_STORED,
};
use crate::db::idempotency::{Fingerprint, Stored};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// `Idempotency-Key`: 1 to 255 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey(String);

impl IdempotencyKey {
    const MAX_LEN: usize = 255;

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Self>, Problem> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => accept(value).map(Some),
            (Some(_), Some(_)) => Err(Problem::bad_request("send one Idempotency-Key")),
        }
    }
}

impl Takes for Option<IdempotencyKey> {
    fn takes(operation: &mut Operation) {
        IdempotencyKey::describe(
            operation,
            "The client's name for this request. A request that comes again with its key gets the answer of the first.",
        );
    }
}

impl IdempotencyKey {
    /// Notes the header in the row of an operation, with what it means there.
    pub(super) fn describe(operation: &mut Operation, description: &'static str) {
        let visible = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]{1,255}$"));
        operation.parameter(header_parameter("Idempotency-Key", visible, "536365#1", description));
        operation.header(Header::IdempotentReplayed);
        operation.problem_header(Header::IdempotentReplayed);
        operation.problems([ProblemType::BadRequest, ProblemType::IdempotencyMismatch]);
    }
}

fn accept(value: &HeaderValue) -> Result<IdempotencyKey, Problem> {
    let bytes = value.as_bytes();
    let fits = (1..=IdempotencyKey::MAX_LEN).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    match value.to_str() {
        Ok(text) if fits => Ok(IdempotencyKey(text.to_owned())),
        _ => Err(Problem::bad_request("an Idempotency-Key has 1 to 255 visible ASCII characters")),
    }
}

/// A request up to its body: method and path as they came.
#[derive(Clone, Debug)]
pub(crate) struct Target(Sha256);

impl Target {
    /// The fingerprint of the request with this body.
    pub(crate) fn fingerprint(&self, body: &[u8]) -> Fingerprint {
        self.0.clone().chain_update(body).finalize().into()
    }
}

impl Takes for Target {}

impl<S: Sync> FromRequestParts<S> for Target {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        // Neither a method nor a path can hold a line feed, so the three parts can't run into each other.
        let hash = Sha256::new()
            .chain_update(parts.method.as_str())
            .chain_update(b"\n")
            .chain_update(parts.uri.path())
            .chain_update(b"\n");
        Ok(Self(hash))
    }
}

/// The type of a problem whose document is written already, for the log; among the extensions of its response.
#[derive(Clone, Debug)]
pub(super) struct WrittenProblem(pub(super) String);

impl WrittenProblem {
    fn read(document: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Document {
            r#type: String,
        }
        let Document { r#type } = serde_json::from_str(document).ok()?;
        r#type.strip_prefix("/problems/").map(|name| Self(name.to_owned()))
    }
}

/// An answer made of stored parts: the media type follows from the status. It answers this request and no other.
pub(crate) fn answer(stored: Stored) -> Response {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    let media_type = if status.is_success() { "application/json" } else { Problem::MEDIA_TYPE };
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(media_type)), NOT_STORED];
    let problem = if status.is_success() { None } else { WrittenProblem::read(&stored.body) };
    let mut response = (status, headers, stored.body).into_response();
    if let Some(problem) = problem {
        response.extensions_mut().insert(problem);
    }
    response
}

/// An earlier answer, given again.
pub(crate) fn replay(stored: Stored) -> Response {
    ([(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))], answer(stored)).into_response()
}
