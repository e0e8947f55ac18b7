//! Codes of errors of Postgres, by the names of its manual (appendix A).

use std::borrow::Cow;

use sqlx::error::DatabaseError;

pub(crate) const FEATURE_NOT_SUPPORTED: &str = "0A000";
pub(crate) const READ_ONLY: &str = "25006";
pub(crate) const IDLE_IN_TRANSACTION: &str = "25P03";
pub(crate) const INVALID_SCHEMA_NAME: &str = "3F000";
pub(crate) const SERIALIZATION_FAILURE: &str = "40001";
pub(crate) const DEADLOCK_DETECTED: &str = "40P01";
pub(crate) const UNDEFINED_COLUMN: &str = "42703";
pub(crate) const UNDEFINED_FUNCTION: &str = "42883";
pub(crate) const UNDEFINED_TABLE: &str = "42P01";
pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";
pub(crate) const QUERY_CANCELED: &str = "57014";
/// The code with which the functions of this crate's schema refuse an ownership that is not the newest.
pub(super) const REFUSED: &str = "ST001";

/// The code, when the server answered with one.
pub(crate) fn sqlstate(error: &sqlx::Error) -> Option<&str> {
    let code = error.as_database_error().and_then(DatabaseError::code)?;
    // The code borrows from the error. Only a driver that makes codes up would own one; Postgres' driver does not.
    match code {
        Cow::Borrowed(code) => Some(code),
        Cow::Owned(_) => None,
    }
}
