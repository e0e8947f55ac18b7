use stockade::cache::{BuildError, CacheError};

/// Why an attack was not begun, or broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum AttackError {
    /// Another one is under way.
    #[error("an attack is under way")]
    Running,
    /// Postgres did not do what was asked.
    #[error("the database of the attack failed")]
    Sql(#[from] sqlx::Error),
    /// Redis did not do what was asked.
    #[error("the Redis of the attack failed")]
    Redis(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The guarded side can't be set up.
    #[error("the cache of the attack can't be set up")]
    Build(#[from] BuildError),
    /// The guarded side can't be prepared.
    #[error("the cache of the attack failed")]
    Cache(#[from] CacheError),
}
