use std::process::ExitCode;

use crate::{
    config::{ConfigError, DatabaseArgs, EX_CONFIG},
    console, db,
};

#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("can't connect to the database")]
    Connect(#[source] sqlx::Error),
    #[error("can't migrate the database")]
    Migrate(#[from] sqlx::migrate::MigrateError),
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
    // Without the service's time-outs: a migration may take as long as it needs.
    let pool = db::connect::one(options).await.map_err(MigrateError::Connect)?;
    db::schema::migrate(&pool).await?;
    pool.close().await;
    Ok(())
}
