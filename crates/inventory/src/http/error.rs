//! Turns an internal error into a problem: the log has the whole error, the client gets a part.

use std::error::Error;

use stockade::{
    cache::{CacheError, LoadError},
    extract::CachedRejection,
    lock::LockError,
    postgres::{CommitError, FenceError},
    route_lock::{self, Rejection},
};

use super::{Problem, ProblemType, refusal::SOON};
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
        match problem.problem_type() {
            ProblemType::Internal => tracing::error!(error = &error as &dyn Error, "a statement failed"),
            _ => tracing::warn!(error = &error as &dyn Error, "the database is not available"),
        }
        problem
    }
}

fn of_statement(error: &sqlx::Error) -> Problem {
    match error {
        sqlx::Error::PoolTimedOut => {
            metrics::database_timed_out();
            Problem::database_unavailable("no connection was free in time")
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            Problem::database_unavailable("there is no connection")
        }
        sqlx::Error::Database(error) => of_sqlstate(error.code().as_deref().unwrap_or_default()),
        _ => ProblemType::Internal.into(),
    }
}

fn of_sqlstate(code: &str) -> Problem {
    match code {
        LOCK_NOT_AVAILABLE | DEADLOCK_DETECTED | SERIALIZATION_FAILURE => ProblemType::FenceBusy.into(),
        QUERY_CANCELED => Problem::database_unavailable("a statement took too long"),
        IDLE_IN_TRANSACTION => Problem::database_unavailable("the transaction stood still for too long"),
        READ_ONLY => Problem::database_unavailable("it accepts no writes"),
        UNDEFINED_TABLE | UNDEFINED_COLUMN | INVALID_SCHEMA_NAME => {
            tracing::error!("the schema is missing or old: run `inventory migrate`");
            Problem::database_unavailable("it is not ready for this version of the service")
        }
        // Connection exceptions, too many connections or too little memory, shutting down or starting.
        code if ["08", "53", "57P"].iter().any(|class| code.starts_with(class)) => {
            Problem::database_unavailable("there is no connection")
        }
        _ => ProblemType::Internal.into(),
    }
}

impl From<FenceError> for Problem {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::Sqlx(error) => error.into(),
            FenceError::Rejected { .. } => {
                metrics::fence_rejected();
                tracing::warn!(error = &error as &dyn Error, "a stale holder was kept from writing");
                ProblemType::FenceStale.into()
            }
            FenceError::Busy(_) => {
                tracing::warn!(error = &error as &dyn Error, "the fence was not free in time");
                ProblemType::FenceBusy.into()
            }
            FenceError::Lost(_) => {
                tracing::warn!(error = &error as &dyn Error, "the lock was lost before the write");
                ProblemType::LeaseLost.into()
            }
            FenceError::Schema { .. } => {
                tracing::error!("{error}; `inventory migrate` does that");
                Self::database_unavailable("it is not ready for this version of the service")
            }
            _ => {
                tracing::error!(error = &error as &dyn Error, "no transaction under this lock");
                ProblemType::Internal.into()
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
                ProblemType::StrictCacheUnavailable.into()
            }
            CommitError::Unknown(_) => {
                tracing::error!(error = &error as &dyn Error, "nobody knows whether the transaction was applied");
                ProblemType::OutcomeUnknown.into()
            }
            _ => {
                tracing::error!(error = &error as &dyn Error, "the transaction was rolled back");
                ProblemType::Internal.into()
            }
        }
    }
}

/// A refusal of a route lock.
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
            Refused::LockStoreUnavailable => Self::with_retry_after(ProblemType::LockStoreUnavailable, retry_after),
            Refused::FenceStale => ProblemType::FenceStale.into(),
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
                tracing::error!(error = &error as &dyn Error, "a lock could not be asked for");
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

fn of_counter(error: &LinkError) -> Problem {
    tracing::warn!(error = error as &dyn Error, "no answer of a flash sale's counter");
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
            CacheError::Shed { retry_after } => Self::with_retry_after(ProblemType::LoadShed, *retry_after),
            CacheError::ShuttingDown => ProblemType::ShuttingDown.into(),
            CacheError::Unavailable(_) => {
                tracing::warn!(error = error as &dyn Error, "the cache store did not confirm an invalidation");
                ProblemType::CacheStoreUnavailable.into()
            }
            CacheError::HeldOff { .. } => Self::database_unavailable("the loads of this row keep failing"),
            CacheError::Load(error) => of_load(error),
            CacheError::Timeout(_) => {
                tracing::warn!(error = error as &dyn Error, "a load took too long");
                Self::database_unavailable("it did not answer in time")
            }
            _ => {
                tracing::error!(error = error as &dyn Error, "the cache gave no answer");
                ProblemType::Internal.into()
            }
        }
    }
}

fn of_load(error: &LoadError) -> Problem {
    tracing::warn!(error = error.as_ref() as &dyn Error, "a load failed");
    error.downcast_ref().map_or(Problem::database_unavailable("a load failed"), of_statement)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
