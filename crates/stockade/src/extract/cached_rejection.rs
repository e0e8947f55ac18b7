use std::time::Duration;

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{
    CACHE_STATUS, CachePolicy,
    json::{PROBLEM, json},
    status,
};
use crate::cache::{CacheError, CacheInfo};

/// Why a handler did not get its [`Cached`](super::Cached) value. The answer is problem+json (RFC 9457) with `applied:
/// false`. It is `no-store`, except for the 404, which is `Cache-Control: private, no-cache`.
///
/// | rejection | status | type |
/// |---|---|---|
/// | the key's own | its own | its own |
/// | absent row | 404 | `/problems/not-found` |
/// | load shed | 503, `Retry-After` | `/problems/load-shed` |
/// | loader failed or took too long | 503, `Retry-After` | `/problems/database-unavailable` |
/// | shutting down | 503, `Retry-After` | `/problems/shutting-down` |
/// | id of the key empty | 400 | `/problems/bad-request` |
/// | loader panicked | 500 | `/problems/internal` |
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CachedRejection<R> {
    /// The key could not be extracted.
    #[error(transparent)]
    Key(R),
    /// There is no such row.
    #[error("there is no such row: take `Option<Cached<_>>` where that is no error")]
    Absent(CacheInfo),
    /// The cache gave no answer.
    #[error("the cache gave no answer")]
    Cache {
        /// Why, and what to do.
        #[source]
        error: CacheError,
        /// Whether the request already runs outside the normal rules, because a store is unreachable.
        degraded: bool,
        /// Whether the request asked for a load with `Cache-Control: no-cache`.
        forced: bool,
    },
}

/// The parts of the answer to a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    /// What the client may do.
    detail: &'static str,
    retry_after: Option<Duration>,
}

impl Refusal {
    const NOT_FOUND: Self = Self::new(
        StatusCode::NOT_FOUND,
        "not-found",
        "There is no such resource",
        "check the path, or create the resource first",
    );

    const fn new(status: StatusCode, slug: &'static str, title: &'static str, detail: &'static str) -> Self {
        Self { status, slug, title, detail, retry_after: None }
    }

    const fn unavailable(slug: &'static str, title: &'static str, retry_after: Duration) -> Self {
        let detail = "nothing was changed: send the request again after the time in Retry-After";
        Self { status: StatusCode::SERVICE_UNAVAILABLE, slug, title, detail, retry_after: Some(retry_after) }
    }

    fn of(error: &CacheError) -> Self {
        let soon = Duration::from_secs(1);
        match error {
            CacheError::Key(_) => Self::new(
                StatusCode::BAD_REQUEST,
                "bad-request",
                "The request can't be read",
                "the id in the path is empty: give one",
            ),
            CacheError::Shed { retry_after } => {
                Self::unavailable("load-shed", "Too much is asked of the database", *retry_after)
            }
            CacheError::Load(_) | CacheError::Timeout(_) => {
                Self::unavailable("database-unavailable", "The database is not available", soon)
            }
            CacheError::HeldOff { retry_after } => {
                Self::unavailable("database-unavailable", "The database is not available", *retry_after)
            }
            CacheError::ShuttingDown => Self::unavailable("shutting-down", "The service is shutting down", soon),
            CacheError::Tag(_)
            | CacheError::Panicked
            | CacheError::Unavailable(_)
            | CacheError::NotInTransaction(_) => {
                let detail = "the fault is in the service: tell its operators when it happened";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something went wrong", detail)
            }
        }
    }
}

#[derive(Serialize)]
struct Body {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'static str,
    /// A read changes nothing.
    applied: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, slug, title, detail, retry_after } = self;
        let body = Body {
            r#type: format!("/problems/{slug}"),
            title,
            status: status.as_u16(),
            detail,
            applied: false,
            retry_after_ms: retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)),
        };
        let mut response = json(status, PROBLEM, &body);
        CachePolicy::no_store().write(response.headers_mut());
        if let Some(wait) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(status::whole_up(wait)));
        }
        response
    }
}

impl<R: IntoResponse> IntoResponse for CachedRejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::Key(rejection) => rejection.into_response(),
            Self::Absent(info) => {
                let mut response = Refusal::NOT_FOUND.into_response();
                info.write(&CachePolicy::default(), response.headers_mut());
                response
            }
            Self::Cache { error, degraded, forced } => {
                let mut response = Refusal::of(&error).into_response();
                let status = match error {
                    _ if degraded => Some(status::degraded(forced)),
                    CacheError::Shed { .. } => Some(status::shed(forced)),
                    _ => None,
                };
                response.headers_mut().extend(status.map(|text| (CACHE_STATUS, HeaderValue::from_static(text))));
                response
            }
        }
    }
}
