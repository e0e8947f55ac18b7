use axum::response::{IntoResponse, Response};
use tracing::field;

use crate::{
    chain::Chain,
    postgres::{
        CommitError, FenceError, WriteError,
        sqlstate::{
            DEADLOCK_DETECTED, FEATURE_NOT_SUPPORTED, IDLE_IN_TRANSACTION, INVALID_SCHEMA_NAME, LOCK_NOT_AVAILABLE,
            QUERY_CANCELED, READ_ONLY, SERIALIZATION_FAILURE, UNDEFINED_COLUMN, UNDEFINED_TABLE, sqlstate,
        },
    },
    route_lock::{Problem, Rejection},
};

impl From<&WriteError> for Rejection {
    fn from(error: &WriteError) -> Self {
        Self::new(match error {
            WriteError::Fence(error) => of_fence(error),
            WriteError::Statement(error) => of_statement(error),
            WriteError::Commit(error) => of_commit(error),
        })
    }
}

/// For an error of a statement that only reads, or of one within a transaction. A write outside of a transaction may
/// have been applied although its answer was lost, and this would say that it was not.
impl From<&sqlx::Error> for Rejection {
    fn from(error: &sqlx::Error) -> Self {
        Self::new(of_statement(error))
    }
}

/// Also writes the error to the log, since the response does not tell it.
impl IntoResponse for WriteError {
    fn into_response(self) -> Response {
        let rejection = Rejection::from(&self);
        let error = field::display(Chain(&self));
        match rejection.problem() {
            Problem::Internal | Problem::OutcomeUnknown => tracing::error!(error, "a write failed"),
            _ => tracing::warn!(error, "a write failed"),
        }
        rejection.into_response()
    }
}

fn of_fence(error: &FenceError) -> Problem {
    match error {
        FenceError::Rejected { .. } => Problem::FenceStale,
        FenceError::Busy(_) => Problem::FenceBusy,
        FenceError::Lost(_) => Problem::LeaseLost,
        FenceError::Shared(_) => Problem::Internal,
        FenceError::Schema { .. } => Problem::DatabaseUnavailable,
        // A standby, which begins no transaction that writes.
        FenceError::Sqlx(error) if sqlstate(error) == Some(FEATURE_NOT_SUPPORTED) => Problem::DatabaseUnavailable,
        FenceError::Sqlx(error) => of_statement(error),
    }
}

fn of_commit(error: &CommitError) -> Problem {
    match error {
        CommitError::NotApplied(error) => of_statement(error),
        CommitError::Announce(_) => Problem::StrictCacheUnavailable,
        CommitError::Closed => Problem::LeaseLost,
        CommitError::Ended | CommitError::Unknown(_) => Problem::OutcomeUnknown,
        CommitError::Key(_) | CommitError::Tag(_) | CommitError::Downgraded => Problem::Internal,
    }
}

/// An error before COMMIT was sent, or in answer to it: certainly not applied.
fn of_statement(error: &sqlx::Error) -> Problem {
    match error {
        sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        // A proxy whose server is away takes a connection and closes it, which is no answer to the offer of TLS.
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => Problem::DatabaseUnavailable,
        error => sqlstate(error).map_or(Problem::Internal, of_sqlstate),
    }
}

fn of_sqlstate(code: &str) -> Problem {
    match code {
        LOCK_NOT_AVAILABLE | DEADLOCK_DETECTED | SERIALIZATION_FAILURE => Problem::FenceBusy,
        QUERY_CANCELED | IDLE_IN_TRANSACTION | READ_ONLY
        // The program runs before its schema is there, or beside an older one.
        | UNDEFINED_TABLE | UNDEFINED_COLUMN | INVALID_SCHEMA_NAME => Problem::DatabaseUnavailable,
        // Connection exceptions, too many connections or too little memory, shutting down or starting.
        code if ["08", "53", "57P"].iter().any(|class| code.starts_with(class)) => Problem::DatabaseUnavailable,
        _ => Problem::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LossReason;

    #[test]
    fn what_the_database_says_decides_the_problem() {
        for (code, problem) in [
            ("55P03", Problem::FenceBusy),
            ("40P01", Problem::FenceBusy),
            ("57014", Problem::DatabaseUnavailable),
            ("57P01", Problem::DatabaseUnavailable),
            ("53300", Problem::DatabaseUnavailable),
            ("08006", Problem::DatabaseUnavailable),
            ("42P01", Problem::DatabaseUnavailable),
            ("23514", Problem::Internal),
            ("22021", Problem::Internal),
        ] {
            assert_eq!(of_sqlstate(code), problem, "{code}");
        }
    }

    #[test]
    fn only_a_commit_without_an_answer_leaves_the_outcome_unknown() {
        let timed_out = || sqlx::Error::PoolTimedOut;
        let errors: [WriteError; 7] = [
            FenceError::Lost(LossReason::Expired).into(),
            FenceError::Busy(timed_out()).into(),
            FenceError::Schema { found: None }.into(),
            timed_out().into(),
            CommitError::Closed.into(),
            CommitError::NotApplied(timed_out()).into(),
            CommitError::Unknown(timed_out()).into(),
        ];
        let problems: Vec<_> = errors.iter().map(|error| Rejection::from(error).problem()).collect();
        let expected = [
            Problem::LeaseLost,
            Problem::FenceBusy,
            Problem::DatabaseUnavailable,
            Problem::DatabaseUnavailable,
            Problem::LeaseLost,
            Problem::DatabaseUnavailable,
            Problem::OutcomeUnknown,
        ];
        assert_eq!(problems, expected);
        for error in errors {
            let rejection = Rejection::from(&error);
            assert_eq!(rejection.applied(), error.applied(), "{error:?}");
            assert_eq!(rejection.retry_after().is_some(), error.applied().is_some(), "{error:?}");
        }
    }
}
