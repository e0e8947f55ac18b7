//! One conditional `UPDATE`: nothing is read before, so nothing can have changed since. The best there is where the
//! whole decision fits into one statement.

use super::{Sale, SaleError, World};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let update = sqlx::query("update stock set quantity = quantity - 1 where quantity > 0");
    let changed = update.execute(&world.postgres).await?.rows_affected();
    Ok(if changed == 1 { Sale::Sold } else { Sale::SoldOut })
}
