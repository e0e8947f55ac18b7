//! Turns an internal error into a problem: the log has the whole error, the client gets a part.

use std::error::Error;

use stockade::{
    cache::{CacheError, LoadError},
    extract::CachedRejection,
    lock::LockError,
    postgres::{CommitError, FenceError},
    route_lock::{self, Rejection},
};

use super::{Problem, Retry};
use crate::{
    flash::{FlashError, LinkError},
    metrics,
};

const LOCK_NOT_AVAILABLE: &str = "55P03";
const QUERY_CANCELED: &str = "57014";
const DEADLOCK_DETECTED: &str = "40P01";
const SERIALIZATION_FAILURE: &str = "40001";
const IDLE_IN_TRANSACTION: &str = "25P03";
const READ_ONLY: &str = "25006";
const UNDEFINED_TABLE: &str = "42P01";
const UNDEFINED_COLUMN: &str = "42703";
const INVALID_SCHEMA_NAME: &str = "3F000";

/// An error of a statement before COMMIT was sent: certainly not applied.
impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        let problem = of_statement(&error);
        match problem {
            Self::Internal => tracing::error!(error = &error as &dyn Error, "a statement failed"),
            _ => tracing::warn!(error = &error as &dyn Error, "the database is not available"),
        }
        problem
    }
}

fn of_statement(error: &sqlx::Error) -> Problem {
    match error {
        sqlx::Error::PoolTimedOut => {
            metrics::database_timed_out();
            Problem::DatabaseUnavailable("no connection was free in time")
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            Problem::DatabaseUnavailable("there is no connection")
        }
        sqlx::Error::Database(error) => of_sqlstate(error.code().as_deref().unwrap_or_default()),
        _ => Problem::Internal,
    }
}

fn of_sqlstate(code: &str) -> Problem {
    match code {
        LOCK_NOT_AVAILABLE | DEADLOCK_DETECTED | SERIALIZATION_FAILURE => Problem::FenceBusy,
        QUERY_CANCELED => Problem::DatabaseUnavailable("a statement took too long"),
        IDLE_IN_TRANSACTION => Problem::DatabaseUnavailable("the transaction stood still for too long"),
        READ_ONLY => Problem::DatabaseUnavailable("it accepts no writes"),
        UNDEFINED_TABLE | UNDEFINED_COLUMN | INVALID_SCHEMA_NAME => {
            tracing::error!("the schema is missing or old: run `inventory migrate`");
            Problem::DatabaseUnavailable("it is not ready for this version of the service")
        }
        // Connection exceptions, too many connections or too little memory, shutting down or starting.
        code if ["08", "53", "57P"].iter().any(|class| code.starts_with(class)) => {
            Problem::DatabaseUnavailable("there is no connection")
        }
        _ => Problem::Internal,
    }
}

impl From<FenceError> for Problem {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::Sqlx(error) => error.into(),
            FenceError::Rejected { .. } => {
                metrics::fence_rejected();
                tracing::warn!(error = &error as &dyn Error, "a stale holder was kept from writing");
                Self::FenceStale
            }
            FenceError::Busy(_) => {
                tracing::warn!(error = &error as &dyn Error, "the fence was not free in time");
                Self::FenceBusy
            }
            FenceError::Lost(_) => {
                tracing::warn!(error = &error as &dyn Error, "the lock was lost before the write");
                Self::LeaseLost
            }
            FenceError::Schema { .. } => {
                tracing::error!("{error}; `inventory migrate` does that");
                Self::DatabaseUnavailable("it is not ready for this version of the service")
            }
            _ => {
                tracing::error!(error = &error as &dyn Error, "no transaction under this lock");
                Self::Internal
            }
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::NotApplied(error) => error.into(),
            CommitError::Announce(_) => {
                tracing::warn!(
                    error = &error as &dyn Error,
                    "a write was rolled back, since the Redis of the cache could not be told"
                );
                Self::StrictCacheUnavailable
            }
            CommitError::Unknown(_) => {
                tracing::error!(error = &error as &dyn Error, "nobody knows whether the transaction was applied");
                Self::OutcomeUnknown
            }
            _ => {
                tracing::error!(error = &error as &dyn Error, "the transaction was rolled back");
                Self::Internal
            }
        }
    }
}

/// A refusal of a route lock.
impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        use route_lock::Problem as Refused;
        let retry = rejection.retry_after().map_or_else(Retry::default, Retry);
        match rejection.problem() {
            Refused::BadRequest => Self::BadRequest("the request can't be read".into()),
            Refused::BodyTimeout => Self::BodyTimeout,
            Refused::BodyTooLarge => Self::BodyTooLarge,
            Refused::LockTimeout => Self::LockTimeout(retry),
            Refused::QueueFull => Self::QueueFull(retry),
            Refused::NestedLock => Self::NestedLock,
            Refused::LockStoreUnavailable => Self::LockStoreUnavailable(retry),
            Refused::FenceStale => Self::FenceStale,
            Refused::LeaseLost => Self::LeaseLost,
            Refused::OutcomeUnknown => Self::OutcomeUnknown,
            Refused::ShuttingDown => Self::ShuttingDown,
            // No route of this service switches protocols.
            _ => Self::Internal,
        }
    }
}

/// A lock asked for outside a route lock.
impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Key(_) => Self::BadRequest("there is no lock of this name".into()),
            LockError::Unavailable { retry_after, .. } => Self::LockStoreUnavailable(Retry(retry_after)),
            LockError::ShuttingDown => Self::ShuttingDown,
            LockError::Lost { .. } => Self::LeaseLost,
            LockError::Busy { .. } | LockError::Timeout { .. } => Self::LockTimeout(Retry::default()),
            LockError::QueueFull { .. } => Self::QueueFull(Retry::default()),
            _ => {
                tracing::error!(error = &error as &dyn Error, "a lock could not be asked for");
                Self::Internal
            }
        }
    }
}

/// A flash sale that refuses, or does not answer.
impl From<FlashError> for Problem {
    fn from(error: FlashError) -> Self {
        match error {
            FlashError::SoldOut => Self::SoldOut,
            FlashError::LimitReached => Self::LimitReached,
            FlashError::Mismatch => Self::IdempotencyMismatch,
            FlashError::Backlog => Self::LoadShed(Retry::default()),
            FlashError::Counter(error) => of_counter(&error),
        }
    }
}

fn of_counter(error: &LinkError) -> Problem {
    tracing::warn!(error = error as &dyn Error, "no answer of a flash sale's counter");
    match error {
        LinkError::Open(after) => Problem::LockStoreUnavailable(Retry(*after)),
        LinkError::Down(_) | LinkError::Refused(_) => Problem::LockStoreUnavailable(Retry::default()),
        LinkError::Unanswered(_) | LinkError::Unreadable(_) => Problem::OutcomeUnknown,
    }
}

/// A read that the cache did not answer.
impl From<&CachedRejection<Self>> for Problem {
    fn from(rejection: &CachedRejection<Self>) -> Self {
        match rejection {
            CachedRejection::Key(problem) => problem.clone(),
            CachedRejection::Absent(_) => super::ledger::NO_STOCK,
            CachedRejection::Cache { error, .. } => error.into(),
            _ => Self::Internal,
        }
    }
}

/// A read that has no answer, or an invalidation without confirmation.
impl From<&CacheError> for Problem {
    fn from(error: &CacheError) -> Self {
        match error {
            CacheError::Shed { retry_after } => Self::LoadShed(Retry(*retry_after)),
            CacheError::ShuttingDown => Self::ShuttingDown,
            CacheError::Unavailable(_) => {
                tracing::warn!(error = error as &dyn Error, "the cache store did not confirm an invalidation");
                Self::CacheStoreUnavailable
            }
            CacheError::HeldOff { .. } => Self::DatabaseUnavailable("the loads of this row keep failing"),
            CacheError::Load(error) => of_load(error),
            CacheError::Timeout(_) => {
                tracing::warn!(error = error as &dyn Error, "a load took too long");
                Self::DatabaseUnavailable("it did not answer in time")
            }
            _ => {
                tracing::error!(error = error as &dyn Error, "the cache gave no answer");
                Self::Internal
            }
        }
    }
}

fn of_load(error: &LoadError) -> Problem {
    tracing::warn!(error = error.as_ref() as &dyn Error, "a load failed");
    error.downcast_ref().map_or(Problem::DatabaseUnavailable("a load failed"), of_statement)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_counter_that_was_asked_and_did_not_answer_leaves_the_outcome_unknown() {
        let after = Duration::from_millis(300);
        for (error, problem) in [
            (LinkError::Open(after), Problem::LockStoreUnavailable(Retry(after))),
            (LinkError::Down(None), Problem::LockStoreUnavailable(Retry::default())),
            (LinkError::Unanswered(None), Problem::OutcomeUnknown),
        ] {
            assert_eq!(Problem::from(FlashError::Counter(error)), problem);
        }
    }

    #[test]
    fn what_the_database_says_decides_the_problem() {
        for (code, name) in [
            ("55P03", "fence-busy"),
            ("57014", "database-unavailable"),
            ("57P01", "database-unavailable"),
            ("53300", "database-unavailable"),
            ("08006", "database-unavailable"),
            ("42P01", "database-unavailable"),
            ("23514", "internal"),
            ("22021", "internal"),
        ] {
            let document = of_sqlstate(code).document(None);
            assert!(document.contains(&format!("/problems/{name}\"")), "{code}: {document}");
        }
    }
}
