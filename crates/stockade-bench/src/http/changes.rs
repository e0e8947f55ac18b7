use super::{
    World,
    wire::{Wire, post, put},
    world::{FLASH, contender, sku},
};
use crate::contender::{Contender, Failure};

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

/// Adjustments that all want the same SKU, and reservations that all want the same flash sale. The service stores the
/// reservations in batches, a moment after they are answered.
pub(crate) async fn changes_of_one(world: &World) -> Result<Vec<Contender>, Failure> {
    let sale = "{\"quantity\":900000,\"per_customer\":1,\"ends_at\":\"2100-01-01T00:00:00Z\"}";
    Wire::connect(&world.service).await?.exchange(&put(&format!("/flash/{FLASH}"), sale)).await?;
    let reserve = |task, turn| {
        let body = format!("{{\"customer\":\"C{task}-{turn}\",\"quantity\":1}}");
        post(&format!("/flash/{FLASH}/reservations"), &body)
    };
    let mut contenders = of(world, 1).await?;
    contenders.push(contender("stockade, POST /flash/{sku}/reservations", &world.service, reserve).await?);
    Ok(contenders)
}

async fn of(world: &World, skus: u32) -> Result<Vec<Contender>, Failure> {
    let body = "{\"delta\":1}";
    let to = |path: &'static str| move |task, turn| post(&format!("{path}/S{}", sku(task, turn, skus)), body);
    let adjust = move |task, turn| post(&format!("/stock/S{}/adjustments", sku(task, turn, skus)), body);
    Ok(vec![
        contender("SELECT … FOR UPDATE, a transaction each", &world.floor, to("/for-update")).await?,
        contender("one conditional UPDATE", &world.floor, to("/conditional")).await?,
        contender("stockade, POST /stock/{sku}/adjustments", &world.service, adjust).await?,
    ])
}
