//! Stockade's lock: first come, first served, renewed while it is held. With its fence the transaction begins by
//! claiming the row of the resource, so that a holder that lost its lock can't commit.

use super::{Sale, SaleError, World, read_think_write};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let lock = world.locks.write(&world.sku).wait(world.patience).acquire().await?;
    let mut tx = lock.begin(&world.postgres).await?;
    let sale = read_think_write(world, &mut tx).await?;
    tx.commit().await?;
    // Committed under the fence, the sale stands, even if the lock was lost meanwhile.
    let _ = lock.release().await;
    Ok(sale)
}

/// The lock alone. A holder that was stopped beyond its lease goes on to write over what its successors wrote.
pub(in crate::lab) async fn sell_unfenced(world: &World) -> Result<Sale, SaleError> {
    let lock = world.locks.write(&world.sku).wait(world.patience).acquire().await?;
    let mut postgres = world.postgres.acquire().await?;
    let sale = read_think_write(world, &mut postgres).await?;
    // The release is the first to tell that the lock was lost, and comes too late: the sale stands in the table.
    let _ = lock.release().await;
    Ok(sale)
}
