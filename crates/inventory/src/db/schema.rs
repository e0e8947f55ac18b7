//! The schema that this version of the service needs.

use std::sync::LazyLock;

use sqlx::{
    PgPool, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

/// Every file of `migrations/`, oldest first, with the description that its name gives it.
const MIGRATIONS: [(i64, &str, &str); 7] = [
    (1, "stock", include_str!("../../../../migrations/0001_stock.sql")),
    (2, "movement", include_str!("../../../../migrations/0002_movement.sql")),
    (3, "idempotency", include_str!("../../../../migrations/0003_idempotency.sql")),
    (4, "transfer", include_str!("../../../../migrations/0004_transfer.sql")),
    (5, "flash", include_str!("../../../../migrations/0005_flash.sql")),
    (6, "sku filter", include_str!("../../../../migrations/0006_sku_filter.sql")),
    (7, "flash generation", include_str!("../../../../migrations/0007_flash_generation.sql")),
];

/// The migrations of the service. The library brings its own schema.
pub static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let migrations = MIGRATIONS.into_iter().map(|(version, description, sql)| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
});

/// Whether the newest migration has been applied, and the library's schema is there. One round trip; a missing table is
/// an answer, not an error.
///
/// # Errors
///
/// Any other error of the database.
pub async fn is_current(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let newest = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
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

/// The name of the encoding of the database.
///
/// # Errors
///
/// The error of the database.
pub async fn encoding(pool: &PgPool) -> Result<String, sqlx::Error> {
    sqlx::query_scalar("select current_setting('server_encoding')").fetch_one(pool).await
}

/// Brings the database up to date: the library's schema, then the service's migrations. Idempotent; instances that do
/// it together take turns.
///
/// # Errors
///
/// [`sqlx::migrate::MigrateError`].
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    stockade::postgres::install(pool).await.map_err(sqlx::migrate::MigrateError::Execute)?;
    MIGRATOR.run(pool).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn the_migrations_are_the_files_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
        let files = Migrator::new(folder).await.unwrap();
        let facts = |migrator: &Migrator| -> Vec<_> {
            let facts = migrator.iter().map(|one| (one.version, one.description.clone(), one.checksum.clone()));
            facts.collect()
        };
        assert_eq!(facts(&MIGRATOR), facts(&files));
    }
}
