use super::{Failure, SaleError, Scheme};

/// Why the lab refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LabError {
    /// The service does not sell by this scheme.
    #[error("the service does not sell by this scheme: {}", .0.elsewhere().unwrap_or_default())]
    Elsewhere(Scheme),
    /// As many sales as are allowed are under way, or a new run is about to begin.
    #[error("too many sales of the scheme are under way")]
    Full,
    /// Sales were under way for the whole wait.
    #[error("sales of the scheme are under way")]
    Selling,
    /// There is no connection to Redis.
    #[error("there is no connection to the Redis of the locks")]
    Redis(#[source] Failure),
    /// The sale did not end in time.
    #[error("the sale did not end in time")]
    Unfinished,
    /// A command had no answer, or a sale could not be recorded.
    #[error("it is not known what was done")]
    Unknown(#[source] Failure),
    /// A statement outside the sale failed.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// The sale broke off.
    #[error(transparent)]
    Sale(SaleError),
}
