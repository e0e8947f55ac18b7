//! Whether the database is what this version of the service needs.

use sqlx::{PgPool, migrate::Migrator};

/// The migrations of the service. The library brings its own schema.
pub static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// Whether the newest migration has been applied, and the library's schema is there. One round trip; a missing table is
/// an answer, not an error.
///
/// # Errors
///
/// Whatever else the database answers.
pub async fn is_current(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let newest = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
    // Checked at run time, not by `query!`: the tables belong to sqlx and to the library, and this asks whether they exist.
    // language=PostgreSQL
    let current = sqlx::query_scalar(
        "select exists (select from _sqlx_migrations where version = $1 and success)
            and exists (select from stockade.schema_version where version >= $2)",
    )
    .bind(newest)
    .bind(stockade::postgres::SCHEMA_VERSION)
    .fetch_one(pool)
    .await;
    match current {
        Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("42P01" | "3F000")) => Ok(false),
        other => other,
    }
}

/// Brings the database up to date: the library's schema, then the service's migrations. Idempotent; instances that do it
/// together take turns.
///
/// # Errors
///
/// [`sqlx::migrate::MigrateError`].
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    stockade::postgres::install(pool).await.map_err(sqlx::migrate::MigrateError::Execute)?;
    MIGRATOR.run(pool).await
}
