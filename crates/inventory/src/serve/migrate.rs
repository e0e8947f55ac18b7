use std::{process::ExitCode, time::Duration};

use crate::{
    config::{ConfigError, DatabaseArgs, EX_CONFIG},
    console,
    db::{self, connect::ConnectError},
};

/// How long a table may be in use before the migration gives up.
const LIMIT: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(
        "the database at {place} has the encoding {encoding}, which lacks characters of SKUs and customers: create it \
         with `encoding 'UTF8' template template0`"
    )]
    Encoding { place: String, encoding: String },
    #[error(
        "a table of the database at {place} was in use for 10 min, or another migration ran: wait for the end of the \
         transaction that uses it, or end it, and run `inventory migrate` again"
    )]
    InUse { place: String, source: sqlx::migrate::MigrateError },
    #[error("can't migrate the database at {place}")]
    Migrate { place: String, source: sqlx::migrate::MigrateError },
}

/// Brings the database up to date. Idempotent.
pub async fn migrate(args: DatabaseArgs) -> ExitCode {
    match run(&args).await {
        Ok(()) => {
            console::out("the database is up to date");
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::error(&error);
            if matches!(error, MigrateError::Config(_)) { ExitCode::from(EX_CONFIG) } else { ExitCode::FAILURE }
        }
    }
}

async fn run(args: &DatabaseArgs) -> Result<(), MigrateError> {
    let options = args.options()?;
    let place = db::connect::place(&options);
    let pool = db::connect::one(db::schema::session(options)).await?;
    let failed = |source| match place.clone() {
        place if db::schema::is_in_use(&source) => MigrateError::InUse { place, source },
        place => MigrateError::Migrate { place, source },
    };
    let encoding = db::schema::encoding(&pool).await.map_err(|error| failed(error.into()))?;
    if encoding != "UTF8" {
        return Err(MigrateError::Encoding { place, encoding });
    }
    db::schema::migrate_beside_others(&pool, LIMIT, waits).await.map_err(failed)?;
    pool.close().await;
    Ok(())
}

fn waits(oldest: Option<&str>) {
    let oldest = oldest.unwrap_or("over by now, or not for this user to see");
    console::note(&format!(
        "a table is in use, or another migration runs: trying again. The oldest transaction: {oldest}"
    ));
}
