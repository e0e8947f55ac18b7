use std::error::Error;

use crate::cache::{CacheError, LoadError};

/// A loader returns this error if the row is at fault and not the database, for instance if a text can't be parsed.
/// Such a failure never counts against the database. It may be a `source` of the loader's own error.
///
/// ```
/// # use stockade::cache::RowError;
/// fn quantity(text: &str) -> Result<u32, RowError> {
///     text.parse().map_err(RowError::new)
/// }
/// # assert!(quantity("many").is_err());
/// ```
///
/// Some errors of sqlx count as errors of the row without being wrapped: a row that can't be decoded, a row that is
/// missing, and content that Postgres can't compute with (SQLSTATE class 22).
#[derive(Clone, Debug, thiserror::Error)]
#[error("the row can't be loaded, although its source answers: mend the row, or the loader")]
pub struct RowError(#[source] LoadError);

impl RowError {
    /// An error of the row, for the given reason.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(LoadError::new(reason))
    }
}

/// Whether the error or one of its sources says that the row is at fault.
pub(crate) fn is_of_the_row(error: &LoadError) -> bool {
    chain(error).any(|error| error.is::<RowError>() || is_of_sqlx(error))
}

/// Whether the loader reads another cache, and that one did not ask the database.
pub(crate) fn is_refused(error: &LoadError) -> bool {
    let refused = |error: &CacheError| matches!(error, CacheError::Shed { .. } | CacheError::HeldOff { .. });
    chain(error).any(|error| error.downcast_ref().is_some_and(refused))
}

fn chain(error: &LoadError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let error: &(dyn Error + 'static) = &**error;
    std::iter::successors(Some(error), |&error| error.source())
}

#[cfg(feature = "postgres")]
fn is_of_sqlx(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref() {
        Some(sqlx::Error::Database(error)) => error.code().is_some_and(|code| code.starts_with("22")),
        Some(sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound) => true,
        _ => false,
    }
}

#[cfg(not(feature = "postgres"))]
fn is_of_sqlx(_: &(dyn Error + 'static)) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] RowError);

    #[test]
    fn a_row_at_fault_is_known_behind_other_errors_and_nothing_else_is_one() {
        assert!(is_of_the_row(&LoadError::new(RowError::new("garbage"))));
        assert!(is_of_the_row(&LoadError::new(Wrapped(RowError::new("garbage")))));
        // The loader reads another cache, and gives its error on.
        let nested = CacheError::Load(LoadError::new(RowError::new("garbage")));
        assert!(is_of_the_row(&LoadError::new(nested)));
        let shed = CacheError::Shed { retry_after: std::time::Duration::ZERO };
        assert!(is_refused(&LoadError::new(shed)) && !is_refused(&LoadError::new(CacheError::Panicked)));
        assert!(!is_of_the_row(&LoadError::new(std::io::Error::other("the database is down"))));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn what_sqlx_can_not_decode_is_a_row_at_fault_and_a_lost_connection_is_not() {
        let garbled = sqlx::Error::ColumnDecode { index: "quantity".to_owned(), source: "garbage".into() };
        assert!(is_of_the_row(&LoadError::new(garbled)));
        assert!(!is_of_the_row(&LoadError::new(sqlx::Error::PoolTimedOut)));
    }
}
