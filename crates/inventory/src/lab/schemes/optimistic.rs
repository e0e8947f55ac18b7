//! A version that the update compares: the second of two buyers reads again. Right in every case; under contention most
//! of the work is thrown away, and nobody is promised a turn.

use tokio::time::Instant;

use super::{Sale, SaleError, World};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let asked = Instant::now();
    while asked.elapsed() < world.patience {
        let (quantity, version): (i64, i64) =
            sqlx::query_as("select quantity, version from stock").fetch_one(&world.postgres).await?;
        if quantity < 1 {
            return Ok(Sale::SoldOut);
        }
        world.think().await?;
        let update = sqlx::query("update stock set quantity = $1, version = version + 1 where version = $2");
        let changed = update.bind(quantity - 1).bind(version).execute(&world.postgres).await?.rows_affected();
        if changed == 1 {
            return Ok(Sale::Sold);
        }
    }
    Err(SaleError::Busy("others were faster, again and again"))
}
