//! The schema that this version of the service needs.

use std::{sync::LazyLock, time::Duration};

use sqlx::{
    PgPool, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
    postgres::PgConnectOptions,
};
use tokio::time::{Instant, sleep};

/// How long a migration waits for a table that is in use, in milliseconds. Every write queues behind it for as long,
/// so it is less than a write waits. It is more than the second (`deadlock_timeout`) after which who waits for a table
/// ends an autovacuum of it.
const LOCK_TIMEOUT: u32 = 1_400;

/// The pause after such a wait. Writes that queued go on in it.
const PAUSE: Duration = Duration::from_secs(3);

/// Every file of `migrations/`, oldest first, with the description that its name gives it.
const MIGRATIONS: [(i64, &str, &str); 9] = [
    (1, "stock", include_str!("../../../../migrations/0001_stock.sql")),
    (2, "movement", include_str!("../../../../migrations/0002_movement.sql")),
    (3, "idempotency", include_str!("../../../../migrations/0003_idempotency.sql")),
    (4, "transfer", include_str!("../../../../migrations/0004_transfer.sql")),
    (5, "flash", include_str!("../../../../migrations/0005_flash.sql")),
    (6, "sku filter", include_str!("../../../../migrations/0006_sku_filter.sql")),
    (7, "flash generation", include_str!("../../../../migrations/0007_flash_generation.sql")),
    (8, "flash reservation page", include_str!("../../../../migrations/0008_flash_reservation_page.sql")),
    (9, "flash reservation by sale", include_str!("../../../../migrations/0009_flash_reservation_by_sale.sql")),
];

/// The migrations of the service. The library brings its own schema.
pub static MIGRATOR: LazyLock<Migrator> = LazyLock::new(migrator);

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.into_iter().map(|(version, description, sql)| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
}

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
    unless_missing(current)
}

/// `false` if a table or its schema is missing.
fn unless_missing(is: Result<bool, sqlx::Error>) -> Result<bool, sqlx::Error> {
    match is {
        Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("42P01" | "3F000")) => Ok(false),
        other => other,
    }
}

/// The name of the encoding of the database.
pub async fn encoding(pool: &PgPool) -> Result<String, sqlx::Error> {
    sqlx::query_scalar("select current_setting('server_encoding')").fetch_one(pool).await
}

/// Brings the database up to date: the library's schema, then the service's migrations. Idempotent; instances that do
/// it together take turns.
///
/// # Errors
///
/// [`MigrateError`].
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    stockade::postgres::install(pool).await.map_err(MigrateError::Execute)?;
    let first = "select exists (select from _sqlx_migrations where version = 1)";
    let is_ours = unless_missing(sqlx::query_scalar(first).fetch_one(pool).await)?;
    // After a rollback of the program the database has later migrations. The instances start on them, too. Those of
    // another program, which has no first one or another, are refused.
    migrator().set_ignore_missing(is_ours).run(pool).await
}

/// The options of a session for [`migrate_beside_others`]. A time-out that the role has by default does not end it: a
/// migration may take as long as it needs.
#[must_use]
pub fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.options([("lock_timeout", LOCK_TIMEOUT), ("statement_timeout", 0)])
}

/// [`migrate`] in a database that is in use, on sessions with the options of [`session`]. While a transaction, such as
/// that of a backup, uses a table that must change, it tries again for `limit` at most, and lets the writes of others
/// pass meanwhile. `waits` is told the oldest transaction before each pause.
///
/// # Errors
///
/// [`MigrateError`]; one that [`is_in_use`] after the limit.
pub async fn migrate_beside_others(
    pool: &PgPool,
    limit: Duration,
    waits: impl Fn(Option<&str>) + Send + Sync,
) -> Result<(), MigrateError> {
    let end = Instant::now() + limit;
    loop {
        match migrate(pool).await {
            Err(error) if is_in_use(&error) && Instant::now() < end => {}
            done => return done,
        }
        let oldest = oldest_transaction(pool).await?;
        waits(oldest.as_deref());
        sleep(PAUSE).await;
    }
}

/// Whether a migration failed because a table was in use for too long (`lock_not_available`).
#[must_use]
pub fn is_in_use(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else { return false };
    error.as_database_error().and_then(|error| error.code()).as_deref() == Some("55P03")
}

/// The oldest transaction of the database, for people. `None` if this user may not see it.
async fn oldest_transaction(pool: &PgPool) -> Result<Option<String>, sqlx::Error> {
    const SQL: &str = "select format('pid %s, application %L, since %s', pid, application_name, xact_start)
        from pg_stat_activity
        where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
        order by xact_start limit 1";
    sqlx::query_scalar(SQL).fetch_optional(pool).await
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
