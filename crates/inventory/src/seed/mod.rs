//! `inventory seed`: opening stock for every SKU of a file of order lines.

mod insert;
mod opening;

pub use insert::{Seeded, SeedingError, seed};
pub use opening::opening_stock;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use stockade::{Redis, cache::BuildError};

use crate::{
    config::{ConfigError, DatabaseArgs, EX_CONFIG, Secret, parse::secret},
    console,
    db::{self, connect::ConnectError},
    orders::{Orders, OrdersError},
    serve::filter,
};

/// How long the end of a connection may take.
const LAST: Duration = Duration::from_secs(1);

/// Arguments of `inventory seed`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The order lines: CSV with the columns InvoiceNo, StockCode and Quantity.
    #[arg(long, env = "SEED_CSV", value_name = "FILE")]
    pub csv: PathBuf,
    /// Look only at the first N lines that move stock.
    #[arg(long, env = "SEED_LIMIT", value_name = "N")]
    pub limit: Option<usize>,
    /// The Redis of the cache, as instances have it: new SKUs are added to its filter. Needed once an instance has run.
    #[arg(long, env = "CACHE_REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub cache_redis_url: Option<Secret>,
    /// A file that holds CACHE_REDIS_URL.
    #[arg(long, env = "CACHE_REDIS_URL_FILE", value_name = "FILE")]
    pub cache_redis_url_file: Option<String>,
    /// The Redis of the cache, if CACHE_REDIS_URL is not set.
    #[arg(long, env = "REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub redis_url: Option<Secret>,
    /// A file that holds REDIS_URL.
    #[arg(long, env = "REDIS_URL_FILE", value_name = "FILE")]
    pub redis_url_file: Option<String>,
    /// The database, migrated before.
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, thiserror::Error)]
enum SeedError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Orders(#[from] OrdersError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("can't use the Redis of the cache")]
    Redis(#[from] stockade::redis::ConnectError),
    #[error("can't open the filter of SKUs")]
    Filter(#[from] BuildError),
    #[error("can't seed the database at {place}")]
    Seed { place: String, source: SeedingError },
}

/// Seeds, and prints how many SKUs were created, and how many lines were skipped.
pub async fn run(args: Args) -> ExitCode {
    match from_args(args).await {
        Ok((seeded, Orders { lines, skipped })) => {
            console::out(&format!("{} order lines: {seeded}", lines.len()));
            for (reason, count) in skipped {
                console::out(&format!("skipped {count}: {reason}"));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::error(&error);
            if matches!(error, SeedError::Config(_)) { ExitCode::from(EX_CONFIG) } else { ExitCode::FAILURE }
        }
    }
}

async fn from_args(args: Args) -> Result<(Seeded, Orders), SeedError> {
    let options = args.database.options()?;
    let own = secret("CACHE_REDIS_URL", args.cache_redis_url.as_ref(), args.cache_redis_url_file.as_deref())?;
    let common = secret("REDIS_URL", args.redis_url.as_ref(), args.redis_url_file.as_deref())?;
    let orders = Orders::load(&args.csv, args.limit).await?;
    let place = db::connect::place(&options);
    let pool = db::connect::one(options).await?;
    let filter = match own.or(common) {
        Some(url) => Some(filter::open(&Redis::builder(url.expose()).allow_eviction().connect().await?, &pool)?),
        None => None,
    };
    let seeded = seed(&pool, &orders.lines, filter.as_ref()).await;
    if let Some(filter) = filter {
        filter.shutdown(LAST).await;
    }
    let seeded = seeded.map_err(|source| SeedError::Seed { place, source })?;
    pool.close().await;
    Ok((seeded, orders))
}
