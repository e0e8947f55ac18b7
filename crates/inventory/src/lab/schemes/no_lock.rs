//! No lock: two buyers read the same stock, and the second overwrites what the first wrote.

use super::{Sale, SaleError, World, read_think_write};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let mut postgres = world.postgres.acquire().await?;
    read_think_write(world, &mut postgres).await
}
