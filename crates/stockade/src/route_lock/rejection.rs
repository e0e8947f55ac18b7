use std::time::Duration;

use axum::{
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};

use super::{Problem, problem::FAULT};
use crate::{lock::LockError, resource::KeyError};

/// A request that was refused, by a route lock or an extractor, or whose write failed.
///
/// As a response it is problem+json (RFC 9457) that no cache keeps, with `Retry-After` if a retry makes sense. The
/// response carries the rejection among its extensions, so that outer layers can render it differently. It reveals
/// nothing internal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    problem: Problem,
    retry_after: Option<Duration>,
}

/// When to retry after a refusal that says nothing about time.
const SOON: Duration = Duration::from_secs(1);

impl Rejection {
    /// A refusal of this kind, with a retry after a second if the kind allows a retry.
    #[must_use]
    pub fn new(problem: Problem) -> Self {
        Self { problem, retry_after: problem.allows_retry().then_some(SOON) }
    }

    /// Says when a retry makes sense.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// The kind of refusal.
    #[must_use]
    pub fn problem(&self) -> Problem {
        self.problem
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.problem.status()
    }

    /// After what time a retry makes sense; `None` if it does not.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the request changed anything: `Some(false)` if it certainly did not, `None` if that is unknown.
    #[must_use]
    pub fn applied(&self) -> Option<bool> {
        match self.problem {
            Problem::OutcomeUnknown | Problem::UpgradeRefused => None,
            _ => Some(false),
        }
    }

    /// The detail of the problem. It points to `Retry-After` only if there is one.
    fn detail(&self) -> &'static str {
        match self.retry_after {
            None if self.problem.allows_retry() => FAULT,
            _ => self.problem.detail(),
        }
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

impl From<KeyError> for Rejection {
    fn from(error: KeyError) -> Self {
        Self::new(match error {
            KeyError::Name(_) | KeyError::Kind(_) => Problem::Internal,
            KeyError::Empty => Problem::BadRequest,
        })
    }
}

impl From<LockError> for Rejection {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Key(error) => error.into(),
            LockError::Tag
            | LockError::Duration { .. }
            | LockError::Permits { .. }
            | LockError::Unsupported { .. }
            | LockError::Committing { .. }
            | LockError::Capacity { .. }
            | LockError::Count { .. } => Self::new(Problem::Internal),
            LockError::Lost { .. } | LockError::HandoverVoid => Self::new(Problem::LeaseLost),
            // The rest of the holder's lease says nothing: the lease is renewed while the holder works.
            LockError::Busy { .. } | LockError::Timeout { .. } => Self::new(Problem::LockTimeout),
            LockError::QueueFull { .. } => Self::new(Problem::QueueFull),
            LockError::Unavailable { retry_after, .. } => {
                Self::new(Problem::LockStoreUnavailable).with_retry_after(retry_after)
            }
            // No retry helps until a person has looked at the foreign value.
            LockError::Foreign { .. } => Self { problem: Problem::LockStoreUnavailable, retry_after: None },
            LockError::ShuttingDown => Self::new(Problem::ShuttingDown),
        }
    }
}

/// Whole seconds, rounded up, at least one: `Retry-After: 0` would bring all clients back at once.
fn delay_seconds(retry_after: Duration) -> u64 {
    (retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0)).max(1)
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut body = serde_json::json!({
            "type": format!("/problems/{}", self.problem.slug()),
            "title": self.problem.title(),
            "status": status.as_u16(),
            "detail": self.detail(),
            "applied": self.applied(),
        });
        if let Some(retry_after) = self.retry_after {
            body["retry_after_ms"] = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).into();
        }
        let content_type = HeaderValue::from_static("application/problem+json");
        // Caches may keep some statuses, such as 501, if no header forbids it.
        let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        let mut response = (status, headers, body.to_string()).into_response();
        if let Some(retry_after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, delay_seconds(retry_after).into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;

    async fn rendered(rejection: Rejection) -> (Response, Value) {
        let response = rejection.into_response();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (Response::from_parts(parts, ().into_response().into_body()), serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_refusal_is_problem_json_with_a_retry_in_whole_seconds() {
        let key = crate::resource::Key::new("stock", "1").unwrap();
        let (waited, remaining) = (Duration::from_secs(2), Duration::from_secs(300));
        let error = LockError::Timeout { key, waited, remaining, position: None };
        let refused = Rejection::from(error);
        assert_eq!(refused.retry_after(), Some(SOON), "not the lease of the holder");
        let (response, body) = rendered(refused.with_retry_after(Duration::from_millis(1200))).await;
        assert_eq!(response.status(), StatusCode::LOCKED);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert_eq!(
            body,
            json!({
                "type": "/problems/lock-timeout",
                "title": "The resource is in use",
                "status": 423,
                "detail": "nothing was changed: send the request again after the time in Retry-After",
                "applied": false,
                "retry_after_ms": 1200,
            })
        );
    }

    #[tokio::test]
    async fn a_retry_is_never_asked_for_at_once() {
        let (response, _) = rendered(Rejection::new(Problem::QueueFull).with_retry_after(Duration::ZERO)).await;
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[tokio::test]
    async fn an_unknown_outcome_says_so_and_asks_for_no_retry() {
        let (response, body) = rendered(Rejection::new(Problem::OutcomeUnknown)).await;
        assert!(!response.headers().contains_key(RETRY_AFTER));
        assert_eq!(body["applied"], Value::Null);
        assert!(body.as_object().unwrap().contains_key("applied"));
    }
}
