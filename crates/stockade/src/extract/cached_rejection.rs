use axum::{
    http::HeaderValue,
    response::{IntoResponse, Response},
};

use super::{CACHE_STATUS, CachePolicy, status};
use crate::{
    cache::{CacheError, CacheInfo},
    route_lock::{Problem, Rejection},
};

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
    },
}

/// A read that got no answer. It changed nothing. Only an invalidation, or the change of a filter, can have an
/// unknown effect, mostly after a commit.
impl From<&CacheError> for Rejection {
    fn from(error: &CacheError) -> Self {
        match error {
            CacheError::Key(error) => error.clone().into(),
            CacheError::Shed { retry_after } => Self::new(Problem::LoadShed).with_retry_after(*retry_after),
            CacheError::Load(_) | CacheError::Timeout(_) => Problem::DatabaseUnavailable.into(),
            CacheError::HeldOff { retry_after } => {
                Self::new(Problem::DatabaseUnavailable).with_retry_after(*retry_after)
            }
            CacheError::ShuttingDown => Problem::ShuttingDown.into(),
            CacheError::Unavailable(_) | CacheError::Filter(_) => Problem::OutcomeUnknown.into(),
            CacheError::Tag(_) | CacheError::Panicked | CacheError::NotInTransaction(_) => Problem::Internal.into(),
        }
    }
}

/// For `?` in a handler that asks a cache itself. The log already says why a load failed.
///
/// ```
/// # use std::borrow::Cow;
/// # use axum::extract::State;
/// # use stockade::{Cache, Resource};
/// use stockade::route_lock::{Problem, Rejection};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
/// # }
///
/// async fn two(State(stocks): State<Cache<Sku, u64>>) -> Result<String, Rejection> {
///     let found = stocks.get(&Sku("85123A".into())).await?;
///     let stock = found.value.ok_or(Problem::NotFound)?;
///     Ok(format!("{stock} are left"))
/// }
/// # let _: axum::routing::MethodRouter<Cache<Sku, u64>> = axum::routing::get(two);
/// ```
impl From<CacheError> for Rejection {
    fn from(error: CacheError) -> Self {
        Self::from(&error)
    }
}

impl<R: IntoResponse> IntoResponse for CachedRejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::Key(rejection) => rejection.into_response(),
            Self::Absent(info) => {
                let mut response = Rejection::new(Problem::NotFound).into_response();
                info.write(&CachePolicy::default(), response.headers_mut());
                response
            }
            Self::Cache { error, degraded } => {
                let mut response = Rejection::from(&error).into_response();
                let status = match error {
                    _ if degraded => Some(status::DEGRADED),
                    CacheError::Shed { .. } => Some(status::SHED),
                    _ => None,
                };
                response.headers_mut().extend(status.map(|text| (CACHE_STATUS, HeaderValue::from_static(text))));
                response
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{cache::LoadError, resource::KeyError};

    #[test]
    fn a_read_without_an_answer_is_retried_when_the_cache_says_so() {
        let (soon, retry_after) = (Duration::from_secs(1), Duration::from_millis(2_500));
        for (error, problem, retry) in [
            (CacheError::Shed { retry_after }, Problem::LoadShed, Some(retry_after)),
            (CacheError::HeldOff { retry_after }, Problem::DatabaseUnavailable, Some(retry_after)),
            (CacheError::Timeout(soon), Problem::DatabaseUnavailable, Some(soon)),
            (CacheError::ShuttingDown, Problem::ShuttingDown, Some(soon)),
            (CacheError::Key(KeyError::Empty), Problem::BadRequest, None),
            (CacheError::Panicked, Problem::Internal, None),
            (CacheError::Filter(LoadError::new("frozen")), Problem::OutcomeUnknown, None),
            // An invalidation that Redis did not confirm, mostly after a commit.
            (CacheError::Unavailable(LoadError::new("frozen")), Problem::OutcomeUnknown, None),
        ] {
            let rejection = Rejection::from(&error);
            assert_eq!((rejection.problem(), rejection.retry_after()), (problem, retry), "{error}");
            assert_eq!(rejection.applied(), (problem != Problem::OutcomeUnknown).then_some(false), "{error}");
        }
    }
}
