//! Turns an internal error into a problem: the log has the whole error, the client gets a part.

use stockade::{
    cache::{CacheError, LoadError},
    extract::CachedRejection,
    lock::LockError,
    postgres::{CommitError, FenceError, WriteError},
    route_lock::{self, Rejection},
};

use super::{Problem, ProblemType, problem::SOON};
use crate::{
    console::chain,
    flash::{FlashError, LinkError},
    metrics,
};

/// A statement that failed before COMMIT was sent: certainly not applied.
impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        WriteError::from(error).into()
    }
}

impl From<FenceError> for Problem {
    fn from(error: FenceError) -> Self {
        WriteError::from(error).into()
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        WriteError::from(error).into()
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        count(&error);
        let problem = Self::from(Rejection::from(&error));
        match problem.problem_type() {
            ProblemType::Internal | ProblemType::OutcomeUnknown => {
                tracing::error!(error = %chain(&error), "a request failed at the database");
            }
            _ => tracing::warn!(error = %chain(&error), "a request failed at the database"),
        }
        problem
    }
}

fn count(error: &WriteError) {
    match error {
        WriteError::Fence(FenceError::Rejected { .. }) => metrics::fence_rejected(),
        WriteError::Fence(FenceError::Sqlx(error))
        | WriteError::Statement(error)
        | WriteError::Commit(CommitError::NotApplied(error)) => count_statement(error),
        _ => {}
    }
}

fn count_statement(error: &sqlx::Error) {
    if matches!(error, sqlx::Error::PoolTimedOut) {
        metrics::database_timed_out();
    }
}

/// A refusal of a route lock, or a write that failed.
impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        use route_lock::Problem as Refused;
        let retry_after = rejection.retry_after().unwrap_or(SOON);
        match rejection.problem() {
            Refused::BadRequest => Self::bad_request("the request can't be read"),
            Refused::BodyTimeout => ProblemType::BodyTimeout.into(),
            Refused::BodyTooLarge => ProblemType::BodyTooLarge.into(),
            Refused::LockTimeout => Self::with_retry_after(ProblemType::LockTimeout, retry_after),
            Refused::QueueFull => Self::with_retry_after(ProblemType::QueueFull, retry_after),
            Refused::NestedLock => ProblemType::NestedLock.into(),
            // No retry helps: a foreign value stands in place of a lock.
            Refused::LockStoreUnavailable if rejection.retry_after().is_none() => ProblemType::Internal.into(),
            Refused::LockStoreUnavailable => Self::with_retry_after(ProblemType::LockStoreUnavailable, retry_after),
            Refused::FenceStale => ProblemType::FenceStale.into(),
            Refused::FenceBusy => ProblemType::FenceBusy.into(),
            Refused::DatabaseUnavailable => Self::with_retry_after(ProblemType::DatabaseUnavailable, retry_after),
            Refused::LoadShed => Self::with_retry_after(ProblemType::LoadShed, retry_after),
            Refused::StrictCacheUnavailable => ProblemType::StrictCacheUnavailable.into(),
            Refused::LeaseLost => ProblemType::LeaseLost.into(),
            Refused::OutcomeUnknown => ProblemType::OutcomeUnknown.into(),
            Refused::ShuttingDown => ProblemType::ShuttingDown.into(),
            // No route of this service switches protocols.
            _ => ProblemType::Internal.into(),
        }
    }
}

/// A lock asked for outside a route lock.
impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Key(_) => Self::bad_request("there is no lock of this name"),
            LockError::Unavailable { retry_after, .. } => {
                Self::with_retry_after(ProblemType::LockStoreUnavailable, retry_after)
            }
            LockError::ShuttingDown => ProblemType::ShuttingDown.into(),
            LockError::Lost { .. } => ProblemType::LeaseLost.into(),
            LockError::Busy { .. } | LockError::Timeout { .. } => ProblemType::LockTimeout.into(),
            LockError::QueueFull { .. } => ProblemType::QueueFull.into(),
            _ => {
                tracing::error!(error = %chain(&error), "a lock could not be asked for");
                ProblemType::Internal.into()
            }
        }
    }
}

/// A flash sale that refuses, or does not answer.
impl From<FlashError> for Problem {
    fn from(error: FlashError) -> Self {
        match error {
            FlashError::SoldOut => ProblemType::SoldOut.into(),
            FlashError::LimitReached => ProblemType::LimitReached.into(),
            FlashError::Mismatch => ProblemType::IdempotencyMismatch.into(),
            FlashError::Backlog => ProblemType::LoadShed.into(),
            FlashError::Counter(error) => of_counter(&error),
        }
    }
}

/// A read of a flash sale that its counter does not answer. A read has no outcome that could be unknown.
pub(super) fn unread(error: &LinkError) -> Problem {
    let problem = of_counter(error);
    match problem.problem_type() {
        ProblemType::OutcomeUnknown => ProblemType::LockStoreUnavailable.into(),
        _ => problem,
    }
}

fn of_counter(error: &LinkError) -> Problem {
    // The keeper and `Flash` name it once a minute. Here it would be a line for each request.
    tracing::debug!(error = %chain(error), "no answer of a flash sale's counter");
    match error {
        LinkError::Open(after) => Problem::with_retry_after(ProblemType::LockStoreUnavailable, *after),
        LinkError::Down(_) | LinkError::Refused(_) => ProblemType::LockStoreUnavailable.into(),
        LinkError::Unanswered(_) | LinkError::Unreadable(_) => ProblemType::OutcomeUnknown.into(),
    }
}

/// A read that the cache did not answer.
impl From<&CachedRejection<Self>> for Problem {
    fn from(rejection: &CachedRejection<Self>) -> Self {
        match rejection {
            CachedRejection::Key(problem) => problem.clone(),
            CachedRejection::Absent(_) => super::ledger::NO_STOCK,
            CachedRejection::Cache { error, .. } => error.into(),
            _ => ProblemType::Internal.into(),
        }
    }
}

/// A read that has no answer, or an invalidation without confirmation.
impl From<&CacheError> for Problem {
    fn from(error: &CacheError) -> Self {
        match error {
            CacheError::Load(error) => of_load(error),
            CacheError::Unavailable(_) => {
                tracing::warn!(error = %chain(error), "the cache store did not confirm an invalidation");
                ProblemType::CacheStoreUnavailable.into()
            }
            CacheError::Shed { .. } | CacheError::HeldOff { .. } | CacheError::ShuttingDown => {
                Rejection::from(error).into()
            }
            CacheError::Timeout(_) => {
                tracing::warn!(error = %chain(error), "a load took too long");
                Rejection::from(error).into()
            }
            _ => {
                tracing::error!(error = %chain(error), "the cache gave no answer");
                Rejection::from(error).into()
            }
        }
    }
}

fn of_load(error: &LoadError) -> Problem {
    tracing::warn!(error = %chain(&**error), "a load failed");
    error.downcast_ref::<sqlx::Error>().map_or(ProblemType::DatabaseUnavailable.into(), |error| {
        count_statement(error);
        Rejection::from(error).into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;

    /// As the proxy of a published port of Docker does, or a balancer without a server.
    #[tokio::test]
    async fn a_proxy_that_closes_what_it_took_is_a_database_that_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1");
        let pool = PgPoolOptions::new().connect_lazy_with(options.port(listener.local_addr().unwrap().port()));
        let close = async {
            let (mut client, _) = listener.accept().await.unwrap();
            // The offer of TLS. If it were not read, the end of the connection would be a reset.
            client.read_exact(&mut [0; 8]).await.unwrap();
        };
        let (refused, ()) = tokio::join!(pool.acquire(), close);
        assert_eq!(Problem::from(refused.unwrap_err()).problem_type(), ProblemType::DatabaseUnavailable);
    }

    #[test]
    fn only_a_counter_that_was_asked_and_did_not_answer_leaves_the_outcome_unknown() {
        let after = Duration::from_millis(300);
        for (error, problem) in [
            (LinkError::Open(after), Problem::with_retry_after(ProblemType::LockStoreUnavailable, after)),
            (LinkError::Down(None), ProblemType::LockStoreUnavailable.into()),
            (LinkError::Unanswered(None), ProblemType::OutcomeUnknown.into()),
        ] {
            assert_eq!(Problem::from(FlashError::Counter(error)), problem);
        }
    }
}
