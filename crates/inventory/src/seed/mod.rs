//! `inventory seed`: opening stock for every SKU of a file of order lines.

mod insert;
mod opening;

pub use insert::{Seeded, seed};
pub use opening::opening_stock;

use std::{path::PathBuf, process::ExitCode};

use crate::{
    config::{ConfigError, DatabaseArgs, EX_CONFIG},
    console,
    db::{self, connect::ConnectError},
    orders::{Orders, OrdersError},
};

/// Arguments of `inventory seed`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The order lines: CSV with the columns InvoiceNo, StockCode and Quantity.
    #[arg(long, env = "SEED_CSV", value_name = "FILE")]
    pub csv: PathBuf,
    /// Look only at the first N lines that move stock.
    #[arg(long, env = "SEED_LIMIT", value_name = "N")]
    pub limit: Option<usize>,
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
    #[error("can't seed the database at {place}: has `inventory migrate` run?")]
    Seed { place: String, source: sqlx::Error },
}

/// Seeds, and prints what was created.
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
    let orders = Orders::load(&args.csv, args.limit).await?;
    let place = db::connect::place(&options);
    let pool = db::connect::one(options).await?;
    let seeded = seed(&pool, &orders.lines).await.map_err(|source| SeedError::Seed { place, source })?;
    pool.close().await;
    Ok((seeded, orders))
}
