use super::{
    World,
    wire::{post, put},
    world::{contender, sku},
};
use crate::contender::{Contender, Failure};

pub(super) const UPDATE: &str = "one conditional UPDATE";
/// How many SKUs are changed.
const SKUS: u32 = 1_000;

/// Adjustments of many SKUs, and the same by a route whose requests have a transaction each.
pub(crate) async fn changes(world: &World) -> Result<Vec<Contender>, Failure> {
    let set =
        |task, turn| put(&format!("/stock/S{}", sku(task, turn, SKUS)), &format!("{{\"quantity\":{}}}", 1_000 + turn));
    let mut contenders = of(world, SKUS).await?;
    contenders.push(contender("stockade, PUT /stock/{sku}, a transaction each", &world.service, set).await?);
    Ok(contenders)
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
        contender("SELECT … FOR UPDATE, a transaction each", &world.floor, to("/for-update")).await?,
        contender(UPDATE, &world.floor, to("/conditional")).await?,
        contender("stockade, POST /stock/{sku}/adjustments", &world.service, adjust).await?,
    ])
}
