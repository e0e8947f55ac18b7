use std::fmt;

use sqlx::PgPool;
use stockade::cache::{Bloom, CacheError};

use super::opening_stock;
use crate::{db, domain::Sku, orders::OrderLine};

/// SKUs per statement: a few hundred kilobytes of arguments at most.
const BATCH: usize = 1_000;

// A row that exists is not changed, and neither is its ledger. So a second run, or a run after one that broke off, adds
// only the missing rows. A SKU that was deleted has a ledger and no row; it is created again. This needs no lock and no
// fence: the primary key lets a row be created once, and existing rows are not changed. language=PostgreSQL
const INSERT: &str = "
    with created as (
        insert into stock (sku, quantity)
        select sku, quantity from unnest($1::text[], $2::bigint[]) as opening (sku, quantity)
        on conflict (sku) do nothing
        returning sku, quantity, version
    )
    insert into movement (sku, kind, delta, quantity, version, reference)
    select sku, 'seed', quantity, quantity, version, 'opening' from created
";

/// Why nothing was created, or nothing after the first batches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedingError {
    /// The database refused.
    #[error("has `inventory migrate` run?")]
    Database(#[from] sqlx::Error),
    /// Instances use a filter of the SKUs that exist, and the seed was not told where it is.
    #[error(
        "instances ask a filter which SKUs there are, and would not find new ones: set CACHE_REDIS_URL or REDIS_URL as \
         they have it"
    )]
    Untold,
    /// The filter did not confirm the new SKUs.
    #[error("the filter of SKUs could not be told: is the Redis of the cache there?")]
    Filter(#[from] CacheError),
}

/// The result of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seeded {
    /// SKUs named by the lines.
    pub skus: u64,
    /// SKUs created, each with its opening movement.
    pub created: u64,
}

impl fmt::Display for Seeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} SKUs, {} created, {} there before", self.skus, self.created, self.skus - self.created)
    }
}

/// Creates the [`opening_stock`] of every SKU of the lines that has no stock row, each with a movement in the ledger.
/// Running it again changes nothing. Run it before instances serve: it holds no lock and tells no cache, so an instance
/// that looked for a SKU earlier may still remember its absence.
///
/// # Errors
///
/// [`SeedingError`]. Rows of earlier batches stay.
pub async fn seed(pool: &PgPool, lines: &[OrderLine], filter: Option<&Bloom>) -> Result<Seeded, SeedingError> {
    let opening: Vec<_> = opening_stock(lines).into_iter().collect();
    let mut created = 0;
    for batch in opening.chunks(BATCH) {
        created += create(pool, batch, filter).await?;
    }
    Ok(Seeded { skus: opening.len() as u64, created })
}

/// Creates the SKUs that are missing, and adds them to the filter before the commit.
async fn create(pool: &PgPool, batch: &[(&Sku, i64)], filter: Option<&Bloom>) -> Result<u64, SeedingError> {
    let (skus, quantities): (Vec<Sku>, Vec<i64>) =
        batch.iter().map(|(sku, quantity)| ((*sku).clone(), *quantity)).unzip();
    let names: Vec<&str> = skus.iter().map(Sku::as_str).collect();
    let mut tx = pool.begin().await?;
    let is_told = db::sku_filter::is_announced(&mut tx).await?;
    let created = sqlx::query(INSERT).bind(names).bind(quantities).execute(&mut *tx).await?.rows_affected();
    if created > 0 && is_told {
        filter.ok_or(SeedingError::Untold)?.add(&skus).await?;
    }
    tx.commit().await?;
    Ok(created)
}
