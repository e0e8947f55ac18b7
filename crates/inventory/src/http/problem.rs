use std::borrow::Cow;

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{ProblemType, RequestId, Retry, refusal::Refusal};

/// Every error that leaves the service, as problem+json (RFC 9457).
///
/// A problem holds nothing internal. An inner error is logged where it becomes a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A path, query or header that can't be read, or a body that is no JSON.
    BadRequest(Cow<'static, str>),
    /// No bearer token, or a wrong one.
    Unauthorized,
    /// No such route or row.
    NotFound(&'static str),
    /// The lab does not sell by a scheme of this name.
    UnknownScheme(Cow<'static, str>),
    /// The route exists, the method does not.
    MethodNotAllowed,
    /// The body came too slowly.
    BodyTimeout,
    /// Fewer units are on hand than asked for.
    InsufficientStock {
        /// How many are on hand.
        available: i64,
    },
    /// Fewer units are left in the sale than asked for.
    SoldOut,
    /// The customer would have more units than the sale allows.
    LimitReached,
    /// The sale takes no reservation any more.
    SaleClosed,
    /// A sale of the SKU is open already.
    SaleOpen,
    /// Another attack of the lab is under way.
    AttackRunning,
    /// If-Match or If-None-Match did not hold.
    PreconditionFailed(&'static str),
    /// The body is larger than allowed.
    BodyTooLarge,
    /// The body is not declared as JSON.
    UnsupportedMediaType,
    /// JSON that is not allowed here.
    Unprocessable(Cow<'static, str>),
    /// A transfer from a SKU to itself.
    SameSku,
    /// The Idempotency-Key was used for something else.
    IdempotencyMismatch,
    /// Somebody else held the lock for the whole wait.
    LockTimeout(Retry),
    /// Too many requests wait for the lock.
    QueueFull(Retry),
    /// A bug, or a database in a state that the service did not put it in.
    Internal,
    /// A request asked for a lock that it holds.
    NestedLock,
    /// The Redis of the locks is away, and a write needs its lock.
    LockStoreUnavailable(Retry),
    /// The Redis of the cache did not confirm that values were voided.
    CacheStoreUnavailable,
    /// The write was not made, because a strict cache could not be told of it.
    StrictCacheUnavailable,
    /// A lock was taken from its holders, and its fence could not be raised above them.
    FenceNotRaised,
    /// The fence refused the write, because there is a newer holder.
    FenceStale,
    /// Another transaction holds the fence.
    FenceBusy,
    /// The lease ended before anything was committed.
    LeaseLost,
    /// COMMIT was sent and its answer never came, or the time was up before the write's end.
    OutcomeUnknown,
    /// Refused to protect the database.
    LoadShed(Retry),
    /// No connection in time, or none at all.
    DatabaseUnavailable(&'static str),
    /// The instance loads its cache and is not ready yet.
    WarmingUp,
    /// The instance is going away.
    ShuttingDown,
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
    #[serde(flatten)]
    refusal: Refusal,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

impl Problem {
    /// The media type of a problem.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// Its type, which decides about its status and title.
    #[must_use]
    pub fn problem_type(&self) -> ProblemType {
        match self {
            Self::BadRequest(_) => ProblemType::BadRequest,
            Self::Unauthorized => ProblemType::Unauthorized,
            Self::NotFound(_) => ProblemType::NotFound,
            Self::UnknownScheme(_) => ProblemType::UnknownScheme,
            Self::MethodNotAllowed => ProblemType::MethodNotAllowed,
            Self::BodyTimeout => ProblemType::BodyTimeout,
            Self::InsufficientStock { .. } => ProblemType::InsufficientStock,
            Self::SoldOut => ProblemType::SoldOut,
            Self::LimitReached => ProblemType::LimitReached,
            Self::SaleClosed => ProblemType::SaleClosed,
            Self::SaleOpen => ProblemType::SaleOpen,
            Self::AttackRunning => ProblemType::AttackRunning,
            Self::PreconditionFailed(_) => ProblemType::PreconditionFailed,
            Self::BodyTooLarge => ProblemType::BodyTooLarge,
            Self::UnsupportedMediaType => ProblemType::UnsupportedMediaType,
            Self::Unprocessable(_) => ProblemType::Unprocessable,
            Self::SameSku => ProblemType::SameSku,
            Self::IdempotencyMismatch => ProblemType::IdempotencyMismatch,
            Self::LockTimeout(_) => ProblemType::LockTimeout,
            Self::QueueFull(_) => ProblemType::QueueFull,
            Self::Internal => ProblemType::Internal,
            Self::NestedLock => ProblemType::NestedLock,
            Self::LockStoreUnavailable(_) => ProblemType::LockStoreUnavailable,
            Self::CacheStoreUnavailable => ProblemType::CacheStoreUnavailable,
            Self::StrictCacheUnavailable => ProblemType::StrictCacheUnavailable,
            Self::FenceNotRaised => ProblemType::FenceNotRaised,
            Self::FenceStale => ProblemType::FenceStale,
            Self::FenceBusy => ProblemType::FenceBusy,
            Self::LeaseLost => ProblemType::LeaseLost,
            Self::OutcomeUnknown => ProblemType::OutcomeUnknown,
            Self::LoadShed(_) => ProblemType::LoadShed,
            Self::DatabaseUnavailable(_) => ProblemType::DatabaseUnavailable,
            Self::WarmingUp => ProblemType::WarmingUp,
            Self::ShuttingDown => ProblemType::ShuttingDown,
        }
    }

    fn detail(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Self::BadRequest(detail) | Self::Unprocessable(detail) | Self::UnknownScheme(detail) => detail,
            Self::NotFound(detail) | Self::PreconditionFailed(detail) | Self::DatabaseUnavailable(detail) => detail,
            Self::InsufficientStock { available } => {
                return Cow::Owned(format!("{available} on hand; nothing was taken"));
            }
            Self::SoldOut => "nothing was reserved; ask for fewer, or look at the sale",
            Self::LimitReached => "nothing was reserved; `per_customer` of the sale is the limit",
            Self::SaleClosed => "nothing was reserved; the sale has ended",
            Self::SaleOpen => "close it first",
            Self::AttackRunning => "stop it first, or wait: none takes longer than 30 s",
            Self::SameSku => "`from` and `to` are the same SKU: name two",
            Self::IdempotencyMismatch => "use a new Idempotency-Key for a new request",
            Self::UnsupportedMediaType => "send application/json, not encoded",
            Self::WarmingUp => "it serves already, and is ready once its warm-up has ended",
            Self::CacheStoreUnavailable => {
                "other instances may still serve what is to be voided; repeat the request, which does no harm"
            }
            Self::FenceNotRaised => {
                "the lock was taken from its holders; until somebody writes under it again, they may still begin a \
                 transaction: look at the lock, and if nobody holds it, force it again"
            }
            Self::OutcomeUnknown => "read it back before trying again, or repeat it with the same Idempotency-Key",
            Self::LockTimeout(_)
            | Self::QueueFull(_)
            | Self::LockStoreUnavailable(_)
            | Self::StrictCacheUnavailable
            | Self::FenceStale
            | Self::FenceBusy
            | Self::LeaseLost
            | Self::LoadShed(_)
            | Self::ShuttingDown => "nothing was applied; try again later",
            Self::Unauthorized
            | Self::MethodNotAllowed
            | Self::BodyTimeout
            | Self::BodyTooLarge
            | Self::Internal
            | Self::NestedLock => "",
        })
    }

    fn refusal(&self) -> Refusal {
        let after = match self {
            Self::LockTimeout(after)
            | Self::QueueFull(after)
            | Self::LockStoreUnavailable(after)
            | Self::LoadShed(after) => *after,
            _ => Retry::default(),
        };
        Refusal::of(self.problem_type(), after)
    }

    /// The last part of its type, which is one of a closed set.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.problem_type().name()
    }

    /// The status it is answered with.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.problem_type().status()
    }

    /// The document, with the id of the request that it answers.
    #[must_use]
    pub fn document(&self, request_id: Option<&RequestId>) -> String {
        let problem_type = self.problem_type();
        let available = match self {
            Self::InsufficientStock { available } => Some(*available),
            _ => None,
        };
        let document = Document {
            r#type: format!("/problems/{}", problem_type.name()),
            title: problem_type.title(),
            status: problem_type.status().as_u16(),
            detail: &self.detail(),
            available,
            refusal: self.refusal(),
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
        if let Some(seconds) = self.refusal().retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match self {
            Self::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // The rest of the upload is not read.
            Self::BodyTimeout | Self::BodyTooLarge => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
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
    use std::time::Duration;

    use super::*;

    fn document(problem: &Problem) -> serde_json::Value {
        serde_json::from_str(&problem.document(None)).unwrap()
    }

    #[test]
    fn every_refusal_says_whether_it_was_applied_and_null_where_nobody_knows() {
        for problem in [Problem::OutcomeUnknown, Problem::Internal, Problem::CacheStoreUnavailable] {
            assert_eq!(document(&problem).get("applied"), Some(&serde_json::Value::Null), "{problem:?}");
        }
        for problem in [
            Problem::FenceStale,
            Problem::InsufficientStock { available: 1 },
            Problem::NotFound("there is none"),
            Problem::BadRequest("no".into()),
            Problem::PreconditionFailed("no"),
            Problem::IdempotencyMismatch,
            Problem::NestedLock,
        ] {
            assert_eq!(document(&problem)["applied"], false, "{problem:?}");
        }
        assert_eq!(document(&Problem::FenceStale)["retry_after_ms"], 1000);
        assert_eq!(document(&Problem::Internal).get("retry_after_ms"), None);
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds_and_never_zero() {
        let header = |millis| {
            let answer = Problem::QueueFull(Retry(Duration::from_millis(millis))).answer(None);
            answer.headers()[header::RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!([header(0), header(1), header(1000), header(1001)], ["1", "1", "1", "2"]);
    }
}
