use super::{
    World,
    wire::post,
    world::{contender, sku},
};
use crate::contender::{Contender, Failure};

/// Adjustments of 1,000 SKUs.
pub(crate) async fn changes(world: &World) -> Result<Vec<Contender>, Failure> {
    of(world, 1_000).await
}

/// Adjustments that all want the same SKU.
pub(crate) async fn changes_of_one(world: &World) -> Result<Vec<Contender>, Failure> {
    of(world, 1).await
}

async fn of(world: &World, skus: u32) -> Result<Vec<Contender>, Failure> {
    let body = "{\"delta\":1}";
    let to = |path: &'static str| move |task, turn| post(&format!("{path}/S{}", sku(task, turn, skus)), body);
    let adjust = move |task, turn| post(&format!("/stock/S{}/adjustments", sku(task, turn, skus)), body);
    Ok(vec![
        contender("the same statements under SELECT … FOR UPDATE", &world.floor, to("/for-update")).await?,
        contender("one conditional UPDATE", &world.floor, to("/conditional")).await?,
        contender("stockade, POST /stock/{sku}/adjustments", &world.service, adjust).await?,
    ])
}
