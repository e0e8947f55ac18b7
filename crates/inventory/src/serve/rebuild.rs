//! `inventory filter`: rebuilds the filter of the SKUs that exist.

use std::{process::ExitCode, time::Duration};

use stockade::cache::CacheError;

use super::{Args, StartError, filter, redis::connect};
use crate::{
    config::Config,
    console,
    db::{self, connect::ConnectError},
};

/// How long the end of the connection may take.
const LAST: Duration = Duration::from_secs(1);

/// Arguments of `inventory filter`.
#[derive(Clone, Debug, clap::Args)]
pub struct FilterArgs {
    #[command(subcommand)]
    command: FilterCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum FilterCommand {
    /// Read all SKUs again, after stock was created or restored by other means than the service. It takes the settings
    /// of `serve`. The present filter answers meanwhile.
    Rebuild(Box<Args>),
}

#[derive(Debug, thiserror::Error)]
enum FilterError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the filter was not built: are Redis and the database there, and has `inventory migrate` run?")]
    Build(#[from] CacheError),
}

/// Runs the command.
pub async fn rebuild_filter(args: FilterArgs) -> ExitCode {
    let FilterCommand::Rebuild(args) = args.command;
    match rebuild(&args).await {
        Ok(()) => {
            console::out("the filter was built again");
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::error(&error);
            match error {
                FilterError::Start(error) => error.exit_code(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn rebuild(args: &Args) -> Result<(), FilterError> {
    let config = Config::new(args).map_err(StartError::from)?;
    let pool = db::connect::one(config.database.options.clone()).await?;
    let redis = connect("CACHE_REDIS_URL", &config.cache.redis, &config, true).await?;
    let filter = filter::open(&redis, &pool).map_err(StartError::from)?;
    let built = filter.rebuild().await;
    filter.shutdown(LAST).await;
    pool.close().await;
    Ok(built?)
}
