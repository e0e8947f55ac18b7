use std::fmt;

use sqlx::PgPool;

use super::opening_stock;
use crate::orders::OrderLine;

/// SKUs per statement: a few hundred kilobytes of arguments at most.
const BATCH: usize = 1_000;

// A row that exists is left alone, and so is its ledger: a second run adds only what is missing, and so does one after
// a run that broke off. A SKU that was deleted has a ledger and no row; it is created anew. This needs no lock and no
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

/// What a seed created.
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
/// Running it again changes nothing. Meant to run before instances serve: it holds no lock and tells no cache, so one
/// that looked for a SKU earlier may remember its absence for as long as it keeps absent rows.
///
/// # Errors
///
/// The database's; what earlier batches created stays.
pub async fn seed(pool: &PgPool, lines: &[OrderLine]) -> Result<Seeded, sqlx::Error> {
    let opening: Vec<_> = opening_stock(lines).into_iter().map(|(sku, quantity)| (sku.as_str(), quantity)).collect();
    let mut created = 0;
    for batch in opening.chunks(BATCH) {
        let (skus, quantities): (Vec<&str>, Vec<i64>) = batch.iter().copied().unzip();
        created += sqlx::query(INSERT).bind(skus).bind(quantities).execute(pool).await?.rows_affected();
    }
    Ok(Seeded { skus: opening.len() as u64, created })
}
