//! `SELECT … FOR UPDATE`: the row itself is the lock. Right in every case, for what one database holds; each buyer that
//! waits keeps a connection busy.

use super::{Sale, SaleError, World};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let mut tx = world.postgres.begin().await?;
    let quantity: i64 = sqlx::query_scalar("select quantity from stock for update").fetch_one(&mut *tx).await?;
    if quantity < 1 {
        return Ok(Sale::SoldOut);
    }
    world.think().await?;
    sqlx::query("update stock set quantity = $1").bind(quantity - 1).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(Sale::Sold)
}
