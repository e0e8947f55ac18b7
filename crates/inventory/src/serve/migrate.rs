use std::process::ExitCode;

use crate::{
    config::{ConfigError, DatabaseArgs, EX_CONFIG},
    console,
    db::{self, connect::ConnectError},
};

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
    // Without the service's time-outs: a migration may take as long as it needs.
    let place = db::connect::place(&options);
    let pool = db::connect::one(options).await?;
    let failed = |source| MigrateError::Migrate { place: place.clone(), source };
    let encoding = db::schema::encoding(&pool).await.map_err(|error| failed(error.into()))?;
    if encoding != "UTF8" {
        return Err(MigrateError::Encoding { place, encoding });
    }
    db::schema::migrate(&pool).await.map_err(failed)?;
    pool.close().await;
    Ok(())
}
