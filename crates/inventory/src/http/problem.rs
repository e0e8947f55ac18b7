use std::{borrow::Cow, time::Duration};

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{ProblemType, RequestId};
use crate::millis::millis;

/// When to retry after a problem that says nothing about time.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// Every error that leaves the service, as problem+json (RFC 9457).
///
/// A problem holds nothing internal. An inner error is logged where it becomes a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    problem_type: ProblemType,
    /// What is wrong with this request, or what to do. Empty where the title says it all.
    detail: Cow<'static, str>,
    /// How many units are on hand, where that is fewer than asked for.
    available: Option<i64>,
    /// When a retry makes sense, if the problem goes away by itself.
    retry_after: Duration,
}

/// No cache keeps a refusal: what is refused now may be granted next.
pub(crate) const NOT_STORED: (HeaderName, HeaderValue) = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));

#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<i64>,
    applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

impl Problem {
    /// The media type of a problem.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    const fn new(problem_type: ProblemType, detail: Cow<'static, str>) -> Self {
        Self { problem_type, detail, available: None, retry_after: SOON }
    }

    /// A path, query or header that can't be read, or a body that is no JSON.
    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemType::BadRequest, detail.into())
    }

    /// No such route or row.
    pub(crate) const fn not_found(detail: &'static str) -> Self {
        Self::new(ProblemType::NotFound, Cow::Borrowed(detail))
    }

    /// The lab does not sell by a scheme of this name.
    pub(crate) fn unknown_scheme(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemType::UnknownScheme, detail.into())
    }

    /// Only `available` units are on hand, fewer than asked for.
    pub(crate) fn insufficient_stock(available: i64) -> Self {
        let detail = format!("{available} on hand; nothing was taken");
        Self { available: Some(available), ..Self::new(ProblemType::InsufficientStock, detail.into()) }
    }

    /// If-Match or If-None-Match did not hold.
    pub(crate) fn precondition_failed(detail: &'static str) -> Self {
        Self::new(ProblemType::PreconditionFailed, detail.into())
    }

    /// JSON that is not allowed here.
    pub(crate) fn unprocessable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemType::Unprocessable, detail.into())
    }

    /// No connection in time, or none at all.
    pub(crate) fn database_unavailable(detail: &'static str) -> Self {
        Self::new(ProblemType::DatabaseUnavailable, detail.into())
    }

    /// A problem that goes away by itself, probably within `retry_after`.
    pub(crate) fn with_retry_after(problem_type: ProblemType, retry_after: Duration) -> Self {
        Self { retry_after, ..problem_type.into() }
    }

    /// Its type, which decides about its status and title.
    #[must_use]
    pub fn problem_type(&self) -> ProblemType {
        self.problem_type
    }

    /// The last part of its type, which is one of a closed set.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.problem_type.name()
    }

    /// The status it is answered with.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.problem_type.status()
    }

    /// Whether the request had an effect; `None` when nobody can say.
    fn applied(&self) -> Option<bool> {
        match self.problem_type {
            // A fault of the service may show after its commit, and Redis may do what it did not confirm.
            ProblemType::OutcomeUnknown | ProblemType::Internal | ProblemType::CacheStoreUnavailable => None,
            ProblemType::FenceNotRaised => Some(true),
            _ => Some(false),
        }
    }

    /// When a retry makes sense; `None` if it would not help, or could apply the request twice.
    fn retry_after(&self) -> Option<Duration> {
        self.problem_type.goes_away().then_some(self.retry_after)
    }

    /// The document, with the id of the request that it answers.
    #[must_use]
    pub fn document(&self, request_id: Option<&RequestId>) -> String {
        let document = Document {
            r#type: format!("/problems/{}", self.name()),
            title: self.problem_type.title(),
            status: self.status().as_u16(),
            detail: &self.detail,
            available: self.available,
            applied: self.applied(),
            retry_after_ms: self.retry_after().map(millis),
            request_id: request_id.map(RequestId::as_str),
        };
        // Texts and numbers only: nothing here can fail to serialize.
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// The whole answer, for the request `request_id`.
    #[must_use]
    pub fn answer(&self, request_id: Option<&RequestId>) -> Response {
        let mut response = (
            self.status(),
            [(header::CONTENT_TYPE, HeaderValue::from_static(Self::MEDIA_TYPE)), NOT_STORED],
            self.document(request_id),
        )
            .into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after() {
            // Rounded up and never zero: a retry "in 0 seconds" would not relieve the service.
            let seconds = (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1);
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match self.problem_type {
            ProblemType::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"admin\""));
            }
            // The rest of the upload is not read.
            ProblemType::BodyTimeout | ProblemType::BodyTooLarge => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// A problem that says what the table says of its type. A type with a constructor needs to say more.
impl From<ProblemType> for Problem {
    fn from(problem_type: ProblemType) -> Self {
        Self::new(problem_type, problem_type.usual_detail().into())
    }
}

/// The problem also travels as an extension of the response, so that the outermost layer, which knows the request's id,
/// can write it in.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.answer(None);
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(problem: &Problem) -> serde_json::Value {
        serde_json::from_str(&problem.document(None)).unwrap()
    }

    #[test]
    fn every_refusal_says_whether_it_was_applied_and_null_where_nobody_knows() {
        for one in [ProblemType::OutcomeUnknown, ProblemType::Internal, ProblemType::CacheStoreUnavailable] {
            assert_eq!(document(&one.into()).get("applied"), Some(&serde_json::Value::Null), "{one:?}");
        }
        for problem in [
            ProblemType::FenceStale.into(),
            Problem::insufficient_stock(1),
            Problem::not_found("there is none"),
            Problem::bad_request("no"),
            Problem::precondition_failed("no"),
            ProblemType::IdempotencyMismatch.into(),
            ProblemType::NestedLock.into(),
        ] {
            assert_eq!(document(&problem)["applied"], false, "{problem:?}");
        }
        assert_eq!(document(&ProblemType::FenceStale.into())["retry_after_ms"], 1000);
        assert_eq!(document(&ProblemType::Internal.into()).get("retry_after_ms"), None);
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds_and_never_zero() {
        let header = |millis| {
            let problem = Problem::with_retry_after(ProblemType::QueueFull, Duration::from_millis(millis));
            let answer = problem.answer(None);
            answer.headers()[header::RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!([header(0), header(1), header(1000), header(1001)], ["1", "1", "1", "2"]);
    }
}
