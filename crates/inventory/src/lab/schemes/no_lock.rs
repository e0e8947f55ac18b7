//! No lock: two buyers read the same stock, and the second overwrites what the first wrote.

use super::{Failure, Sale, World, read_think_write};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, Failure> {
    let mut postgres = world.postgres.acquire().await?;
    read_think_write(world, &mut postgres).await
}
