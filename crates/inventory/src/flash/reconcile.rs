//! Makes the counter of a sale from Postgres.

use std::collections::HashMap;

use sqlx::PgPool;

use super::{Flash, Sale, Stage, counter::Entry, link::LinkError};
use crate::db;

/// Rows that are read and sent at once.
const PAGE: i64 = 1000;

/// Why there is no counter.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    #[error(transparent)]
    Redis(#[from] LinkError),
    #[error("the database does not answer")]
    Database(#[from] sqlx::Error),
    #[error("a later counter of this sale was made on another Redis, and this one is not used: is it an old primary?")]
    Superseded,
}

/// Makes the counter of an open sale usable. False: not yet, or not any more; `sale` may be out of date.
///
/// First nothing is let in and nothing is left in the stream (`enter`). Then a generation begins, so that no
/// reservation of an earlier counter is stored any more (`next_generation`). So the stored reservations stay as they
/// are read, and the counter is made of them.
pub(super) async fn settle(flash: &Flash, pg: &PgPool, sale: &Sale) -> Result<bool, ReconcileError> {
    let counter = flash.counter();
    let nonce = format!("{:032x}", rand::random::<u128>());
    let mut sale = sale.clone();
    let mut entry = counter.enter(&sale, &nonce, None).await?;
    if let Entry::Replaced(later) = entry {
        // A generation is committed before its counter is made. So Postgres shows it now, or has lost it.
        sale = flash.answered(db::flash_sale::find(pg, sale.id)).await?;
        if sale.stage == Stage::Open && sale.generation < later {
            tracing::warn!(sku = %sale.sku, "Postgres has lost the newest counter of a sale: it is made again");
            entry = counter.enter(&sale, &nonce, Some(later)).await?;
        }
    }
    let last = match entry {
        Entry::Valid => return Ok(true),
        Entry::Entered(last) => last,
        Entry::Superseded => return Err(ReconcileError::Superseded),
        Entry::Closed => return end(flash, pg, &sale).await,
        // It is opened once this one is closed, and in Postgres first. If Postgres has lost it, it would go on letting
        // reservations in that nobody stores.
        Entry::Later(later) => {
            let newest = flash.answered(db::flash_sale::newest(pg, &sale.sku)).await?;
            if newest.is_some_and(|newest| newest.id < later) {
                counter.close(&sale.sku, later).await?;
            }
            return end(flash, pg, &sale).await;
        }
        Entry::Draining | Entry::Busy | Entry::Replaced(_) => return Ok(false),
    };
    let Some(sale) = flash.answered(db::flash_sale::next_generation(pg, &sale, last)).await? else {
        return Ok(false);
    };
    if !load(flash, pg, &sale, &nonce).await? {
        return Ok(false);
    }
    let installed = counter.install(&sale, &nonce).await?;
    if installed {
        tracing::info!(sku = %sale.sku, sale = %sale.id, left = sale.unsold(), "the counter of a sale was made");
    }
    Ok(installed)
}

/// Ends a sale that Redis has ended. The end is committed before Redis hears of it. So Postgres shows it now, or has
/// lost it.
async fn end(flash: &Flash, pg: &PgPool, sale: &Sale) -> Result<bool, ReconcileError> {
    if flash.answered(db::flash_sale::close_again(pg, sale.id)).await? {
        tracing::warn!(sku = %sale.sku, "Postgres has lost the end of a sale: the sale is closed again");
    }
    Ok(false)
}

/// Loads the units of every customer, and the stored reservations. A rejected one may be asked for again.
async fn load(flash: &Flash, pg: &PgPool, sale: &Sale, nonce: &str) -> Result<bool, ReconcileError> {
    let counter = flash.counter();
    let mut units: HashMap<String, i64> = HashMap::new();
    let mut after = String::new();
    loop {
        let rows = flash.answered(db::flash_reservation::page(pg, sale.id, &after, PAGE)).await?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.id);
        let mut known = Vec::with_capacity(rows.len());
        for row in rows {
            known.push((row.id, format!("{}:{}", row.quantity, row.customer)));
            *units.entry(row.customer).or_default() += row.quantity;
        }
        if !counter.load(&sale.sku, nonce, |keys| &keys.reservations, &known).await? {
            return Ok(false);
        }
    }
    let units: Vec<_> = units.into_iter().map(|(customer, units)| (customer, units.to_string())).collect();
    for page in units.chunks(usize::try_from(PAGE).unwrap_or(usize::MAX)) {
        if !counter.load(&sale.sku, nonce, |keys| &keys.customers, page).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
