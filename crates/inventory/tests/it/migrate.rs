//! `inventory migrate` on a database that is in use, or newer than the program.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use inventory::db::schema::{is_in_use, migrate_beside_others, session};
use sqlx::{PgPool, Postgres, Transaction};
use stockade::postgres::SCHEMA_VERSION;

use crate::{stage::Stage, stock_db::execute};

/// As many old versions of the program write it.
const WRITE: &str = "set lock_timeout = '1800ms'; insert into stockade.outbox (cache, resource) values ('stock', 'a')";

/// What a backup holds while it reads.
async fn backup(stage: &Stage) -> Transaction<'_, Postgres> {
    let mut backup = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stockade.outbox in access share mode").execute(&mut *backup).await.unwrap();
    backup
}

async fn version(stage: &Stage) -> i32 {
    sqlx::query_scalar("select version from stockade.schema_version").fetch_one(&stage.pool).await.unwrap()
}

#[tokio::test]
async fn a_database_of_a_later_version_of_the_program_is_up_to_date() {
    let stage = Stage::start().await;
    let later = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values (9999, 'later', true, '', 0)";
    execute(&stage.pool, later).await;
    let (status, output) = stage.run("migrate", &[]).await;
    assert!(status.success() && output.contains("up to date"), "{output}");
}

#[tokio::test]
async fn a_time_out_of_the_role_does_not_end_a_migration() {
    let stage = Stage::start().await;
    // As a new version with a migration that takes a second.
    execute(
        &stage.pool,
        "create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return new; end $$;
        create trigger slow before insert on _sqlx_migrations for each row execute function slow();
        delete from _sqlx_migrations where version = 9;
        create index flash_reservation_by_sale on flash_reservation (sale);
        alter role current_user set statement_timeout = '1ms'",
    )
    .await;
    let (status, output) = stage.run("migrate", &[]).await;
    assert!(status.success() && output.contains("up to date"), "{output}");
}

#[tokio::test]
async fn a_standby_is_no_place_for_a_migration_or_the_service() {
    let stage = Stage::start().await;
    stage.postgres.restart_as_standby().await.unwrap();
    let (status, output) = stage.run("migrate", &[]).await;
    assert!(!status.success() && output.contains("is a standby: point DATABASE_URL at the primary"), "{output}");
    let instance = stage.serve(&[]).await;
    let ready = instance.get("/readyz").await;
    assert_eq!((ready.status.as_u16(), ready.problem().as_str()), (503, "database-unavailable"), "{ready:?}");
    assert_eq!(instance.get("/stock/A").await.status, 503, "its row would be cached for the whole fleet");
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let stage = Stage::start().await;
    // That of another program has migrations as well, and none of them is the first one here.
    execute(&stage.pool, "delete from _sqlx_migrations").await;
    let other = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values (20240101, 'other', true, '', 0)";
    execute(&stage.pool, other).await;
    let (status, output) = stage.run("migrate", &[]).await;
    assert!(!status.success() && output.contains("20240101"), "{output}");
    assert_eq!(stage.count("select count(*) from _sqlx_migrations").await, 1);
}

#[tokio::test]
async fn a_migration_behind_a_backup_lets_writes_pass_and_ends_after_it() {
    let stage = Stage::start().await;
    execute(&stage.pool, "update stockade.schema_version set version = 1").await;
    let backup = backup(&stage).await;
    let migration = async {
        let (status, output) = stage.run("migrate", &[]).await;
        assert!(status.success() && output.contains("in use, or another migration runs: trying again"), "{output}");
    };
    let others = async {
        let waiting = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and not granted";
        crate::stage::until("the migration waits", async || stage.count(waiting).await == 1).await;
        execute(&stage.pool, WRITE).await;
        assert_eq!(version(&stage).await, 1, "the backup goes on");
        backup.commit().await.unwrap();
    };
    tokio::join!(migration, others);
    assert_eq!(version(&stage).await, SCHEMA_VERSION);
}

#[tokio::test]
async fn a_migration_gives_up_at_its_limit_and_names_what_it_waited_for() {
    let stage = Stage::start().await;
    execute(&stage.pool, "update stockade.schema_version set version = 1").await;
    let backup = backup(&stage).await;
    let pool = PgPool::connect_with(session(stage.database_url.parse().unwrap())).await.unwrap();
    let waits = AtomicU32::new(0);
    let told = |oldest: Option<&str>| {
        assert!(oldest.is_some_and(|oldest| oldest.contains("pid ")));
        waits.fetch_add(1, Ordering::Relaxed);
    };
    let refused = migrate_beside_others(&pool, Duration::from_secs(4), told).await.unwrap_err();
    assert!(is_in_use(&refused), "{refused:?}");
    assert!(waits.into_inner() > 0);
    drop(backup);
}
